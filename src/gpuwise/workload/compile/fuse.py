"""The kernels that torch.compile would launch instead of the recorded eager calls: our own fusion model, without a compiler.

The rules are those of TorchInductor in its default mode, as read in torch 2.13 (`torch/_inductor/scheduler.py`:
`_can_fuse`, `can_fuse_vertical`, `are_long_distant_nodes`; `choices.py`: `can_fuse`, `score_fusion`; `codegen/simd.py`:
`can_fuse`; `ir.py`: `should_realize_on_reuse`; `lowering.py`: `cat`; `config.py`) and described in
https://github.com/pytorch/pytorch/pull/126254 (loop order), /pull/104471 (lists of tensors) and /pull/165370 (norm
backward):

- loops fuse with what makes their inputs if both run over the same number of elements; a reduction also fuses with the
  loops before it, and with loops after it over its rows or over its reduced values;
- a loop that only one other reads is computed inside that one, whatever its size, while it reads at most 8 tensors;
- sums over columns (gradients of biases) run in another order, so they absorb only loops that nothing else needs;
- independent loops over the same elements that read the same tensor share a kernel, if no more than 64 calls apart;
- at most 64 calls make a kernel; lists of tensors in an optimizer may be longer, and take a launch for every 250 tensors;
- matrix products, convolutions, attention and the like are library calls that nothing fuses with. `epilogues=True` lets
  loops over the result of a product or convolution run inside it, as max-autotune may;
- norms, softmax and dropout are decomposed, so they fuse with their neighbours. A norm that must read its rows twice
  (batch norm, backward passes) stays one call, as it is in the eager recording, with the attribute `launches` 2;
- forward pass, backward pass and optimizer are separate graphs.

A fused call reads each outside buffer once and writes what is used outside. Buffers that live inside a kernel disappear, and the
others live from their first use to their last. The backward pass recomputes cheap results (`recompute.py`). Not
modelled: writing a result into the memory of an input that dies, reductions in two stages, the order into which Inductor
moves kernels to save memory, 8-bit pooling indices.

Compared with Inductor's own scheduler (torch 2.13, its Triton rules on CPU graphs, mixed precision, batch 8): in inference,
the loops of resnet50, vit_base_patch16_224 and convnext_base become 106, 139 and 338 kernels (Inductor: 106, 141, 337)
and their bytes are within 4%; in training, the bytes saved for the backward pass are within 4% of what its partitioner saves.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.groups import Group, Grouper
from gpuwise.workload.compile.outside import Kernels, Outside
from gpuwise.workload.compile.recompute import recompute
from gpuwise.workload.compile.roles import Sizes, loops_of
from gpuwise.workload.compile.write import in_order, written
from gpuwise.workload.model.types import PHASES, Buffers, Ints, Workload, no_collection

__all__ = ["fused", "is_fused"]

_TRIES = 8
_MEMORY_FACTOR = 1.01  # a fused step may need up to this multiple of the eager peak
_OPTIMIZER = PHASES.index("optimizer")


def is_fused(workload: Workload) -> bool:
    """Return whether this workload already consists of compiled kernels."""
    return workload.options.get("compiled") is True


def fused(workload: Workload, *, epilogues: bool = False, optimizer: bool = True) -> Workload:
    """Return the workload as torch.compile would run it. `optimizer=False` leaves the optimizer eager, as when only the model
    is compiled.

    FLOPs stay the same, bytes and calls never grow, and memory grows by at most 1%: if fusing would need more, the calls at the
    peak stay separate.
    """
    if is_fused(workload) or not workload.calls:
        return workload
    with no_collection():
        sizes = Sizes(workload)
        eager = set() if optimizer else {*np.flatnonzero(workload.calls.phase == _OPTIMIZER).tolist()}
        result = _within_memory(workload, sizes, epilogues, eager)
    note = f"compilation fuses {len(workload.calls):,} kernels into {len(result.calls):,}"
    return replace(result, options={**workload.options, "compiled": True}, notes=(*workload.notes, note))


def _within_memory(workload: Workload, sizes: Sizes, epilogues: bool, eager: Set[int]) -> Workload:
    """Fuse the calls. If that needs more memory, keep the calls separate where it does; as a last resort, leave everything
    unchanged.
    """
    recorded, apart, again = Flow(workload, loops_of(workload, sizes)), {*eager}, True
    outside = Outside(recorded, sizes)
    memory = _MEMORY_FACTOR * _memory(workload.buffers, len(workload.calls), sizes).max(axis=0, initial=0.0)
    traffic = _traffic(workload, sizes)
    graphs, grouped = _graphs(recorded.segment), list[Group]()  # the groups of the first graph, while they stay the same
    for _ in range(_TRIES):
        flow = recorded.copied()
        grouper = Grouper(flow, sizes, epilogues=epilogues, apart=apart)
        grouper.group_of += grouped
        for start, end in graphs[bool(grouped) :]:
            if again:
                recompute(flow, sizes, grouper.group_of, start, end)
            grouper.walk(start, end)
        groups = in_order(flow, grouper.group_of)
        kernels = outside.kernels(flow, groups)
        over = (_memory(kernels.buffers, len(groups), sizes) > memory).any(axis=1)
        more = bool(np.any(_moved(kernels, sizes) > traffic))
        if not more and not over.any():
            return written(flow, sizes, kernels)
        again = again and not more
        near = _near(groups, np.flatnonzero(np.diff(over, prepend=False) & over))
        apart |= near
        first = graphs[0][1]
        grouped = grouper.group_of[:first] if all(call >= first for call in near) else []
    return workload


def _graphs(segment: list[int]) -> list[tuple[int, int]]:
    """Return the first call of each graph, and the first one after it."""
    starts = [index for index, number in enumerate(segment) if index == 0 or number != segment[index - 1]]
    return list(zip(starts, [*starts[1:], len(segment)], strict=True))


def _traffic(workload: Workload, sizes: Sizes) -> NDArray[np.float64]:
    """Return the bytes read and written in the whole step, at each of the sizes."""
    bytes_of = np.array(sizes.bytes).reshape(len(sizes.bytes), -1)
    by_op = np.array([bytes_of[[*op.reads, *op.writes]].sum(axis=0) for op in workload.ops])
    counts = np.bincount(workload.calls.op, minlength=len(workload.ops))
    return np.asarray(counts @ by_op, dtype=np.float64)


def _moved(kernels: Kernels, sizes: Sizes) -> NDArray[np.float64]:
    """Return the bytes that these kernels read and write, at each of the sizes."""
    bytes_of = np.array(sizes.bytes).reshape(len(sizes.bytes), -1)
    counts = np.bincount(np.concatenate([kernels.reads.tensor, kernels.writes.tensor]), minlength=len(bytes_of))
    return np.asarray(counts @ bytes_of, dtype=np.float64)


def _memory(buffers: Buffers, call_count: int, sizes: Sizes) -> NDArray[np.float64]:
    """Return the bytes that are live during each call, at each of the sizes."""
    bytes_of = np.array(sizes.bytes).reshape(len(sizes.bytes), -1)[buffers.tensor]
    change = np.zeros((call_count + 2, bytes_of.shape[1]))
    np.add.at(change, buffers.born, bytes_of)
    np.add.at(change, buffers.died, -bytes_of)
    return np.cumsum(change, axis=0)[:call_count]


def _near(groups: list[Group], positions: Ints) -> set[int]:
    """Return the calls of the fused groups at these positions, or else of the nearest."""
    fused_at = [index for index, group in enumerate(groups) if len(group.calls) > 1]
    if not fused_at:
        return set()
    after = np.searchsorted(fused_at, positions)
    above, below = (np.array(fused_at)[np.clip(places, 0, len(fused_at) - 1)] for places in (after, after - 1))
    nearest = np.where(abs(below - positions) <= abs(above - positions), below, above)
    return {call for index in nearest.tolist() for call in groups[index].calls}
