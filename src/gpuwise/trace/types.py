"""The types for a trace from any profiler: one columnar table of events with interned names, and what is known about the
machine.

Times are nanoseconds on the file's clock. Every row has a duration: a kernel, a copy, an op on the host, a runtime call, or an
annotation by a person or a framework. `-1` in an integer column means "not in the trace".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COLUMNS", "CutOff", "Device", "Events", "Kind", "Loss", "Mask", "Trace", "printable"]

Mask = npt.NDArray[np.bool_]
_OTHER_KIND = re.compile(r"\b(accelerator|MTIA|TPU|HPU|NPU|Gaudi|Ascend|Trainium|Inferentia)", re.IGNORECASE)


class Kind(IntEnum):
    """What an event is. The first three occupy the device, the rest happen on the host or only mark time."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    OP = 3
    RUNTIME = 4
    MARK = 5
    DEVICE_MARK = 6
    STEP = 7
    OTHER = 8
    PYTHON = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Events:
    """The table: one array per column, all of the same length, in order of start.

    `shape` is the index in `Trace.shapes` of an op's inputs or, for a collective's kernel, of its kind, ranks and size.
    """

    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.int32]
    start_ns: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    process: npt.NDArray[np.int32]
    thread: npt.NDArray[np.int32]
    device: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int64]
    correlation: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    blocks_per_sm: npt.NDArray[np.float32]
    shape: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self._rows) if "_rows" in self.__dict__ else len(self.kind)

    def __getattr__(self, name: str) -> Any:
        """Copy a column of some rows of another table when it is first used: most questions need few columns."""
        if name not in COLUMNS or "_rows" not in self.__dict__:
            raise AttributeError(name)
        found = self.__dict__[name] = getattr(self._table, name).take(self._rows)
        return found

    @property
    def end_ns(self) -> npt.NDArray[np.int64]:
        return self.start_ns + self.duration_ns

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Events:
        """The rows chosen by a mask or by indices. The columns of this table must not change any more."""
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        part = object.__new__(Events)
        if "_rows" in self.__dict__:
            part.__dict__.update(_table=self._table, _rows=self._rows[rows])
        else:
            part.__dict__.update(_table=self, _rows=rows)
        return part

    def is_kind(self, *kinds: Kind) -> Mask:
        """Which rows are of these kinds."""
        wanted = np.zeros(256, dtype=bool)
        wanted[list(kinds)] = True
        return wanted[self.kind]

    def of(self, *kinds: Kind) -> Events:
        """The rows of these kinds."""
        return self.where(self.is_kind(*kinds))


COLUMNS = tuple(column.name for column in fields(Events))


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as the profiler describes it; missing values are None. Names are `printable`."""

    index: int
    name: str = ""
    vendor: str = ""
    sm_count: int | None = None
    memory_bytes: float | None = None
    capability: tuple[int, int] | None = None
    memory_bytes_per_s: float | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, judging by its name: accelerators of other kinds have kernels and streams too."""
        return not _OTHER_KIND.search(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something in the file that could not be used, and why."""

    what: str
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """A truncated file, and where it ends. If it is `ragged`, events of any time may be missing, because profilers do not
    write them in order of time. If it `hides_gpu`, everything that ran on a GPU may be missing. `read_fraction` is an upper
    bound on the share of the file that is present, None if its length is unknown.
    """

    where: str
    ragged: bool = True
    hides_gpu: bool = True
    read_fraction: float | None = None


def printable(text: str) -> str:
    """Return a text from the file without characters that control a terminal.

    >>> printable("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@lru_cache(maxsize=8)
def _lowered(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One file, read. `accelerator` is what ran the work, if the file says that it was not a GPU."""

    file: str
    format: str
    events: Events
    names: tuple[str, ...]
    shapes: tuple[bytes, ...] = ()
    devices: tuple[Device, ...] = ()
    framework: str = ""
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    accelerator: str = ""
    group: str = ""
    losses: tuple[Loss, ...] = ()
    cut: CutOff | None = None
    dropped: tuple[tuple[str, int], ...] = ()
    recorded: tuple[str, ...] = field(default=())

    def named(self, *parts: str) -> Mask:
        """For each interned name, whether it contains one of these parts (lower case)."""
        return np.array([any(part in name for part in parts) for name in _lowered(self.names)], dtype=bool)

    def marked(self, *parts: str) -> Events:
        """The ops and marks of the host whose name contains one of these parts (lower case)."""
        kind = self.events.kind
        return self.events.where(((kind == Kind.OP) | (kind == Kind.MARK)) & self.named(*parts)[self.events.name])

    def device(self, index: int) -> Device:
        """Return what is known about one device. ROCm counts the host's sockets among its devices, so with two sockets the
        first GPU works as number 2 and is listed as number 0: if all listed devices are alike, any of them describes it.
        """
        for device in self.devices:
            if device.index == index:
                return device
        kinds = {replace(device, index=index) for device in self.devices}
        return kinds.pop() if len(kinds) == 1 else Device(index=index)
