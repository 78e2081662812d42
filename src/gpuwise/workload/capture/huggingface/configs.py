"""Finds the hyperparameters of a Hugging Face model offline: in the local cache, the built-in table, or a config.json.

Reads only JSON: no code that comes with a model is ever run, and nothing is downloaded. transformers interprets the values.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, UnknownName
from gpuwise.core.files import home
from gpuwise.core.text import either
from gpuwise.workload.capture.huggingface.hub_names import TYPES, relative_of
from gpuwise.workload.capture.huggingface.known import known_row, table

__all__ = ["Found", "cache_folders", "find_config", "is_listed", "read_config", "reason"]

_LARGEST_BYTES = 4 * 2**20
_LONGEST_ID = 200
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_HINT = "download config.json from the model page and pass its path: `path/to/config.json`"
# Keys that would name code, kernels or files to load.
_LEFT_OUT = frozenset(
    "auto_map custom_pipelines quantization_config compression_config attn_implementation experts_implementation use_kernels "
    "kernel_config dtype torch_dtype base_model_tp_plan base_model_pp_plan transformers_version gradient_checkpointing".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A configuration as in config.json, and where it was found."""

    config: Mapping[str, Any]
    where: str
    notes: tuple[str, ...] = ()


def find_config(model: str, *, classifying: bool = False) -> Found:
    """Return the configuration for `hf:ID` or for a path to a config.json, or of a classifier made from that model."""
    found = _find(model)
    return replace(found, config=_with_head(found.config, "ForSequenceClassification")) if classifying else found


def _find(model: str) -> Found:
    prefix, colon, name = model.partition(":")
    if not (colon and prefix == "hf"):
        path = Path(model)
        return _cleaned(read_config(path), f"`{path.name}`")
    if not _ID.fullmatch(name) or ".." in name or len(name) > _LONGEST_ID:
        raise BadValue(f"invalid Hugging Face id '{name}'", hint="try `hf:gpt2` or `hf:meta-llama/Llama-2-7b-hf`")
    known = _known_name(name)
    for repository in dict.fromkeys((name, known, *_repositories(known))):
        cached = _cached(repository) if repository else None
        if cached is not None:
            return _cleaned(read_config(cached), "the local Hugging Face cache")
    if known is not None:
        return _cleaned(known_row(known), f"gpuwise's table ({_source(known)})")
    relative = relative_of(name)
    if relative is None:
        raise _unknown(name)
    found = _cleaned(_with_head(known_row(relative.row), relative.head), f"gpuwise's table ({_source(relative.row)})")
    return replace(found, notes=(*found.notes, relative.why))


def is_listed(name: str) -> bool:
    """Return whether the table has the encoder or encoder-decoder that this id names or was made from."""
    if _ID.fullmatch(name) is None or ".." in name:
        return False
    known = _known_name(name)
    return relative_of(name) is not None if known is None else known_row(known)["model_type"] in TYPES


def _with_head(config: Mapping[str, Any], head: str) -> Mapping[str, Any]:
    """Return the configuration with another head instead of the one for pre-training."""
    if not head:
        return config
    return {**config, "architectures": [str(named).partition("For")[0] + head for named in config.get("architectures", ())]}


def _cleaned(config: Mapping[str, Any], where: str) -> Found:
    """Remove whatever would load code or kernels. Quantised weights are captured as plain ones, with a note."""
    notes = [f"hyperparameters come from {where}"]
    if config.get("quantization_config"):
        notes.append("the config specifies quantised weights, but unquantised weights were captured")
    kept = {key: value for key, value in config.items() if key not in _LEFT_OUT and not key.startswith("_")}
    return Found(config=kept, where=where, notes=tuple(notes))


# ---------------------------------------------------------------- the built-in table


def _source(name: str) -> str:
    return f"https://huggingface.co/{table()[name].get('repo', name)}/blob/main/config.json"


def _repositories(name: str | None) -> tuple[str, ...]:
    repository = table()[name].get("repo") if name is not None else None
    return (repository,) if repository is not None else ()


def _known_name(name: str) -> str | None:
    """Return the row for an id, by its name or its current location, ignoring case."""
    wanted = name.lower()
    for row in table():
        if wanted in (row.lower(), *(repository.lower() for repository in _repositories(row))):
            return row
    return None


def _unknown(name: str) -> UnknownName:
    short = {row.lower(): row for row in table()} | {row.rpartition("/")[2].lower(): row for row in table()}
    wanted = (name.lower(), name.rpartition("/")[2].lower())
    near = [match for text in wanted for match in difflib.get_close_matches(text, short, n=3, cutoff=0.6)]
    names = list(dict.fromkeys(short[match] for match in near))[:3]
    guess = "did you mean " + either(f"`hf:{other}`" for other in names) + "? Otherwise, " if names else ""
    return UnknownName(
        f"no configuration for '{name}' was found on this machine",
        looked_in=f"{', '.join(str(folder) for folder in cache_folders())} and the {len(table())} models known to gpuwise",
        hint=guess + _HINT,
    )


# ---------------------------------------------------------------- the local cache


def cache_folders() -> tuple[Path, ...]:
    """Return the folders where the Hugging Face libraries store downloads, from their documented environment variables."""
    base = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "huggingface"
    named = [os.environ.get(name) for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE")]
    return tuple(dict.fromkeys(Path(folder).expanduser() for folder in (*named, Path(base) / "hub") if folder))


def _cached(repository: str) -> Path | None:
    """Return a repository's cached config.json: of its main revision, or else of the newest one there."""
    for folder in cache_folders():
        base = folder / f"models--{repository.replace('/', '--')}"
        try:
            revision = (base / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            revision = ""
        if revision and (path := base / "snapshots" / Path(revision).name / "config.json").is_file():
            return path
        found = [path for path in base.glob("snapshots/*/config.json") if path.is_file()]
        if found:
            return max(found, key=lambda path: path.stat().st_mtime)
    return None


# ---------------------------------------------------------------- a file


def read_config(path: Path) -> dict[str, Any]:
    """Return the JSON object in a config.json that names a model type; BadFile says what any other file lacks."""
    hint = 'pass the config.json of a Hugging Face model, which contains a line such as "model_type": "bert"'
    if path.is_dir():
        raise BadFile(f"{path} is a folder, not a config.json", hint=f"pass the file in it: `{path / 'config.json'}`")
    if not path.exists():
        raise BadFile(f"file {path} not found", hint=hint)
    if not path.is_file():
        raise BadFile(f"{path} is not a regular file", hint=hint)
    if (size := path.stat().st_size) > _LARGEST_BYTES:
        raise BadFile(f"{path} is {size / 1e6:.0f} MB in size, which is too large for a model configuration", hint=hint)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise BadFile(f"{path} cannot be read: {fault.strerror}", hint=hint) from None
    except (ValueError, RecursionError) as fault:
        raise BadFile(f"{path} is not JSON: {str(fault)[:120]}", hint=hint) from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        what = "contains no JSON object" if not isinstance(config, dict) else 'has no "model_type"'
        raise BadFile(f"{path} is not a model configuration: it {what}", hint=hint)
    heads = config.get("architectures")
    if heads is not None and not (isinstance(heads, list) and all(isinstance(head, str) for head in heads)):
        raise BadFile(
            f'{path} has "architectures": {json.dumps(heads)[:60]}, which is not a list of names',
            hint='use a list such as "architectures": ["BertForMaskedLM"], or leave out the line',
        )
    return config


def reason(fault: BaseException) -> str:
    """Return the type and first words of an exception, in one line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    return f"{type(fault).__name__}: {' '.join(lines)[:200]}"
