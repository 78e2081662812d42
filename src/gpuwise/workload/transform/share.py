"""Spreads a step's memory over time, over several GPUs, or to the host.

- accumulation: gradients are kept from one micro-batch to the next;
- offload: the optimizer's states and work move to the host;
- ZeRO and FSDP (Rajbhandari et al. 2020): each of n GPUs holds an n-th of the states (1), gradients (2), weights (3). Stage 3
  gathers the weights of a block before it runs, one block ahead;
- splits of a model for inference: whole layers, or every matrix.

Messages between GPUs are not calls here; `scale` computes their cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.workload.model.edit import Draft, makers
from gpuwise.workload.model.types import CATEGORIES, PHASES, Buffer, Buffers, Call, Calls, Op, Workload
from gpuwise.workload.transform.checkpoint import blocks_of, checkpointed, inside_of

__all__ = ["RankStep", "accumulating", "offloaded", "rank_step", "sharded", "split", "without_update"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))
_WEIGHT, _GRADIENT, _STATE, _INPUT = (CATEGORIES.index(name) for name in ("weight", "gradient", "optimizer", "input"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankStep:
    """The work of one rank for the last micro-batch of a step, the bytes that cross the link to the host, those that cross it
    again in every micro-batch (`fetched_bytes`), and those that move within the host's memory.
    """

    workload: Workload
    link_bytes: float = 0.0
    host_bytes: float = 0.0
    fetched_bytes: float = 0.0


def rank_step(
    workload: Workload,
    *,
    checkpoint: tuple[int, int] = (0, 0),
    zero_stage: int = 0,
    ranks: int = 1,
    accumulates: bool = False,
    offload: bool = False,
    weights_on_host: bool = False,
) -> RankStep:
    """Return the step of one of `ranks` GPUs that divide the samples and, depending on the ZeRO stage, states, gradients and
    weights.

    Every question computes the memory of such a rank from this step. `checkpoint` is a pair: the depth of the recomputed blocks,
    and their number.
    """
    depth, count = checkpoint
    if count:
        workload = _recomputing(workload, depth, count)
    if zero_stage:
        workload = sharded(workload, zero_stage, ranks)
    if accumulates:
        workload = accumulating(workload)
    link = host = fetched = 0.0
    if offload:
        workload, link, host = offloaded(workload)
    if weights_on_host:
        workload, fetched = _without_weights(workload)
    return RankStep(workload=workload, link_bytes=link, host_bytes=host, fetched_bytes=fetched)


_recomputed: WeakKeyDictionary[Workload, tuple[tuple[int, int], Workload]] = WeakKeyDictionary()


def _recomputing(workload: Workload, depth: int, count: int) -> Workload:
    """Return the step with checkpoints. The latest is kept, because the same one is divided over several numbers of GPUs."""
    key, found = _recomputed.get(workload, ((0, 0), workload))
    if key != (depth, count):
        found = checkpointed(workload, blocks_of(workload, depth)[:count])
        _recomputed[workload] = (depth, count), found
    return found


def _without_weights(workload: Workload) -> tuple[Workload, float]:
    """Return the step of a rank whose shards of the weights are in the host's memory, and the bytes fetched from there: every
    shard once in each pass. What is gathered from them exists on the GPU as before.
    """
    buffers = workload.buffers
    there = buffers.category == _WEIGHT
    draft = Draft(workload)
    shards = _bytes(draft, np.flatnonzero(there).tolist())
    born, died = (np.where(there, 0, column) for column in (buffers.born, buffers.died))
    kept = Buffers(tensor=buffers.tensor, category=buffers.category, born=born, died=died)
    return replace(workload, buffers=kept, options={**workload.options, "weights_on_host": True}), 2.0 * shards


_without: WeakKeyDictionary[Workload, Workload] = WeakKeyDictionary()


def without_update(workload: Workload) -> Workload:
    """Return the calls of a micro-batch that is not the last, for its time but not its memory. They are kept for the next
    question about this workload.
    """
    if workload not in _without:
        calls = workload.calls
        kept = calls.phase != _UPDATE
        refs = calls.refs[np.repeat(kept, calls.read_count + calls.written_count)]
        columns = (column[kept] for column in (calls.op, calls.phase, calls.module, calls.read_count, calls.written_count))
        op, phase, module, read_count, written_count = columns
        _without[workload] = replace(
            workload,
            calls=Calls(op=op, phase=phase, module=module, read_count=read_count, written_count=written_count, refs=refs),
        )
    return _without[workload]


def accumulating(workload: Workload) -> Workload:
    """Return the last of several micro-batches: gradients of the earlier ones exist throughout, and new ones are added to
    them. Where each GPU keeps a part of the gradients, they are divided after every micro-batch.
    """
    draft = Draft(workload)
    end, maker = len(workload.calls), makers(workload)
    kept = _kept_gradients(workload)

    @cache
    def add(tensor: int) -> int:
        spec = draft.tensors[tensor]
        return draft.op(Op("elementwise", "add_", spec.dtype, (spec.elements,), {}, (tensor, tensor), (tensor,)))

    for number, call in enumerate(workload.calls):
        made = [row for row in call.writes if row in kept and maker[row] == number]
        if not made:
            continue
        fresh = {row: draft.buffer(draft.buffers[row].tensor, "temporary") for row in made}
        draft.calls[number] = Call(
            call.op, call.phase, call.module, call.reads, tuple(fresh.get(row, row) for row in call.writes)
        )
        for row, new in fresh.items():
            buffer = draft.buffers[row]
            draft.after(number, Call(add(buffer.tensor), call.phase, call.module, (row, new), (row,)))
            draft.buffers[row] = Buffer(buffer.tensor, buffer.category, 0, end)
    return draft.done()


def _kept_gradients(workload: Workload) -> set[int]:
    """Return the gradients that are kept for the update: parts of them if they are sharded, otherwise all."""
    rows = _rows_of(workload, _GRADIENT) & {row for call in workload.calls for row in call.writes}
    if workload.options.get("zero_stage") not in (2, 3):
        return rows
    return rows & {row for call in workload.calls if call.phase == _UPDATE for row in call.reads}


def _rows_of(workload: Workload, category: int) -> set[int]:
    return {*np.flatnonzero(workload.buffers.category == category).tolist()}


def offloaded(workload: Workload) -> tuple[Workload, float, float]:
    """Return the step without its optimizer, the bytes that cross the link (gradients down, weights up), and the bytes moved
    in the host's memory.

    The host reads weights, gradients and states once and writes weights and states, as a fused CPU optimizer does.
    """
    draft = Draft(workload)
    used, written = set[int](), set[int]()
    for number, call in enumerate(workload.calls):
        if call.phase == _UPDATE:
            used.update(call.reads, call.writes)
            written.update(call.writes)
            draft.drop(number)
    gradients, states = (used & _rows_of(workload, category) for category in (_GRADIENT, _STATE))
    draft.by_use(states)
    down, up, kept = (_bytes(draft, rows) for rows in (gradients, written & _rows_of(workload, _WEIGHT), states))
    return draft.done(options={**workload.options, "offload": True}), down + up, down + 2 * (up + kept)


def _bytes(draft: Draft, rows: Collection[int]) -> float:
    from gpuwise.workload.model.types import DTYPE_BYTES

    specs = [draft.tensors[draft.buffers[row].tensor] for row in rows]
    return sum((draft.value(spec.elements) or 0.0) * DTYPE_BYTES[spec.dtype] for spec in specs)


# ---------------------------------------------------------------- ZeRO and FSDP


_divided: WeakKeyDictionary[Workload, dict[int, Workload]] = WeakKeyDictionary()
_PartOf = Callable[[int], int]  # from a tensor to the share of it that one GPU holds
_ANY_SHARE = 0.5  # stands for the share of one GPU until their number is known


def sharded(workload: Workload, stage: int, count: int) -> Workload:
    """Return the step of one of `count` GPUs under ZeRO at this stage. The number of GPUs changes a single size, so the
    step is rewritten once.
    """
    known = _divided.setdefault(workload, {})
    if stage not in known:
        known[stage] = _divided_by(workload, stage, _ANY_SHARE)
    dims = known[stage].dims.copy()
    dims[len(workload.dims) :, 0] = 1.0 / count
    return replace(known[stage], dims=dims, options={**workload.options, "zero_stage": stage, "zero_count": count})


def _divided_by(workload: Workload, stage: int, share: float) -> Workload:
    draft = Draft(workload)
    part_of = cache(lambda tensor: _scaled(draft, tensor, share))  # thousands of calls list the same few tensors
    _shard_update(draft, share, part_of)
    units = _units(workload)
    if stage >= 2:
        _shard_gradients(draft, part_of, units)
    if stage >= 3:
        _shard_weights(draft, part_of, units)
    return draft.done()


def _scaled(draft: Draft, tensor: int, share: float) -> int:
    spec = draft.tensors[tensor]
    return draft.tensor(spec.dtype, draft.scaled(spec.elements, share))


def _resized(buffer: Buffer, tensor: int) -> Buffer:
    return Buffer(tensor, buffer.category, buffer.born, buffer.died)


def _shard_update(draft: Draft, share: float, part_of: _PartOf) -> None:
    """Each GPU updates its part of the weights and holds the states for that part."""
    workload = draft.workload
    start = int(np.argmax(np.append(workload.calls.phase, _UPDATE) == _UPDATE))
    for number in range(start, len(workload.calls)):
        call = workload.calls[number]
        op = workload.ops[call.op]
        sides = [tuple(map(part_of, rows)) for rows in (op.reads, op.writes)]
        sizes = (draft.scaled(op.sizes[0], share), *op.sizes[1:])
        row = draft.op(replace(op, sizes=sizes, reads=sides[0], writes=sides[1]))
        draft.calls[number] = Call(row, call.phase, call.module, call.reads, call.writes)
    buffers = workload.buffers
    for row in np.flatnonzero((buffers.category == _STATE) | ((buffers.born >= start) & (buffers.category > _INPUT))).tolist():
        draft.buffers[row] = _resized(buffers[row], part_of(buffers[row].tensor))


def _units(workload: Workload) -> list[str]:
    """Return for every module the part of the model that is gathered with it: its block, or itself."""
    blocks = set(blocks_of(workload))
    units = []
    for path in workload.modules:
        parts = path.split(".")
        above = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        units.append(next((name for name in above if name in blocks), path))
    return units


def _shard_gradients(draft: Draft, part_of: _PartOf, units: list[str]) -> None:
    """A gradient is complete until its unit's backward pass ends; then each GPU keeps its part."""
    workload = draft.workload
    last: dict[str, int] = {}
    backward = np.flatnonzero(workload.calls.phase == _BACKWARD).tolist()
    for number in backward:
        last[units[workload.calls[number].module]] = number
    kept: dict[int, int] = {}
    maker = makers(workload)
    for number in backward:
        call = workload.calls[number]
        for row in call.writes:
            buffer = workload.buffers[row]
            if buffer.category != _GRADIENT or maker[row] != number:
                continue
            small = part_of(buffer.tensor)
            kept[row] = draft.buffer(small, "gradient")
            size = (draft.tensors[buffer.tensor].elements,)
            dtype = draft.tensors[buffer.tensor].dtype
            op = draft.op(Op("copy", "reduce_scatter", dtype, size, {}, (buffer.tensor,), (small,)))
            draft.after(last[units[call.module]], Call(op, _BACKWARD, call.module, (row,), (kept[row],)))
    draft.by_use(kept)
    for number, now in enumerate(draft.calls):
        if now is not None and now.phase == _UPDATE:
            reads, writes = (tuple(kept.get(row, row) for row in rows) for rows in (now.reads, now.writes))
            draft.calls[number] = Call(now.op, now.phase, now.module, reads, writes)


