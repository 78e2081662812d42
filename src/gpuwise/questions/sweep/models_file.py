"""Reads a list of models, one per line: names, `file.py:Net`, workload files; `#` starts a comment. One error lists all bad
lines.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from gpuwise.core.errors import BadFile, GpuwiseError, MissingExtra
from gpuwise.core.files import check_readable
from gpuwise.core.text import either
from gpuwise.workload import find
from gpuwise.workload.capture.registry import PREFIXES, source_of
from gpuwise.workload.store import files
from gpuwise.workload.store.zoo import close, has

__all__ = ["digests", "read_models", "resolve_model"]

_PACKAGES = {"timm": "timm", "torchvision": "torchvision", "hf": "transformers", "keras": "keras"}
_TOLD = 20


def read_models(path: Path, *, here: bool) -> tuple[str, ...]:
    """The models of the list, in its order. `here` is whether they are captured on this machine, so that what they need must be
    installed on it."""
    check_readable(path, "give a text file with one model per line")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise BadFile(
            f"the list of models '{path}' cannot be read: {fault.strerror}", hint="give a text file with one model per line"
        ) from None
    except UnicodeDecodeError:
        raise BadFile(
            f"'{path}' is not a text file", hint="give a text file with one model per line, such as `resnet50`"
        ) from None
    found: dict[str, int] = {}
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        model = _model_of(line)
        if not model:
            continue
        told = f"repeats line {found[model]}" if model in found else _fault(model, here)
        if told:
            faults.append(f"line {number}: {model}: {told}")
        found.setdefault(model, number)
    if faults:
        shown = "".join(f"\n  {fault}" for fault in faults[:_TOLD]) + ("\n  …" if len(faults) > _TOLD else "")
        raise BadFile(
            f"{len(faults)} of the models in {path} cannot be used{shown}",
            hint="correct these lines or comment them out with `#`; nothing has been computed yet",
        )
    if not found:
        raise BadFile(f"{path} lists no models", hint="write one model per line, such as `resnet50` or `my_model.py:Net`")
    return tuple(found)


def _model_of(line: str) -> str:
    """The model of a line.

    >>> _model_of("resnet50   # the usual one")
    'resnet50'
    """
    return "" if line.lstrip().startswith("#") else line.split(" #")[0].split("\t#")[0].strip()


def _fault(model: str, here: bool) -> str:
    """What is wrong with a name, as far as it shows without running anything."""
    try:
        if has(model):
            return ""
        found = _file(model)
        if found is not None:
            return _file_fault(model, found[0])
        if ":" not in model:
            near = close(model)
            return "not an included model" + (f"; did you mean {either(near)}?" if near else "")
        source_of(model)
        package = _PACKAGES.get(model.partition(":")[0])
        if here and package and find_spec(package) is None:
            raise MissingExtra(package, extra=model.partition(":")[0], needed_for=model)
    except GpuwiseError as fault:
        return f"{fault.message}" + (f" ({fault.hint})" if isinstance(fault, MissingExtra) else "")
    return ""


def _file_fault(model: str, file: Path) -> str:
    if not file.is_file():
        return f"file '{file}' not found"
    if find.tells_itself(model) and model.endswith(files.ENDINGS):
        files.read(file)  # raises where it is not a complete workload
    return ""


def _file(model: str) -> tuple[Path, str] | None:
    """The file that a model is in, where its name says so, and what is named inside it.

    >>> _file("my.py:Net") == (Path("my.py"), ":Net"), _file("timm:resnet50")
    (True, None)
    """
    if model.partition(":")[0] in PREFIXES:
        return None
    if model.endswith((*files.ENDINGS, ".py")):
        return Path(model), ""
    head, colon, inside = model.rpartition(":")
    return (Path(head), colon + inside) if head.endswith(".py") else None


def resolve_model(model: str) -> str:
    """The same model for a worker in another folder: files by their whole path."""
    found = None if has(model) else _file(model)
    return model if found is None else f"{found[0].resolve()}{found[1]}"


def digests(models: tuple[str, ...]) -> dict[str, str]:
    """A digest of every file that is named: another content is another question."""
    named = {model: _file(model) for model in models if not has(model)}
    return {model: hashlib.sha256(found[0].read_bytes()).hexdigest()[:16] for model, found in named.items() if found is not None}
