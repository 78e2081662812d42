"""Models that people drop on the page: read here, kept in memory while the server runs, never on disk between two answers.

A handle (`own:` and a hash of the content) stands for the file wherever a request names a model. Files are only read: a
config.json, the header of a GGUF file, or a workload file of `gpuwise capture`. This module runs in the server (`OwnModels`) and
in its workers (`described`, `lent`), which write a file into a folder of their own for as long as one answer takes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuwise.core.encoding import to_json
from gpuwise.core.errors import BadFile, BadValue
from gpuwise.core.text import plain
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.gguf_header import read_header
from gpuwise.workload.language.weight_formats import published_format
from gpuwise.workload.store import files

__all__ = ["MOST_BYTES", "PREFIX", "Own", "OwnModels", "described", "lent", "named", "own_file", "without_folder"]

MOST_BYTES = 24 * 2**20  # the header of a GGUF file with the largest vocabulary is near half of this
PREFIX = "own:"
_MOST_KEPT = 32
_MOST_KEPT_BYTES = 128 * 2**20
_MOST_UNPACKED = 64 * 2**20
_KEYS = ("model", "models")
_GZIP, _GGUF = b"\x1f\x8b", b"GGUF"
_CAPTURE = "run `gpuwise capture MODEL -o model.json.gz` on the command line, and drop the file that it writes"
_READ = "a model's config.json, a GGUF file or a gpuwise workload file"


@dataclass(frozen=True, slots=True)
class Own:
    """A file as it was dropped: what it is called in a request, its name for people, and its bytes."""

    handle: str
    name: str
    content: bytes = field(repr=False)


class OwnModels:
    """The files that are kept, the ones used last: few, and bounded in memory."""

    def __init__(self, most: int = _MOST_KEPT, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, tuple[Own, bytes]] = OrderedDict()

    def keep(self, own: Own, description: bytes) -> None:
        """Keep a file that was understood, and discard those that have been unused for longest."""
        self._kept[own.handle] = (own, description)
        self._kept.move_to_end(own.handle)
        while len(self._kept) > self._most or sum(len(one.content) for one, _ in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)

    def description(self, handle: str) -> bytes | None:
        """What was found in the file of this handle; None where it is not kept."""
        return self._kept[handle][1] if handle in self._kept else None

    def meant(self, options: Mapping[str, Any]) -> tuple[tuple[Own, ...], str]:
        """The files that a request names, and the first handle that stands for none."""
        found = []
        for handle in dict.fromkeys(name for name in named(options) if name.startswith(PREFIX)):
            if handle not in self._kept:
                return (), handle
            self._kept.move_to_end(handle)
            found.append(self._kept[handle][0])
        return tuple(found), ""


def own_file(name: str, content: bytes) -> Own:
    """A dropped file with its handle. The same content has the same handle, and no other has it."""
    return Own(PREFIX + hashlib.sha256(content).hexdigest()[:20], name, content)


def named(options: Mapping[str, Any]) -> list[str]:
    """The models that a request names."""
    given = [options.get(key) or [] for key in _KEYS]
    return [name for one in given for name in ([one] if isinstance(one, str) else one)]


# ---------------------------------------------------------------- in a worker


@contextlib.contextmanager
def lent(options: Mapping[str, Any], own: Sequence[Own]) -> Iterator[tuple[dict[str, Any], str]]:
    """The options with the paths of files in place of handles, and the folder that these are in until the answer is there."""
    if not own:
        yield dict(options), ""
        return
    with tempfile.TemporaryDirectory(prefix="gpuwise-") as folder:
        paths = {one.handle: str(_written(one, Path(folder))) for one in own}
        changed = dict(options)
        for key in _KEYS:
            value = changed.get(key)
            if isinstance(value, str):
                changed[key] = paths.get(value, value)
            elif value:
                changed[key] = [paths.get(name, name) for name in value]
        yield changed, folder


def described(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the file at `model` holds, under its handle and its name; an error says what is wrong with it."""
    path = Path(options["model"])
    is_step = path.suffix == ".gz" or (path.suffix == ".json" and files.is_workload(path))
    return {"model": options["handle"], "file": options["file"], **(_workload(path) if is_step else _language(path))}


def _written(own: Own, folder: Path) -> Path:
    """The file with the ending of what is in it, whatever it was called."""
    if own.content[:4] == _GGUF:
        ending = ".gguf"
    elif own.content[:2] == _GZIP:
        _check_unpacked(own)
        ending = ".json.gz"
    else:
        ending = ".json"
        if own.content.lstrip()[:1] != b"{":
            raise BadFile(f"{plain(own.name)} is not a model file that the page can read", hint=f"drop {_READ}")
    inside = folder / own.handle.removeprefix(PREFIX)[:8]
    inside.mkdir(exist_ok=True)
    path = inside / f"{_title(own)}{ending}"
    path.write_bytes(own.content)
    if ending == ".gguf":  # of a file of any size, the page sends the beginning
        with contextlib.suppress(BadFile):  # whoever reads the model says what is wrong with it
            os.truncate(path, min(len(own.content), read_header(path).data_start))
    return path


def _check_unpacked(own: Own) -> None:
    """Refuse what unpacks to far more than any workload has, before anything tries to read it."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        size = len(unpacker.decompress(own.content, _MOST_UNPACKED + 1))
    except zlib.error as fault:
        raise BadFile(f"{plain(own.name)} cannot be unpacked: {fault}", hint=f"drop {_READ}") from None
    if size > _MOST_UNPACKED:
        raise BadFile(
            f"{plain(own.name)} unpacks to more than {_MOST_UNPACKED // 2**20} MiB",
            hint=_CAPTURE,
        )


def _title(own: Own) -> str:
    """A file name of plain letters: the name of the file, or for a config.json the name that it gives its model."""
    stem = re.sub(r"(?i)(\.json|\.gz|\.gguf)+$", "", Path(own.name.replace("\\", "/")).name)
    if stem.lower() in ("config", ""):
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            stem = str(json.loads(own.content).get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip(".-")[:60] or "your-model"


def _language(path: Path) -> dict[str, Any]:
    """A decoder by its sizes."""
    try:
        shape = find_shape(str(path))
    except BadValue as fault:
        if "encoder" in fault.message:  # its steps can be captured, but not read from its sizes
            raise BadValue(fault.message, looked_in=fault.looked_in, hint=_CAPTURE) from None
        raise
    return {
        "kind": "language",
        "title": shape.name,
        "parameters": shape.parameters,
        "weights": published_format(str(path), shape),
        "layers": shape.layers,
        "context": shape.context,
        "mode": "infer",
        "notes": [f"The answers are for text generation. To train the model, {_CAPTURE}."],
    }


def _workload(path: Path) -> dict[str, Any]:
    """A captured step."""
    found = files.read(path)
    return {
        "kind": "workload",
        "title": found.model,
        "parameters": found.parameters,
        "mode": found.mode,
        "precision": found.precision,
        "batch": found.batch,
        "seq": found.seq,
        "sizes": list(found.symbols),
        "notes": list(found.notes),
    }


def without_folder(content: bytes, folder: str) -> bytes:
    """An answer without the places where files lay on this server's disk."""
    if not folder:
        return content
    return re.sub(re.escape(to_json(folder).strip(b'"')) + rb"/(?:[0-9a-f]{8}/)?", b"", content)
