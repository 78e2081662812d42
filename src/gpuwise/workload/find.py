"""From what a user names as MODEL to a workload: the zoo, a workload file, or a capture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuwise.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.workload import capture, files, zoo
from gpuwise.workload.fuse import fused
from gpuwise.workload.sources.request import Request
from gpuwise.workload.types import Workload

__all__ = ["workload"]

_PEEK_BYTES = 64


def workload(
    request: Request,
    *,
    compiled: bool = False,
    timeout_s: float = 120.0,
    memory_bytes: float = 16e9,
    progress: Callable[[str], None] = lambda text: None,
) -> Workload:
    """The workload this request names. Only `file.py:Net`, `package.module:function` and `script.py` run code of the user."""
    for name, value in (("batch", request.batch), ("seq", request.seq), ("image", request.image)):
        if value is not None and not 1 <= value < 2**31:
            raise BadValue(f"--{name} must be at least 1 and below 2^31, not {value}", hint=f"for example `--{name} 32`")
    found = _stored(request)
    if found is None:
        found = capture.capture(request, timeout_s=timeout_s, memory_bytes=memory_bytes, progress=progress)
    return fused(found) if compiled else found


def _stored(request: Request) -> Workload | None:
    """A workload that need not be captured."""
    path = Path(request.model)
    if request.model.endswith((".json", ".json.gz")):
        return _resized(files.read(path), request) if _is_workload_file(path) else None
    if zoo.has(request.model):
        return _resized(zoo.load(request.model, request), request)
    if ":" not in request.model and not request.model.endswith(".py"):
        raise _unknown(request.model)
    return None


def _is_workload_file(path: Path) -> bool:
    """Whether this JSON file is ours; a model's config.json is not."""
    try:
        with path.open("rb") as file:
            head = file.read(_PEEK_BYTES)
    except OSError:
        return path.suffix == ".gz"  # reading it will say what is wrong
    return head.startswith(b"\x1f\x8b") or b'"gpuwise-workload"' in head


def _resized(found: Workload, request: Request) -> Workload:
    """The same workload at the sizes asked for, where it is symbolic in them."""
    from dataclasses import replace

    for name, wanted, captured in (("batch", request.batch, found.batch), ("seq", request.seq, found.seq)):
        if wanted is None or wanted == captured:
            continue
        if name not in found.symbols:
            held = f"was captured at {name} {captured} only" if captured is not None else f"has no {name}"
            raise BadValue(f"{found.model} {held}, not {wanted}", hint=f"leave --{name} out, or capture the model again")
        found = replace(found, batch=wanted) if name == "batch" else replace(found, seq=wanted)
    return found


def _unknown(model: str) -> GpuwiseError:
    near = zoo.close(model)
    meant = "did you mean " + " or ".join(f"`{name}`" for name in near) + "? " if near else ""
    return UnknownName(
        f"no model called '{model}'",
        looked_in=f"{len(zoo.names())} models of the zoo (timm, torchvision, hf and keras names need their prefix)",
        hint=f"{meant}For example `timm:{model}`, `hf:{model}` or `my_model.py:Net`",
    )