def _shard_weights(draft: Draft, part_of: _PartOf, units: list[str]) -> None:
    """Weights are stored in parts, and gathered one unit before they are used, in each of the passes."""
    workload = draft.workload
    starts: dict[tuple[int, str], int] = {}
    used: dict[tuple[int, str], dict[int, None]] = {}
    using: list[int] = []
    weights = {*np.flatnonzero(workload.buffers.category == _WEIGHT).tolist()}
    for number, call in enumerate(workload.calls):
        if call.phase == _UPDATE:
            continue
        key = (call.phase, units[call.module])
        starts.setdefault(key, number)
        if rows := [row for row in (*call.reads, *call.writes) if row in weights]:
            used.setdefault(key, {}).update(dict.fromkeys(rows))
            using.append(number)
    gathers = [key for key in starts if key in used]
    whole: dict[tuple[int, str, int], int] = {}
    for place, key in enumerate(gathers):
        early = gathers[place - 1] if place and gathers[place - 1][0] == key[0] else key
        for row in used[key]:
            tensor = workload.buffers[row].tensor
            small = part_of(tensor)
            draft.buffers[row] = _resized(workload.buffers[row], small)
            whole[(*key, row)] = draft.buffer(tensor, "temporary")
            spec = draft.tensors[tensor]
            op = draft.op(Op("copy", "all_gather", spec.dtype, (spec.elements,), {}, (small,), (tensor,)))
            draft.before(starts[early], Call(op, key[0], workload.calls[starts[key]].module, (row,), (whole[(*key, row)],)))
    gathered = {row for rows in used.values() for row in rows}
    for row in sorted(weights - gathered):  # tables that are looked up, not read as a whole
        draft.buffers[row] = _resized(workload.buffers[row], part_of(workload.buffers[row].tensor))
    for number in using:
        call = workload.calls[number]
        unit = (call.phase, units[call.module])
        reads, writes = (tuple([whole.get((*unit, row), row) for row in rows]) for rows in (call.reads, call.writes))
        draft.calls[number] = Call(call.op, call.phase, call.module, reads, writes)


