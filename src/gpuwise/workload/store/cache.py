"""Captures cached on disk, so that the second question about `timm:convnext_base` or `net.py:Net` needs no framework.

An entry for a named model (timm, torchvision, hf, keras) is keyed by the request and the versions of the packages that produced
it. User code can change under the same name, so its entries are handled in `own_code.py`. A cache that cannot be read or written
is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.files import home
from gpuwise.workload.capture.registry import PREFIXES, source_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files, own_code

__all__ = ["find", "folder", "keep"]

_ANY = 2
RECORDER = 4  # increase this when the recorder's output changes
_PACKAGES = {
    "timm": ("torch", "timm"),
    "torchvision": ("torch", "torchvision"),
    "hf": ("torch", "transformers"),
    "keras": ("torch", "keras"),
}


def folder() -> Path:
    """Return the folder for captures: `GPUWISE_CACHE`, or the system's usual place."""
    given = os.environ.get("GPUWISE_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base or home() / "AppData" / "Local") / "gpuwise"
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "gpuwise"


def find(request: Request) -> Workload | None:
    """Return the stored capture for this request at the requested sizes, if there is a complete one."""
    if _is_own_code(request):
        kept = own_code.path_of(request, folder(), RECORDER)
        return own_code.find(kept) if kept is not None else None
    path = _path(request)
    try:
        if path is None or not path.exists():
            return None
        found = files.read(path)
    except (GpuwiseError, OSError):
        return None  # damaged or not readable: capture again
    for name, wanted, own in (("batch", request.batch, found.batch), ("seq", request.seq, found.seq)):
        if wanted is not None and wanted != own and name not in found.symbols:
            return None
    return replace(found, batch=request.batch or found.batch, seq=request.seq or found.seq)


def keep(request: Request, workload: Workload, rests_on: own_code.RestsOn | None = None) -> None:
    """Store a capture that serves every size, or the one size for which its entry is used."""
    if _is_own_code(request):
        place = own_code.path_of(request, folder(), RECORDER)
        if place is not None and rests_on is not None:
            own_code.keep(place, workload, rests_on)
        return
    path = _path(request)
    if path is None or not (workload.symbols or _without_sizes(request) == request):
        return
    with contextlib.suppress(OSError, GpuwiseError):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(workload, path)


def _is_own_code(request: Request) -> bool:
    """Return whether capturing this would run user code."""
    try:
        return source_of(request.model) in ("user_code", "script")
    except BadValue:  # a zoo model, or an unknown name
        return False


def _path(request: Request) -> Path | None:
    prefix, colon, name = request.model.partition(":")
    if not colon or prefix not in PREFIXES or request.inputs or request.arguments:
        return None
    try:
        versions = [f"{package} {version(package)}" for package in _PACKAGES[prefix]]
    except PackageNotFoundError:
        return None
    question = msgspec.json.encode(_without_sizes(request))
    digest = hashlib.sha256(b"\n".join([question, *map(str.encode, versions), f"{files.VERSION} {RECORDER}".encode()]))
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:80]
    return folder() / "captures" / f"{prefix}-{plain}-{digest.hexdigest()[:16]}.json.gz"


def _without_sizes(request: Request) -> Request:
    """Return the key of an entry. One capture serves every size. However, default sizes and given sizes have separate entries,
    a size of one is verified on request, and for Hugging Face models the size determines what is captured (windows,
    experts).
    """
    if request.model.startswith("hf:"):
        return request
    batch, seq = (size if size in (None, 1) else _ANY for size in (request.batch, request.seq))
    return msgspec.structs.replace(request, batch=batch, seq=seq)
