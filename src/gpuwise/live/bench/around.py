"""Measures what surrounds the device: copies to it, the disk, image decoding, and all-reduce between several devices."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuwise.live.bench.cases import Case

__all__ = ["around", "missing_around"]

_COPY_BYTES = 64 * 2**20
_FILE_BYTES = 64 * 2**20
_PIXELS = (375, 500)


def around(device: str, folder: Path) -> Iterator[Case]:
    """Return what can be measured on this machine; `folder` is for a file to read, deleted afterwards."""
    if device.startswith("cuda"):
        yield from _copies(device)
        yield from _all_reduce()
    yield from _disk(folder)
    yield from _decode()


def missing_around(device: str) -> list[str]:
    """Return what cannot be measured here, and why."""
    missing = []
    if not device.startswith("cuda"):
        missing.append(f"copies to the device ({device} shares memory with the host, or has no counter for copies)")
        missing.append("all-reduce (there is only one device)")
    try:
        import PIL  # noqa: F401
    except ImportError:
        missing.append("image decoding (Pillow is not installed)")
    return missing


def _copies(device: str) -> Iterator[Case]:
    import torch

    for kind in ("pageable", "pinned"):
        source = torch.empty(_COPY_BYTES, dtype=torch.uint8, pin_memory=kind == "pinned")
        there = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=device)
        call = lambda s=source, t=there: t.copy_(s, non_blocking=True)  # noqa: E731
        yield Case(kind=f"to_device.{kind}", sizes=(_COPY_BYTES,), work=_COPY_BYTES, unit="B", call=call)


def _all_reduce() -> Iterator[Case]:
    """Yield sums over every device of this process, with torch's own NCCL binding."""
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        return
    tensors = [torch.ones(_COPY_BYTES // 4, device=f"cuda:{number}") for number in range(count)]
    yield Case(
        kind="all_reduce",
        sizes=(count, _COPY_BYTES),
        work=_COPY_BYTES,
        unit="B",
        call=lambda: torch.cuda.nccl.all_reduce(tensors),
    )


def _disk(folder: Path) -> Iterator[Case]:
    """Read a file after asking the system to drop it from its cache, if possible."""
    number, name = tempfile.mkstemp(prefix="gpuwise-bench-", dir=folder)
    try:
        os.write(number, os.urandom(1 << 20) * (_FILE_BYTES >> 20))
        os.fsync(number)

        def read() -> None:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            os.lseek(number, 0, os.SEEK_SET)
            while os.read(number, 1 << 20):
                pass

        yield Case(kind="disk.read", sizes=(_FILE_BYTES,), work=_FILE_BYTES, unit="B", call=read)
    finally:
        os.close(number)
        Path(name).unlink(missing_ok=True)


def _decode() -> Iterator[Case]:
    """Decode, crop and scale one JPEG of the usual size on one core, as loaders do."""
    try:
        from PIL import Image
    except ImportError:
        return
    import numpy as np

    smooth = np.kron(np.random.default_rng(0).integers(0, 255, (25, 25, 3)), np.ones((20, 20, 1)))[: _PIXELS[0], : _PIXELS[1]]
    file = io.BytesIO()
    Image.fromarray(smooth.astype("uint8")).save(file, "JPEG", quality=90)
    data = file.getvalue()

    def decode() -> None:
        Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224))

    yield Case(kind="decode.jpeg", sizes=_PIXELS, work=1.0, unit="images", call=decode)