# ---------------------------------------------------------------- inference over several GPUs


def split(workload: Workload, count: int, *, matrices: bool) -> Workload:
    """Return the part of a model that the fullest of `count` GPUs holds for inference: some of its blocks, or a part of every
    matrix in them.

    Embeddings, the output layer and results between layers are not divided. Splitting matrices divides the work; splitting by
    layers does not, because one GPU works at a time.
    """
    blocks = blocks_of(workload)
    share = 1.0 / count if matrices else -(-len(blocks) // count) / max(1, len(blocks))
    draft = Draft(workload)
    inside = inside_of(workload, blocks)
    owned = {row for call in workload.calls if inside[call.module] for row in (*call.reads, *call.writes)}
    shared = {row for call in workload.calls if not inside[call.module] for row in (*call.reads, *call.writes)}
    for row in owned - shared:
        if workload.buffers[row].category in (_WEIGHT, _INPUT):
            draft.buffers[row] = replace(workload.buffers[row], tensor=_scaled(draft, workload.buffers[row].tensor, share))
    parts: dict[int, int | None] = {}  # the part of each op: blocks repeat the same ones
    for number, call in enumerate(workload.calls):
        if not matrices or not inside[call.module]:
            continue
        if call.op not in parts:
            op = _part(draft, workload.ops[call.op], share)
            parts[call.op] = None if op is None else draft.op(op)
        if (part := parts[call.op]) is not None:
            draft.calls[number] = Call(part, call.phase, call.module, call.reads, call.writes)
    return draft.done(options={**workload.options, "split": count})


def _part(draft: Draft, op: Op, share: float) -> Op | None:
    """Return a product with a part of its columns, or attention with a part of its heads."""
    if op.kind == "matmul":
        batch, rows, wide, deep = op.sizes
        reads = (op.reads[0], _scaled(draft, op.reads[1], share), *op.reads[2:])
        return replace(op, sizes=(batch, rows, draft.scaled(wide, share), deep), reads=reads)
    if op.kind in ("linear", "experts"):
        reads = (op.reads[0], *(_scaled(draft, tensor, share) for tensor in op.reads[1:]))
        return replace(op, sizes=(*op.sizes[:-2], draft.scaled(op.sizes[-2], share), op.sizes[-1]), reads=reads)
    if op.kind == "attention":
        batch, heads, kv_heads, *rest = op.sizes
        reads = tuple(_scaled(draft, tensor, share) for tensor in op.reads)
        return replace(op, sizes=(batch, draft.scaled(heads, share), draft.scaled(kv_heads, share), *rest), reads=reads)
    return None
