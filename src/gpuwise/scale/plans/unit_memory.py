"""Memory of each unit of a model, from the buffer lifetimes that `fit` uses, and the resulting memory of a rank.

A buffer that the forward pass writes and the backward pass still needs is saved: a rank holds it for every micro-batch in flight.
Buffers that a pass writes and frees exist once. Weights, gradients and states belong to the unit that uses them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.scale.split.share import Degrees
from gpuwise.scale.split.tensor import State, tensor_split
from gpuwise.step.memory.lifetimes import framework_bytes, library_buffers, lives_of, memory_data, tensor_bytes_of
from gpuwise.step.memory.peak import reserved_bytes_of
from gpuwise.step.types import Array
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES
from gpuwise.workload.transform.parts import FIRST, Parts

__all__ = ["Around", "Replay", "UnitMemory", "around_bytes", "replay_of", "unit_memory"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))
_ROW = {name: row for row, name in enumerate(CATEGORIES)}
_PASSING = (_ROW["activation"], _ROW["temporary"])


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitMemory:
    """Bytes of each unit on one rank. Shape (units,): `weight`, `gradient`, `state` (the optimizer's), and `parameters`, which
    counts elements. Shape (units, points): `saved` for the backward pass, without recomputation and with selective
    recomputation; `handed` to the next unit; `passing`, the peak of what a pass writes and frees. `updating`: what the
    optimizer writes and frees, per parameter.
    """

    weight: Array
    gradient: Array
    state: Array
    parameters: Array
    saved: Array
    saved_selective: Array
    handed: Array
    passing: Array
    total_parameters: float
    updating: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The memory that a device holds besides tensors."""

    library_bytes: float
    framework_bytes: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """The whole step at each micro-batch as in `predict` and `fit`, shape (points,): bytes of tensors at the peak, what the
    allocator holds for them, including workspaces of convolutions, and the most bytes that exist only in a pass (`passing`) or
    only in the update (`updating`), whatever else exists then.
    """

    tensors: Array
    held: Array
    passing: Array
    updating: Array


def around_bytes(parts: Parts, gpu: Gpu, ranks: int) -> Around:
    """Libraries, the CUDA context, and buffers for collectives if there is more than one rank."""
    data = memory_data()
    products = any(op.kind == "matmul" for op in parts.workload.ops)
    messages = data.value("collective_bytes") if ranks > 1 else 0.0
    return Around(
        library_bytes=sum(library_buffers(gpu, products=products, training=parts.workload.mode == "train")),
        framework_bytes=framework_bytes(gpu, data) + messages,
    )


def replay_of(parts: Parts, gpu: Gpu, sizes: Sizes) -> Replay:
    """Return the replay of an undivided step."""
    workload = parts.workload
    at = [float(size) if "batch" in workload.symbols else None for size in sizes.batches]
    kept = around_bytes(parts, gpu, 1).library_bytes
    updates = lives_of(workload).phase == _UPDATE
    live = np.array([lives_of(workload).live(tensor_bytes_of(workload, size, sizes.seq)) for size in at])
    brief = live[:, list(_PASSING)].sum(axis=1)
    return Replay(
        tensors=live.sum(axis=1).max(axis=1),
        passing=np.where(updates, 0.0, brief).max(axis=1),
        updating=np.where(updates, brief, 0.0).max(axis=1),
        held=np.array([reserved_bytes_of(workload, size, sizes.seq, gpu=gpu) for size in at]) - kept,
    )


def unit_memory(parts: Parts, degrees: Degrees, sizes: Sizes) -> UnitMemory:
    """Return the memory of every unit on one rank with these degrees."""
    seq = sizes.seq / degrees.context if sizes.seq is not None else None
    values = product_values(parts.workload, sizes.batches if "batch" in parts.workload.symbols else None, seq)
    values = np.broadcast_to(values, (sizes.points, values.shape[1]))
    look = _Look(parts, degrees, values)
    weight, parameters, total = look.weights()
    gradient = look.lasting("gradient")
    states = look.everywhere("optimizer") / max(total, 1.0)
    return UnitMemory(
        weight=weight,
        gradient=gradient,
        state=states * parameters,
        parameters=parameters,
        saved=look.saved(),
        saved_selective=look.saved(selective=True),
        handed=look.handed(),
        passing=look.passing(),
        total_parameters=total,
        updating=look.updating() / max(total, 1.0),
    )


class _Look:
    """The buffers of a workload as columns: bytes on one rank, the first writer, the readers."""

    def __init__(self, parts: Parts, degrees: Degrees, values: Array) -> None:
        workload = self.workload = parts.workload
        self.parts, self.degrees = parts, degrees
        calls, self.buffers = workload.calls, workload.buffers
        specs = workload.tensors
        width = np.array([DTYPE_BYTES[spec.dtype] for spec in specs])
        elements = values[:, [spec.elements for spec in specs]]
        self.elements = elements[0][self.buffers.tensor] * self._shares(degrees)
        self.bytes = (elements * width)[:, self.buffers.tensor] * self._shares(degrees)
        position = np.repeat(np.arange(len(calls)), calls.read_count + calls.written_count)
        starts = np.concatenate([[0], np.cumsum(calls.read_count + calls.written_count)[:-1]])
        offset = np.arange(len(position)) - np.repeat(starts, calls.read_count + calls.written_count)
        self.is_write = offset >= np.repeat(calls.read_count, calls.read_count + calls.written_count)
        self.position, self.refs = position, calls.refs
        self.writer = np.full(len(self.buffers), -1)
        self.writer[self.refs[self.is_write][::-1]] = position[self.is_write][::-1]
        self.phase = calls.phase

    def _shares(self, degrees: Degrees) -> Array:
        """Return a rank's share of each buffer."""
        states = np.array(tensor_split(self.workload).states)
        part = np.where(states == State.PART, 1.0 / degrees.tensor, 1.0)
        if degrees.tensor > 1 and degrees.tokens:
            passing = np.isin(self.buffers.category, _PASSING)
            part = np.where(passing & (states != State.PART), 1.0 / degrees.tensor, part)
        if degrees.expert > 1:
            part = part * np.where(self._of_experts(), 1.0 / degrees.expert, 1.0)
        return part

    def _of_experts(self) -> Array:
        """Weights and gradients of experts."""
        grouped = [op for op in self.workload.ops if op.attrs.get("groups") == "experts"]
        banks = {self.workload.tensors[row].elements for op in grouped for row in (*op.reads[1:2], *op.writes)}
        same = np.array([spec.elements in banks for spec in self.workload.tensors])
        lasting = np.isin(self.buffers.category, [_ROW[name] for name in ("weight", "gradient", "optimizer")])
        return same[self.buffers.tensor] & lasting

    def _unit_of(self, calls: Array) -> Array:
        return np.where(calls >= 0, self.parts.unit[np.maximum(calls, 0)], -1)

    def _sum(self, rows: Array, unit: Array) -> Array:
        """Bytes of these buffers by unit, shape (units, points)."""
        found = np.zeros((self.parts.units, self.bytes.shape[0]))
        rows = rows & (unit >= 0)
        np.add.at(found, unit[rows], self.bytes[:, rows].T)
        return found

    # ------------------------------------------------------------ memory that stays allocated

    def lasting(self, category: str) -> Array:
        rows = (self.buffers.category == _ROW[category]) & (self.phase[np.maximum(self.writer, 0)] != _UPDATE)
        return self._sum(rows, self._unit_of(self.writer))[:, 0]

    def everywhere(self, category: str) -> float:
        """Bytes of the whole model on one GPU; parts count at their full size."""
        rows = self.buffers.category == _ROW[category]
        values = product_values(self.workload)[0]
        specs = [self.workload.tensors[row] for row in self.buffers.tensor[rows].tolist()]
        return float(sum(values[spec.elements] * DTYPE_BYTES[spec.dtype] for spec in specs))

    def weights(self) -> tuple[Array, Array, float]:
        """Bytes and elements by unit, and the elements of the whole model. Tables that no product reads belong to the first
        unit.
        """
        mine = self.buffers.category == _ROW["weight"]
        reads = ~self.is_write & (self.phase[self.position] != _UPDATE) & mine[self.refs]
        reader = np.full(len(self.buffers), -1)
        reader[self.refs[reads][::-1]] = self.position[reads][::-1]
        unit = np.where(reader >= 0, self._unit_of(reader), FIRST)
        self._divide_tables(mine & (reader < 0))
        elements = np.zeros(self.parts.units)
        rows = mine & (unit >= 0)
        np.add.at(elements, unit[rows], self.elements[rows])
        values = product_values(self.workload)[0]
        total = sum(float(values[self.workload.tensors[row].elements]) for row in self.buffers.tensor[mine].tolist())
        return self._sum(mine, unit)[:, 0], elements, total

    def _divide_tables(self, unread: Array) -> None:
        """Embedding tables are divided where their gradients are."""
        states = np.array(tensor_split(self.workload).states)
        divided = (self.buffers.category == _ROW["gradient"]) & (states == State.PART)
        tables = unread & np.isin(self.buffers.tensor, np.unique(self.buffers.tensor[divided]))
        self.elements[tables] /= self.degrees.tensor
        self.bytes[:, tables] /= self.degrees.tensor

    # ------------------------------------------------------------ memory that is freed within a pass

    @property
    def _forward_end(self) -> int:
        return int((self.phase == _FORWARD).sum())

    def saved(self, *, selective: bool = False) -> Array:
        first = self.phase[np.maximum(self.writer, 0)] == _FORWARD
        rows = np.isin(self.buffers.category, _PASSING) & (self.writer >= 0) & first & (self.buffers.died > self._forward_end)
        if selective:
            products = np.array([KINDS[op.kind].is_product for op in self.workload.ops])
            kept = products[self.workload.calls.op[np.maximum(self.writer, 0)]]
            rows = rows & kept
        return self._sum(rows, self._unit_of(self.writer))

    def handed(self) -> Array:
        """Bytes that the forward pass of a later unit reads from this one."""
        place = self.parts.place
        reads = ~self.is_write & (self.phase[self.position] == _FORWARD)
        by = self.writer[self.refs]
        crossing = reads & (by >= 0) & (place[self.position] == place[np.maximum(by, 0)] + 1)
        rows = np.zeros(len(self.buffers), dtype=bool)
        rows[self.refs[crossing]] = True
        return self._sum(rows & np.isin(self.buffers.category, _PASSING), self._unit_of(self.writer))

    def passing(self) -> Array:
        """The peak of what the calls of a unit write and the backward pass does not need, in the larger of the two passes."""
        found = np.zeros((self.parts.units, self.bytes.shape[0]))
        unit = self._unit_of(self.writer)
        starts = self.phase[np.maximum(self.writer, 0)]
        for phase in (_FORWARD, _BACKWARD):
            until = self._forward_end if phase == _FORWARD else len(self.phase)
            rows = (
                np.isin(self.buffers.category, _PASSING) & (self.writer >= 0) & (starts == phase) & (self.buffers.died <= until)
            )
            for number in range(self.parts.units):
                mine = np.flatnonzero(rows & (unit == number))
                if len(mine):
                    found[number] = np.maximum(found[number], self._peak(mine))
        return found

    def updating(self) -> float:
        """The peak of what the optimizer writes and frees, for the whole model."""
        starts = self.phase[np.maximum(self.writer, 0)]
        rows = np.flatnonzero(np.isin(self.buffers.category, _PASSING) & (self.writer >= 0) & (starts == _UPDATE))
        return float(self._peak(rows)[0]) if len(rows) else 0.0

    def _peak(self, rows: Array) -> Array:
        start = int(self.buffers.born[rows].min())
        length = int(self.buffers.died[rows].max()) - start + 1
        change = np.zeros((length, self.bytes.shape[0]))
        np.add.at(change, self.buffers.born[rows] - start, self.bytes[:, rows].T)
        np.add.at(change, self.buffers.died[rows] - start, -self.bytes[:, rows].T)
        found: Array = np.cumsum(change, axis=0).max(axis=0)
        return found
