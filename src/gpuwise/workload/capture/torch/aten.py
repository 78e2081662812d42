"""Maps each aten op to the kind of work it is on a GPU, with its sizes, in one table with one small function per kind. Windows
over images are in `aten_windows.py`.

A handler gets the op's arguments and outputs and returns its kernels: none for ops that only change metadata or run on the host,
two for a convolution's backward pass. Ops without a rule become kind `other`: their time is estimated from their bytes, and they
are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpuwise.workload.capture.torch.aten_names import (
    COPIES,
    FILLS,
    HOST,
    INDEXING,
    LOSSES,
    POINTWISE,
    RANDOM,
    REDUCTIONS,
)
from gpuwise.workload.capture.torch.aten_windows import window_handlers
from gpuwise.workload.capture.torch.kernel import Handler, Kernel, Shape, Tensors
from gpuwise.workload.capture.torch.orders import is_channels_last, reordering, with_copies
from gpuwise.workload.model.types import AttrValue

__all__ = ["Kernel", "kernels_of", "register"]


def kernels_of(
    name: str, func: Any, args: Sequence[Any], kwargs: dict[str, Any], reads: Tensors, writes: Tensors
) -> list[Kernel]:
    """The kernels that CUDA would launch for this op. `reads` and `writes` are all its tensors."""
    return with_copies(name, args, _own_kernels(name, func, args, kwargs, reads, writes))


def _own_kernels(
    name: str, func: Any, args: Sequence[Any], kwargs: dict[str, Any], reads: Tensors, writes: Tensors
) -> list[Kernel]:
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(args, kwargs, reads, writes)
    if name.startswith(("_foreach_", "_fused_", "_amp_foreach")):
        return _multi_tensor(args, kwargs, reads, writes)
    if _is_pointwise(name, func):
        return [_elementwise(reads, writes)]
    if name in REDUCTIONS:
        return [_reduction(reads, writes)]
    return [Kernel("other", (_shape(writes or reads),), tuple(reads), tuple(writes))]


def register(name: str, handler: Handler) -> None:
    """Register the kernels of an op that is defined elsewhere (`namespace::name`)."""
    _HANDLERS[name] = handler


def _is_pointwise(name: str, func: Any) -> bool:
    """Return whether an op is pointwise: by torch's own tag, which in-place forms often lack, or by our list."""
    plain = getattr(getattr(torch.ops.aten, name.rstrip("_"), None), "default", func)
    return torch.Tag.pointwise in func.tags or torch.Tag.pointwise in plain.tags or name.rstrip("_") in POINTWISE


def _shape(tensors: Tensors) -> Shape:
    return tuple(max(tensors, key=lambda tensor: tensor.numel()).shape) if tensors else (0,)


def _elementwise(reads: Tensors, writes: Tensors) -> Kernel:
    return Kernel("elementwise", (_shape(writes or reads),), tuple(reads), tuple(writes), reordering(reads, writes))


def _reduction(reads: Tensors, writes: Tensors) -> Kernel:
    return Kernel("reduction", (_shape(reads), _shape(writes)), tuple(reads), tuple(writes))


def _simple(kind: str) -> Handler:
    """A kind whose only size is the number of elements written."""
    return lambda args, kwargs, reads, writes: [Kernel(kind, (_shape(writes or reads),), tuple(reads), tuple(writes))]


