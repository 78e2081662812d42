"""One capture at one size in plain integers, as a recorder returns it before sizes become symbolic."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwise.workload.model.types import AttrValue

__all__ = ["RawBuffer", "RawCall", "RawCapture", "RawTensor"]


@dataclass(frozen=True, slots=True)
class RawTensor:
    """The dtype and shape that a kernel touches. Broadcast dimensions are omitted, because they are read once."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class RawCall:
    """The work of one kernel. `sizes` are products of dimensions, whose meaning depends on the kind."""

    kind: str
    name: str
    dtype: str
    sizes: tuple[tuple[int, ...], ...]
    attrs: dict[str, AttrValue]
    reads: tuple[RawTensor, ...]
    writes: tuple[RawTensor, ...]
    phase: str
    module: str
    read_buffers: tuple[int, ...] = ()
    written_buffers: tuple[int, ...] = ()


@dataclass(slots=True)
class RawBuffer:
    """One allocation between two calls."""

    tensor: RawTensor
    category: str
    born: int
    died: int


@dataclass(slots=True)
class RawCapture:
    """One recorded step."""

    batch: int
    seq: int | None
    calls: list[RawCall] = field(default_factory=list)
    buffers: list[RawBuffer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
