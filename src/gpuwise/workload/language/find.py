"""Finds the sizes of a language model from a name, or from the path of a config.json or GGUF file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, UnknownName
from gpuwise.hardware.tables import parse_toml
from gpuwise.workload.capture.huggingface import configs as huggingface
from gpuwise.workload.capture.huggingface.known import known_row, table
from gpuwise.workload.language.configs import model_types, shape_of_config
from gpuwise.workload.language.names import key_of, shorter, without_sizes
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["find_shape", "is_known_name", "known_id", "known_names", "named_shape", "twin_of"]

_KEPT = 256
# Models with layers that keep a state of fixed size, by name.
_RECURRENT = re.compile(r"nemotron[\W_]*(?:h|3|nano)|mamba|jamba|zamba|rwkv|qwen3[\W_]*next|falcon[\W_]*h1|granite[\W_]*4|lfm2")
_FILES = (".json", ".gguf", ".py", ".gz")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_WORDS = 64  # vocabularies are often padded to a multiple of this
_NEAR = 0.1  # a name whose parameter count differs from the model's by more than this means another model


def find_shape(name: str) -> LanguageShape:
    """Return the sizes of the model with this name, or in a config.json or GGUF file at this path."""
    path = Path(name)
    if name.endswith(".json") or (name.endswith(".gguf") and ("/" in name or _is(path.is_file))):
        return _shape_of_file(path)
    row = _row_of(name.removeprefix("hf:"))
    if row is not None:
        return _shape_of_row(row)
    if name.startswith("hf:"):  # a model downloaded to this machine may not be in any table
        return shape_of_config(name.removeprefix("hf:"), huggingface.find_config(name).config)
    if name and _is((path / "config.json").is_file):
        return _shape_of_file(path / "config.json")
    raise _unknown(name)


def is_known_name(name: str) -> bool:
    """Return whether this can only be a name in our tables, and not the name of a file, a folder or code."""
    if "/" in name:
        return name.lower() in _by_id()
    return not name.endswith(_FILES) and not set(name) & set(":\\") and _row_of(name) is not None


def known_id(name: str) -> str:
    """Return the model's name in our tables, usually its id on the Hugging Face Hub, or an empty string if it is not listed.
    Another publisher's id, such as unsloth/Qwen3-8B, stands for the model it is named after.
    """
    if is_known_name(name) or (_HUB_ID.fullmatch(name) and not name.endswith(_FILES)):
        return _row_of(name) or ""
    return ""


def named_shape(name: str) -> LanguageShape | None:
    """Return the sizes of a model in our tables, by name alone, or None if it is not listed."""
    return _shape_of_row(row) if (row := known_id(name)) else None


def twin_of(name: str) -> tuple[str, LanguageShape] | None:
    """Return the values that models in our tables share if their steps are the same: their type and their sizes, ignoring values
    that hardly affect a step (a slightly larger vocabulary, the width of an MLP that no layer has, the longest context, and how
    far layers look back). None if the name is not listed.
    """
    row = known_id(name)
    if not row:
        return None
    shape = _shape_of_row(row)
    words = -(-shape.vocabulary // _WORDS) * _WORDS
    dense = shape.intermediate if shape.routed_layers < shape.layers else 0
    same = replace(shape, name="", vocabulary=words, intermediate=dense, context=0, window=0, window_layers=0)
    return _configs()[row]["model_type"], same


def known_names() -> tuple[str, ...]:
    """Return the decoder models in the tables, by their names there."""
    return tuple(_configs())


# ---------------------------------------------------------------- files


def _is(asked: Callable[[], bool]) -> bool:
    """Check a path on disk; a path that no file can have does not exist."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def _shape_of_file(path: Path) -> LanguageShape:
    if not _is(path.is_file) and not _is(path.is_dir):
        raise BadFile(f"file {str(path)[:200]} not found", hint="pass the path of a model's config.json or GGUF file")
    if path.suffix == ".gguf" and path.is_file():
        held = path.stat()
        return _shape_of_gguf(path, held.st_mtime_ns, held.st_size)
    if path.suffix == ".gguf":
        from gpuwise.workload.language.gguf import read_gguf  # few questions name a file

        return read_gguf(path).shape  # a folder, which is refused
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return shape_of_config(name or path.name, huggingface.read_config(path))


@lru_cache(maxsize=_KEPT)
def _shape_of_gguf(path: Path, changed_ns: int, size: int) -> LanguageShape:
    """Cached until the file changes. The header alone determines the sizes."""
    from gpuwise.workload.language.gguf import read_gguf

    return read_gguf(path, allow_header_only=True).shape


# ---------------------------------------------------------------- names


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return parse_toml((files("gpuwise.workload") / "data" / "language_names.toml").read_text(encoding="utf-8"))


@cache
def _configs() -> Mapping[str, Mapping[str, Any]]:
    """Return the configurations of all decoders in the tables, by name."""
    types = set(model_types())
    ours: dict[str, Mapping[str, Any]] = {}
    for name, row in _tables()["configs"].items():
        ours[name] = {**ours.get(row.get("like", ""), {}), **row}
    known = {name: known_row(name) for name in table()}
    return {name: row for name, row in {**known, **ours}.items() if row["model_type"] in types}


@cache
def _keys() -> tuple[Mapping[tuple[str, ...], str], Mapping[tuple[str, ...], str]]:
    """Return the tables' names by their keys, in full and shortened. Entries in `language_names.toml` come first."""
    spelt = list(_tables()["names"].items()) + [(name, name) for name in _configs()]
    whole: dict[tuple[str, ...], str] = {}
    short: dict[tuple[str, ...], str] = {}
    for name, row in spelt:
        whole.setdefault(key_of(name), row)
        short.setdefault(shorter(key_of(name)), row)
    return whole, short


@cache
def _by_id() -> Mapping[str, str]:
    return {row.lower(): row for row in _configs()}


def _row_of(name: str) -> str | None:
    """Return the model in the tables that this name means."""
    if (found := _by_id().get(name.lower())) is not None:
        return found
    key = key_of(name)
    if not key:
        return None
    whole, short = _keys()
    found = whole.get(key) or short.get(shorter(key))
    if found is not None:
        return found
    bare, count = without_sizes(shorter(key))
    found = short.get(bare) if count else None
    if found is not None and abs(_shape_of_row(found).parameters / count - 1) < _NEAR:
        return found
    return None


@lru_cache(maxsize=_KEPT)
def _shape_of_row(row: str) -> LanguageShape:
    return shape_of_config(row, _configs()[row])


def _unknown(name: str) -> UnknownName:
    if _RECURRENT.search(name[:200].lower()):
        return UnknownName(
            f"some layers of '{name[:80]}' keep a fixed-size state instead of using attention",
            looked_in=f"{len(_configs())} decoders with attention layers only",
            hint="choose a model with attention layers only, such as `Qwen3-14B`; gpuwise does not support this kind yet",
        )
    spelt = {" ".join(key): row for keys in _keys() for key, row in keys.items()}
    close = difflib.get_close_matches(" ".join(key_of(name)), spelt, n=8, cutoff=0.5)
    near = list(dict.fromkeys(spelt[match].rpartition("/")[2] for match in close))[:3]
    guess = "did you mean " + " or ".join(f"`{other}`" for other in near) + "? Otherwise, " if near else ""
    return UnknownName(
        f"unknown language model '{name[:80]}'",
        looked_in=f"{len(_configs())} decoders and their aliases",
        hint=f"{guess}pass the path of the model's config.json or GGUF file",
    )
