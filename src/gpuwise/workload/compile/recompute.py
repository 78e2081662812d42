"""Results that the backward pass recomputes instead of reading: cheap loops whose inputs it has anyway or are no larger.

torch.compile cuts the joint graph of forward and backward where the least must be saved (`min_cut_rematerialization_partition` in
torch/_functorch/partitioners.py, torch 2.13): results of loops are recomputed inside the backward kernels that read them, unless
a library call needs them stored, or they are random. The most common cases are autocast (eager PyTorch saves the fp32 copy of a
half-precision tensor, compiled code saves the tensor) and activations after a norm (recomputed from the input of the norm and its
statistics, which are saved for its own gradient). This model cuts one value at a time, the last first, and only if memory does
not grow and traffic grows by no more than 1/64.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.groups import Group
from gpuwise.workload.compile.roles import Sizes
from gpuwise.workload.model.types import PHASES

__all__ = ["recompute"]

_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")
_MOST_SOURCES = 8  # the number of reads that Inductor lets a loop collect before it stores a result (realize_acc_reads_threshold)
_SLACK = 1 + 1 / 64

Sources = dict[int, int]  # value -> the tensor as which it is read


def recompute(flow: Flow, sizes: Sizes, groups: list[Group], start: int, end: int) -> None:
    """Edit which earlier values the calls `start <= i < end` read, if they are a backward pass."""
    if start >= end or flow.workload.calls[start].phase != _BACKWARD:
        return
    seen = {value for call in range(start, end) for value in flow.read_values[call] if 0 <= flow.writer[value] < start}
    queue = [(-flow.writer[value], value) for value in seen]
    heapify(queue)
    while queue:
        _, value = heappop(queue)
        readers = [reader for reader in flow.readers[value] if reader >= start]
        sources = _sources(flow, value, readers, end)
        if sources is None or not _worth_it(flow, sizes, groups, value, readers, sources):
            continue
        for call in readers:
            flow.swap_reads(call, value, list(sources), list(sources.values()))
        for source in sources.keys() - seen:
            seen.add(source)
            if flow.writer[source] >= 0:
                heappush(queue, (-flow.writer[source], source))


def _sources(flow: Flow, value: int, readers: list[int], end: int) -> Sources | None:
    """Return the values from which this value can be computed when its backward readers run, or None if it cannot be computed
    then, or must be stored for them.
    """
    if not readers or readers[-1] >= end or flow.wanted_after(value) or any(flow.loops[reader].space < 0 for reader in readers):
        return None
    found: Sources = {}
    wanted = [value]
    while wanted and len(found) <= _MOST_SOURCES:
        value = wanted.pop()
        maker = flow.writer[value]
        if maker < 0 or not flow.loops[maker].again or flow.workload.calls[maker].phase != _FORWARD:
            return None
        if value != flow.written_values[maker][0]:
            return None
        for source, tensor in _inputs(flow, maker):
            if flow.replaced[source] <= readers[-1]:
                wanted.append(source)  # overwritten by then: go back further
            else:
                found.setdefault(source, tensor)
    return found if len(found) <= _MOST_SOURCES else None


def _inputs(flow: Flow, maker: int) -> list[tuple[int, int]]:
    """Return the inputs of a call and its intermediate results: the statistics of a norm, the mask of a dropout."""
    written = flow.workload.ops[flow.workload.calls[maker].op].writes
    pairs = list(zip(flow.read_values[maker], flow.read_tensors[maker], strict=True))
    return pairs + list(zip(flow.written_values[maker][1:], written[1:], strict=True))


def _worth_it(flow: Flow, sizes: Sizes, groups: list[Group], value: int, readers: list[int], sources: Sources) -> bool:
    """Return whether the sources take no more memory than the value until its last reader, and no more bytes to read."""
    maker, buffers = flow.writer[value], flow.workload.buffers
    stored = any(groups[reader] is not groups[maker] for reader in flow.readers[value] if reader < readers[0])
    result = buffers[flow.buffer[value]].tensor
    kept = [buffers[flow.buffer[source]].tensor for source in sources if not _lives_on(flow, source, readers[-1])]
    if kept and (stored or not sizes.fit(kept, [result])):
        return False
    before = [tensor for reader in readers for read, tensor in _reads(flow, reader) if read == value]
    after = [tensor for reader in readers for source, tensor in sources.items() if source not in flow.read_values[reader]]
    return sizes.fit(after, before, _SLACK) or (not stored and sizes.fit(after, [*before, result]))


def _reads(flow: Flow, call: int) -> list[tuple[int, int]]:
    return list(zip(flow.read_values[call], flow.read_tensors[call], strict=True))


def _lives_on(flow: Flow, value: int, last: int) -> bool:
    """Return whether the value exists until that call in any case."""
    return flow.wanted_after(value) or (bool(flow.readers[value]) and flow.readers[value][-1] >= last)
