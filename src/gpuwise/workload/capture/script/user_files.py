"""Prepares for running a user's file: puts its folder on the path, and imports libraries that need help."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.files import check_readable
from gpuwise.workload.capture.keras.backend import choose_backend
from gpuwise.workload.capture.torch.torchvision import import_torchvision

__all__ = ["believing", "plainly", "prepare", "text_of"]

_USE_TORCHVISION = ("torchvision", "timm", "transformers")


def text_of(path: Path) -> str:
    """The text of a source file, whatever its encoding."""
    check_readable(path, "pass a Python file with the code of a model")
    return path.read_bytes().decode("utf-8", errors="replace")


def prepare(text: str, folder: Path, last: bool = False) -> list[str]:
    """Prepare for code with this text in this folder, which is searched first or last; returns notes."""
    sys.path.insert(len(sys.path) if last else 0, str(folder))
    remark = choose_backend() if "keras" in text else ""
    if any(word in text for word in _USE_TORCHVISION):
        with contextlib.suppress(GpuwiseError):  # if it is missing, the code itself will report it
            import_torchvision()
    return [remark] if remark else []


@contextlib.contextmanager
def believing(notes: list[str], text: str, folder: Path, last: bool = False) -> Iterator[None]:
    """Code with this text that is imported in this context sees a GPU and all weights. Without torch, this does nothing."""
    try:
        from gpuwise.workload.capture.torch.stand_ins import OnCpu, gpu_names, swapped
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        notes += prepare(text, folder, last)
        yield
        return
    with swapped(gpu_names(notes.append)):
        notes += prepare(text, folder, last)
        with OnCpu():
            yield


@contextlib.contextmanager
def plainly(notes: list[str], text: str, folder: Path, last: bool = False) -> Iterator[None]:
    """Code with this text that is imported in this context sees the machine as it is."""
    notes += prepare(text, folder, last)
    yield