def _nothing(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    return []


# ---------------------------------------------------------------- matrix products


def _matmul(a: Any, b: Any, out: Any, extra: Tensors = ()) -> list[Kernel]:
    batch = tuple(a.shape[:-2]) if a.dim() == 3 else ()
    sizes: tuple[Shape, ...] = (batch, (a.shape[-2],), (b.shape[-1],), (a.shape[-1],))
    attrs: dict[str, AttrValue] = {"trans_a": _is_transposed(a), "trans_b": _is_transposed(b)}
    return [Kernel("matmul", sizes, (a, b, *extra), (out,), attrs, dtype=a.dtype)]


def _is_transposed(tensor: Any) -> bool:
    return tensor.dim() >= 2 and tensor.stride(-2) == 1 and tensor.stride(-1) != 1


def _mm(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    return _matmul(args[0], args[1], writes[0])


def _addmm(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    return _matmul(args[1], args[2], writes[0], (args[0],))


def _mv(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    matrix, vector = (args[0], args[1]) if len(args) == 2 else (args[1], args[2])
    sizes: tuple[Shape, ...] = ((), (matrix.shape[0],), (1,), (matrix.shape[1],))
    return [Kernel("matmul", sizes, (matrix, vector), tuple(writes), {}, dtype=matrix.dtype)]


def _dot(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    return [Kernel("matmul", ((), (1,), (1,), (args[0].shape[0],)), tuple(reads), tuple(writes), {}, dtype=args[0].dtype)]


# ---------------------------------------------------------------- convolutions


def _conv_sizes(x: Any, weight: Any, out: Any, transposed: bool, groups: int) -> tuple[Shape, ...]:
    c_in, c_out = (x.shape[1],), (out.shape[1],)
    kernel, spatial = tuple(weight.shape[2:]), x.shape[2:]
    positions = (tuple(out.shape[2:]), tuple(spatial))
    if transposed:
        positions = (positions[1], positions[0])
        c_in, c_out = c_out, c_in
    return ((x.shape[0],), c_in, c_out, kernel, *positions)


def _conv_attrs(
    stride: Any, padding: Any, dilation: Any, transposed: bool, groups: int, direction: str, operands: Tensors
) -> dict[str, AttrValue]:
    return {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
        "transposed": transposed,
        "pass": direction,
        "layout": "nhwc" if any(map(is_channels_last, operands)) else "nchw",
    }


def _conv(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = args
    sizes = _conv_sizes(x, weight, writes[0], transposed, groups)
    attrs = _conv_attrs(stride, padding, dilation, transposed, groups, "forward", (x, weight))
    extra = () if bias is None else (bias,)
    return [Kernel("conv", sizes, (x, weight, *extra), (writes[0],), attrs, dtype=x.dtype)]


def _conv_backward(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, mask = args
    sizes = _conv_sizes(x, weight, grad, transposed, groups)
    found = []
    outputs = iter(writes)
    for wanted, direction, operands in zip(mask, ("data", "weight", "bias"), ((grad, weight), (grad, x), (grad,)), strict=True):
        if not wanted:
            continue
        out = next(outputs)
        if direction == "bias":
            found.append(Kernel("reduction", (tuple(grad.shape), tuple(out.shape)), operands, (out,), suffix=".bias"))
        else:
            attrs = _conv_attrs(stride, padding, dilation, transposed, groups, direction, (grad, x, weight))
            found.append(Kernel("conv", sizes, operands, (out,), attrs, dtype=x.dtype, suffix=f".{direction}"))
    return found


# ---------------------------------------------------------------- rows: norms, softmax, losses


def _rows(kind: str, columns: Callable[[Sequence[Any], Any], Shape], which: int = 0) -> Handler:
    """A kind that works row by row on argument `which`; `columns` says which dimensions make up a row."""

    def handle(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
        x = args[which]
        row = columns(args, x)
        rows = _without(tuple(x.shape), row)
        return [Kernel(kind, (rows, row), tuple(reads), tuple(writes), dtype=x.dtype)]

    return handle


def _without(shape: Shape, row: Shape) -> Shape:
    """Return the other dimensions. Rows are at the end of a shape, so equal sizes are matched from there."""
    left = list(reversed(shape))
    for dim in row:
        left.remove(dim)
    return tuple(reversed(left))


def _along(position: int) -> Callable[[Sequence[Any], Any], Shape]:
    """Rows run along the dimension given as argument `position`."""
    return lambda args, x: (x.shape[args[position]],) if x.dim() else ()


def _channels(args: Sequence[Any], x: Any) -> Shape:
    """Batch norm: one row per channel."""
    return _without(tuple(x.shape), (x.shape[1],))


def _normalized(position: int) -> Callable[[Sequence[Any], Any], Shape]:
    return lambda args, x: tuple(x.shape[x.dim() - len(args[position]) :])


def _group_norm(which: int, first: int) -> Handler:
    """One row for each image and group: argument `which` in groups; from argument `first` on, images, channels, size, groups."""

    def handle(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
        x, (images, channels, _, groups) = args[which], args[first : first + 4]
        row = (channels // groups, *x.shape[2:])
        return [Kernel("norm", ((images, groups), row), tuple(reads), tuple(writes), dtype=x.dtype)]

    return handle


# ---------------------------------------------------------------- the rest


def _embedding(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    table, rows = args[0], args[1]
    read_rows = writes[0]  # only the rows looked up are read
    sizes: tuple[Shape, ...] = (tuple(rows.shape), (table.shape[-1],), (table.shape[0],))
    return [Kernel("embedding", sizes, (rows, read_rows), (writes[0],), {"pass": "forward"}, dtype=table.dtype)]


def _embedding_backward(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    grad, rows = args[0], args[1]
    sizes: tuple[Shape, ...] = (tuple(rows.shape), (grad.shape[-1],), (int(args[2]),))
    return [Kernel("embedding", sizes, (grad, rows), tuple(writes), {"pass": "backward"}, dtype=grad.dtype)]


def _embedding_bag(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """A bag is read like an embedding: only the rows that are looked up are read, and they are summed in the same kernel."""
    table, rows = args[0], args[1]
    width = table.shape[-1]
    sizes: tuple[Shape, ...] = (tuple(rows.shape), (width,), (table.shape[0],))
    looked_up = (*rows.shape, width)
    return [Kernel("embedding", sizes, tuple(reads), tuple(writes), {"pass": "forward"}, table.dtype, looked_up=looked_up)]


def _embedding_bag_backward(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    grad, rows = args[0], args[1]
    sizes: tuple[Shape, ...] = (tuple(rows.shape), (grad.shape[-1],), (writes[0].shape[0],))
    looked_up = (*rows.shape, grad.shape[-1])  # the gradient of a bag is read for each of its rows
    return [Kernel("embedding", sizes, tuple(reads), tuple(writes), {"pass": "backward"}, grad.dtype, looked_up=looked_up)]


def _cast(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    if not reads or not writes:
        return []
    kind = "cast" if reads[0].dtype != writes[0].dtype else "copy"
    return [Kernel(kind, (tuple(writes[0].shape),), (reads[0],), tuple(writes), reordering(reads[:1], writes))]


def _copy_into(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """`target.copy_(source)`: the target is written, not read."""
    return _cast(args, kwargs, reads[1:], writes)


def _fills(kind: str) -> Handler:
    """Writes values that depend on no tensor; a tensor argument only provides the shape."""
    return lambda args, kwargs, reads, writes: [Kernel(kind, (_shape(writes),), (), tuple(writes))]


def _multi_tensor(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    if not reads or all(tensor.dim() == 0 for tensor in reads):
        return []  # step counters live on the host
    touched = list(reads) + list(writes)
    elements = sum(tensor.numel() for tensor in (writes or reads))
    count = len(args[0]) if args and isinstance(args[0], (list, tuple)) else len(touched)
    return [Kernel("optimizer", ((elements,), (count,)), tuple(reads), tuple(writes), dtype=reads[0].dtype)]


def _sort(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    x = reads[0]
    row = (x.shape[-1],) if x.dim() else ()
    return [Kernel("sort", (_without(tuple(x.shape), row), row), tuple(reads), tuple(writes), dtype=x.dtype)]


def _fft(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """A transform along the dimensions in the second argument; a real side has all points, and its complex side about half of
    them.
    """
    shape = _shape((reads[0], writes[0]))
    along = {dim % len(shape) for dim in args[1]}
    batch, points = (tuple(size for dim, size in enumerate(shape) if (dim in along) == inside) for inside in (False, True))
    return [Kernel("fft", (batch, points), (reads[0],), (writes[0],), dtype=reads[0].dtype)]


def _table() -> dict[str, Handler]:
    last = _along(1)
    handlers: dict[str, Handler] = {
        "mm": _mm,
        "bmm": _mm,
        "addmm": _addmm,
        "baddbmm": _addmm,
        "addbmm": _addmm,
        "mv": _mv,
        "addmv": _mv,
        "dot": _dot,
        "vdot": _dot,
        "convolution": _conv,
        "convolution_backward": _conv_backward,
        "native_layer_norm": _rows("norm", _normalized(1)),
        "native_layer_norm_backward": _rows("norm", _normalized(2), which=1),
        "_fused_rms_norm": _rows("norm", _normalized(1)),
        "_fused_rms_norm_backward": _rows("norm", _normalized(2), which=1),
        "native_group_norm": _group_norm(0, 3),
        "native_group_norm_backward": _group_norm(1, 5),
        "native_batch_norm": _rows("norm", _channels),
        "native_batch_norm_backward": _rows("norm", _channels, which=1),
        "_native_batch_norm_legit": _rows("norm", _channels),
        "_native_batch_norm_legit_no_training": _rows("norm", _channels),
        "_softmax": _rows("softmax", last),
        "_safe_softmax": _rows("softmax", last),
        "_log_softmax": _rows("softmax", last),
        "_softmax_backward_data": _rows("softmax", _along(2)),
        "_log_softmax_backward_data": _rows("softmax", _along(2)),
        "embedding": _embedding,
        "embedding_dense_backward": _embedding_backward,
        "_embedding_bag": _embedding_bag,
        "_embedding_bag_forward_only": _embedding_bag,
        "_embedding_bag_dense_backward": _embedding_bag_backward,
        "_embedding_bag_backward": _embedding_bag_backward,
        "_to_copy": _cast,
        "clone": _cast,
        "copy_": _copy_into,
        "copy": _copy_into,
        "sort": _sort,
        "topk": _sort,
        "argsort": _sort,
        "_fft_c2c": _fft,
        "_fft_r2c": _fft,
        "_fft_c2r": _fft,
    }
    handlers |= dict.fromkeys(FILLS, _fills("elementwise"))
    handlers |= window_handlers()
    handlers |= dict.fromkeys(LOSSES, _simple_loss)
    handlers |= dict.fromkeys(COPIES, _simple("copy"))
    handlers |= dict.fromkeys(INDEXING, _simple("index"))
    handlers |= dict.fromkeys(RANDOM, _fills("random"))
    handlers |= dict.fromkeys(("bernoulli", "multinomial"), _simple("random"))  # these read their probabilities
    return handlers | dict.fromkeys(HOST, _nothing)


def _simple_loss(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    x = max(reads, key=lambda tensor: tensor.numel())
    row = (x.shape[1],) if x.dim() > 1 else ()
    return [Kernel("loss", (_without(tuple(x.shape), row), row), tuple(reads), tuple(writes), dtype=x.dtype)]


_HANDLERS = _table()
