"""How a fusing compiler treats each op: as a loop over elements, a reduction along rows, or a library call left alone.

The files in `kernels/ops` describe each kind of op (`Fusion`); this module derives what that means for an op with a given name
and sizes. The facts are TorchInductor's (read in torch 2.13, `torch/_inductor/lowering.py`, `decomposition.py` and `config.py`):
pointwise ops, copies, indexing and pooling become loops over what they write; norms, softmax and dropout are decomposed into
reductions and loops; matrix products, convolutions, attention, RNNs and sorting remain library calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Fusion
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import DTYPE_BYTES, Op, Workload

__all__ = ["Loop", "Sizes", "loops_of"]

_MOST_CAT_INPUTS = 8  # max_pointwise_cat_inputs
_LARGEST_WINDOW = 25  # pooling over larger windows falls back to the library
_NO_KERNEL = -1
_BY_INDICES = (Fusion.INDEX, Fusion.TABLE)

_GATHERS = frozenset("index gather take _unsafe_index one_hot index_select embedding".split())
# Written by atomics, in an order given by another tensor, or by a library.
_LIBRARY = frozenset(
    "_amp_update_scale_ repeat_interleave bucketize isin tril_indices triu_indices randperm multinomial unfold_backward "
    "as_strided_scatter cumsum cumprod cummax _cdist_forward _ctc_loss _ctc_loss_backward col2im torchvision::roi_align "
    "torchvision::_roi_align_backward grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward "
    "upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_nearest2d_backward upsample_nearest1d_backward "
    "upsample_linear1d_backward upsample_trilinear3d_backward _foreach_norm _adaptive_avg_pool3d adaptive_max_pool3d "
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward "
    "max_pool3d_with_indices_backward".split()
)
_CONSTANTS = frozenset(
    "zeros ones full arange linspace eye scalar_tensor zeros_like ones_like full_like new_zeros new_ones new_full "
    "rand randn randint rand_like randn_like randint_like".split()
)
_RANDOM = frozenset("bernoulli bernoulli_ normal_ uniform_ exponential_".split())


@dataclass(frozen=True, slots=True)
class Loop:
    """How an op runs: `space` is the id of its number of iterations, `rows` that of its reduced values (-1: no reduction).

    `column` reductions run across the memory order (the sum for a bias gradient), or to a single number. A `gather` reads at
    indices other than its own, so nothing before it fuses with it. `passes` is the number of kernels a compiler creates for it
    when it reads its rows twice. `again` marks loops that may be recomputed in the backward pass. A `foreach` works on a list of
    tensors. A library call has no `space`.
    """

    space: int = _NO_KERNEL
    rows: int = -1
    column: bool = False
    gather: bool = False
    constant: bool = False
    again: bool = False
    foreach: bool = False
    passes: int = 1
    output: int = -1  # for a matrix product or convolution: the space that its epilogue may share


class Sizes:
    """Values of all products at a few batches and sequences, used to compare symbolic sizes: sizes equal there are taken as
    equal.
    """

    def __init__(self, workload: Workload) -> None:
        batch, seq = workload.batch, workload.seq
        batches = np.array([batch, 1, 3, 7 * batch + 5], dtype=np.float64)
        seqs = None if seq is None else np.array([seq, 3, 1, 5 * seq + 11], dtype=np.float64)
        self.values: NDArray[np.float64] = product_values(
            workload,
            batches if "batch" in workload.symbols else None,
            seqs if "seq" in workload.symbols else None,
        )
        widths = np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors])
        elements = [tensor.elements for tensor in workload.tensors]
        moved = self.values[:, elements] * widths
        self.bytes: list[tuple[float, ...]] = [tuple(column) for column in moved.T.tolist()]
        self._products = [tuple(column) for column in self.values.T.tolist()]
        self._ids: dict[tuple[float, ...], int] = {}

    def of(self, product: int) -> tuple[float, ...]:
        """Return the values of one product."""
        return self._products[product]

    def id(self, values: tuple[float, ...]) -> int:
        """Return one number per size, however it is written as a product."""
        return self._ids.setdefault(values, len(self._ids))

    def fit(self, parts: Sequence[int], whole: Sequence[int], factor: float = 1.0) -> bool:
        """Return whether the first tensors together are no larger than the others, times a factor, at every size."""
        return all(small <= factor * large for small, large in zip(self._sum(parts), self._sum(whole), strict=True))

    def _sum(self, tensors: Sequence[int]) -> list[float]:
        return [sum(self.bytes[tensor][point] for tensor in tensors) for point in range(len(self.values))]


def loops_of(workload: Workload, sizes: Sizes) -> list[Loop]:
    """Return the loop for every distinct op."""
    return [_loop(workload, op, sizes) for op in workload.ops]


_LEFT_ALONE = Loop()


def _loop(workload: Workload, op: Op, sizes: Sizes) -> Loop:
    if op.name in _LIBRARY or any(workload.tensors[row].dtype.startswith("complex") for row in (*op.reads, *op.writes)):
        return _LEFT_ALONE
    role = KINDS[op.kind].fusion
    match role:
        case Fusion.PRODUCT:
            return Loop(output=_written(workload, op, sizes))
        case Fusion.LOOP | Fusion.COPY | Fusion.RANDOM | Fusion.INDEX | Fusion.TABLE | Fusion.WINDOW:
            return _pointwise(workload, op, role, sizes)
        case Fusion.NORM | Fusion.ROWS:
            return _rows(workload, op, role, sizes)
        case Fusion.REDUCTION:
            return _reduction(workload, op, sizes)
        case Fusion.LOSS:
            return _loss(workload, op, sizes)
        case Fusion.LIST if op.name.startswith("_foreach_"):
            return Loop(space=sizes.id(sizes.of(op.sizes[1])), foreach=True)
    return _LEFT_ALONE


def _written(workload: Workload, op: Op, sizes: Sizes) -> int:
    """Return the space of the largest tensor written or, if there is none, read."""
    rows = [workload.tensors[row].elements for row in op.writes or op.reads]
    return sizes.id(max((sizes.of(row) for row in rows), default=(0.0,)))


def _pointwise(workload: Workload, op: Op, role: Fusion, sizes: Sizes) -> Loop:
    gather = role in _BY_INDICES or role is Fusion.WINDOW or op.name in _GATHERS
    if role in _BY_INDICES and (op.name not in _GATHERS or op.attrs.get("pass") == "backward"):
        return _LEFT_ALONE  # scatters
    if role is Fusion.WINDOW and sizes.of(op.sizes[2])[0] > _LARGEST_WINDOW:
        return _LEFT_ALONE
    if role is Fusion.COPY and len(op.reads) > _MOST_CAT_INPUTS:
        return _LEFT_ALONE
    simple = role is Fusion.LOOP or op.name == "clone"
    random = role is Fusion.RANDOM or op.name in _RANDOM
    return Loop(
        space=_written(workload, op, sizes),
        gather=gather,
        constant=op.name in _CONSTANTS,
        again=op.name == "native_dropout" or (simple and not random and not gather and len(op.writes) == 1),
    )


def _rows(workload: Workload, op: Op, role: Fusion, sizes: Sizes) -> Loop:
    """Norms and softmax: rows are reduced and every element is written. Batch norm at inference has nothing to reduce."""
    space = _written(workload, op, sizes)
    backward = "backward" in op.name
    by_channel = "batch_norm" in op.name
    if by_channel and not backward:
        statistics = [row for row in op.writes if sizes.id(sizes.of(workload.tensors[row].elements)) != space]
        if not any(sizes.bytes[row][0] for row in statistics):
            return Loop(space=space, again=True)
    # Channel statistics are computed by a kernel before the one that applies them; so are sums for weight gradients.
    twice = by_channel or (backward and role is Fusion.NORM)
    again = role is Fusion.NORM and not backward
    return Loop(space=space, rows=sizes.id(sizes.of(op.sizes[0])), passes=2 if twice else 1, again=again)


def _reduction(workload: Workload, op: Op, sizes: Sizes) -> Loop:
    """Captures do not record whether rows or columns are summed: gradients of weights, which have no batch, are column sums."""
    inside, outside = (sizes.of(row) for row in op.sizes)
    return Loop(space=sizes.id(inside), rows=sizes.id(outside), column=len(set(outside)) == 1)


def _loss(workload: Workload, op: Op, sizes: Sizes) -> Loop:
    whole = tuple(a * b for a, b in zip(*(sizes.of(row) for row in op.sizes), strict=True))
    if _written(workload, op, sizes) == sizes.id(whole):
        return Loop(space=sizes.id(whole))
    return Loop(space=sizes.id(whole), rows=_written(workload, op, sizes), column=True)
