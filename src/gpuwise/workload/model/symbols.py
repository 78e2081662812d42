"""Combines a few captures at different sizes into one symbolic workload, and verifies it.

The captures must have the same sequence of ops. Each dimension is fitted as `c0 + c1·batch + c2·seq + c3·batch·seq` on all
captures but the last, which it must reproduce exactly. If it does not, the mismatch is reported and the workload stays at the
first captured size.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.capture.raw import RawBuffer, RawCall, RawCapture, RawTensor
from gpuwise.workload.model.evaluate import monomials
from gpuwise.workload.model.types import CATEGORIES, PHASES, Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload

__all__ = ["Description", "NotAffine", "join"]

_Key = TypeVar("_Key", bound=Hashable)


class NotAffine(Exception):
    """The captures do not share one symbolic form; the message says where they diverge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The name of a workload and how it was captured."""

    model: str
    source: str
    mode: str
    precision: str
    optimizer: str
    options: dict[str, Any]
    parameters: int


def join(captures: Sequence[RawCapture], about: Description) -> Workload:
    """Combine captures of one model into one workload. With a single capture, or if they diverge, its sizes are fixed."""
    notes = list(dict.fromkeys(note for capture in captures for note in capture.notes))
    if len(captures) > 1:
        try:
            return _Builder(captures, about, notes).build()
        except NotAffine as reason:
            notes.append(f"valid only at the captured size: {reason}")
    return _Builder(captures[:1], about, notes).build()


class _Table(Generic[_Key]):
    """Distinct entries, in order of first appearance."""

    def __init__(self) -> None:
        self._rows: dict[_Key, int] = {}

    def row(self, key: _Key) -> int:
        return self._rows.setdefault(key, len(self._rows))

    def entries(self) -> tuple[_Key, ...]:
        return tuple(self._rows)


class _Builder:
    """Walks the captures in parallel and interns what it sees."""

    def __init__(self, captures: Sequence[RawCapture], about: Description, notes: list[str]) -> None:
        self._captures, self._about, self._notes = captures, about, notes
        self._dims: _Table[tuple[int, ...]] = _Table()  # the value of a dimension in each capture
        self._products: _Table[tuple[int, ...]] = _Table()
        self._tensors: _Table[TensorSpec] = _Table()
        self._ops: _Table[tuple[Any, ...]] = _Table()
        self._modules: _Table[str] = _Table()

    def build(self) -> Workload:
        first = self._captures[0]
        calls = [self._call(calls) for calls in self._aligned("ops", [capture.calls for capture in self._captures])]
        buffers = [self._buffer(buffers) for buffers in self._aligned("buffers", [capture.buffers for capture in self._captures])]
        symbols = () if len(self._captures) == 1 else ("batch",) if first.seq is None else ("batch", "seq")
        return Workload(
            model=self._about.model,
            source=self._about.source,
            mode=self._about.mode,
            precision=self._about.precision,
            optimizer=self._about.optimizer,
            options=self._about.options,
            batch=first.batch,
            seq=first.seq,
            symbols=symbols,
            parameters=self._about.parameters,
            dims=self._fit(),
            products=self._products.entries(),
            tensors=self._tensors.entries(),
            ops=tuple(
                Op(kind, name, dtype, sizes, dict(attrs), reads, writes)
                for kind, name, dtype, sizes, attrs, reads, writes in self._ops.entries()
            ),
            calls=Calls.of(calls),
            modules=self._modules.entries(),
            buffers=Buffers.of(buffers),
            notes=tuple(self._notes),
        )

    @staticmethod
    def _aligned(what: str, lists: Sequence[Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
        if len({len(entries) for entries in lists}) > 1:
            raise NotAffine(f"the number of {what} depends on the size ({', '.join(str(len(entries)) for entries in lists)})")
        return zip(*lists, strict=True)

    def _call(self, calls: tuple[RawCall, ...]) -> Call:
        first = calls[0]
        for other in calls[1:]:
            if (other.kind, other.name, other.attrs, other.phase) != (first.kind, first.name, first.attrs, first.phase):
                raise NotAffine(f"{first.name} at one size becomes {other.name} at another")
            if other.read_buffers != first.read_buffers or other.written_buffers != first.written_buffers:
                raise NotAffine(f"{first.name} works on other tensors at another size")
        key = (
            first.kind,
            first.name,
            first.dtype,
            tuple(self._product(shapes) for shapes in self._aligned("sizes", [call.sizes for call in calls])),
            tuple(sorted(first.attrs.items())),
            tuple(self._tensor(tensors) for tensors in self._aligned("inputs", [call.reads for call in calls])),
            tuple(self._tensor(tensors) for tensors in self._aligned("outputs", [call.writes for call in calls])),
        )
        return Call(
            self._ops.row(key),
            PHASES.index(first.phase),
            self._modules.row(first.module),
            first.read_buffers,
            first.written_buffers,
        )

    def _buffer(self, buffers: tuple[RawBuffer, ...]) -> Buffer:
        first = buffers[0]
        if len({(buffer.category, buffer.born, buffer.died) for buffer in buffers}) > 1:
            raise NotAffine("a tensor lives longer at one size than at another")
        tensor = self._tensor(tuple(buffer.tensor for buffer in buffers))
        return Buffer(tensor, CATEGORIES.index(first.category), first.born, first.died)

    def _tensor(self, tensors: tuple[RawTensor, ...]) -> int:
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise NotAffine("a tensor changes its type with the size")
        return self._tensors.row(TensorSpec(tensors[0].dtype, self._product(tuple(tensor.shape for tensor in tensors))))

    def _product(self, shapes: tuple[tuple[int, ...], ...]) -> int:
        dims = [values for values in self._aligned("dimensions", shapes) if set(values) != {1}]
        return self._products.row(tuple(sorted(self._dims.row(values) for values in dims)))

    def _fit(self) -> NDArray[np.float64]:
        """Return the polynomial of each dimension. It is exact on every capture, including the last, which was not used in the
        fit.
        """
        values = np.array(self._dims.entries(), dtype=np.float64).reshape(-1, len(self._captures)).T
        result = np.zeros((values.shape[1], 4))
        if len(self._captures) == 1:
            result[:, 0] = values[0]
            return result
        seqs = [capture.seq for capture in self._captures]
        batches = np.array([capture.batch for capture in self._captures], dtype=np.float64)
        basis = monomials(batches, None if None in seqs else np.array(seqs, dtype=np.float64))
        width = 2 if None in seqs else 4
        # Fit differences from the first capture, so that rounding of large constants (weights) does not hide small slopes.
        base = values[0]
        slopes, *_ = np.linalg.lstsq(basis[1:-1, 1:width] - basis[0, 1:width], values[1:-1] - base, rcond=None)
        slopes = _whole(slopes)
        constant = _whole(base - basis[0, 1:width] @ slopes)
        solution = np.vstack([constant, slopes])
        wrong = np.any(np.abs(basis[:, :width] @ solution - values) > 1e-6 * np.maximum(1.0, np.abs(values) * 1e-9), axis=0)
        if wrong.any():
            seen = ", ".join(f"{value:.0f}" for value in values[:, int(np.argmax(wrong))])
            raise NotAffine(f"a dimension is {seen} at batches {batches.astype(int).tolist()}")
        result[:, :width] = solution.T
        return result


def _whole(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to whole numbers if the fit differs from them only by rounding errors."""
    nearest = np.round(values)
    return np.where(np.abs(values - nearest) < 1e-6, nearest, values)
