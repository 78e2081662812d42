"""The sizes of pools, resizes and folds: windows over images."""

from __future__ import annotations

from typing import Any

from gpuwise.workload.capture.torch.aten_names import ADAPTIVE_POOLS, POOLS, RESIZES
from gpuwise.workload.capture.torch.kernel import Handler, Kernel, Shape

__all__ = ["window_handlers"]


def window_handlers() -> dict[str, Handler]:
    """Return the handler for each of these ops, by name."""
    handlers: dict[str, Handler] = {
        "im2col": _resize(1, backward=False),  # columns are written one value at a time
        "col2im": _fold,
    }
    handlers |= dict.fromkeys(POOLS, _pool) | dict.fromkeys(ADAPTIVE_POOLS, _adaptive_pool)
    for name, taps in RESIZES.items():
        handlers[name] = _resize(taps, backward=False)
        handlers[_backward_of(name)] = _resize(taps, backward=True)
    return handlers


def _backward_of(name: str) -> str:
    """The name of an op's backward pass; torchvision marks its own as private."""
    space, _, plain = name.rpartition("::")
    return f"{space}::_{plain}_backward" if space else f"{name}_backward"


def _pool(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    forward = writes[0].numel() <= reads[0].numel()
    source, target = (reads[0], writes[0]) if forward else (writes[0], reads[0])
    kernel = args[1] if forward and len(args) > 1 and isinstance(args[1], (list, tuple)) else (1,)
    sizes: tuple[Shape, ...] = (tuple(source.shape), tuple(target.shape), tuple(kernel))
    return [Kernel("pool", sizes, tuple(reads), tuple(writes), dtype=reads[0].dtype)]


def _adaptive_pool(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """The image is divided into as many windows as the result has positions; the argument is their number, not their size."""
    image, result = sorted((reads[0], writes[0]), key=lambda tensor: tensor.numel(), reverse=True)
    window = tuple(-(-large // small) for large, small in zip(image.shape, result.shape, strict=True) if small)
    return [Kernel("pool", (tuple(image.shape), tuple(result.shape), window), tuple(reads), tuple(writes), dtype=reads[0].dtype)]


def _resize(taps: int, backward: bool) -> Handler:
    """Every value of the result reads `taps` values of the image, and passes its gradient back to them."""

    def handle(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
        image, result = (writes[0], reads[0]) if backward else (reads[0], writes[0])
        sizes: tuple[Shape, ...] = (tuple(image.shape), tuple(result.shape), (taps,))
        return [Kernel("pool", sizes, tuple(reads), tuple(writes), dtype=reads[0].dtype)]

    return handle


def _fold(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """Every value of the image is the sum of all columns that contain it; there are as many as the kernel has positions."""
    sizes: tuple[Shape, ...] = (tuple(reads[0].shape), tuple(writes[0].shape), tuple(args[2]))
    return [Kernel("pool", sizes, tuple(reads), tuple(writes), dtype=reads[0].dtype)]
