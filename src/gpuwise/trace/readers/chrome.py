"""Chrome traces: those of torch.profiler (Kineto) on NVIDIA and AMD since 2021, and the `trace.json.gz` of TensorFlow and JAX.
Also older ones, whose events have no category or come in begin/end pairs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gpuwise.trace import tensorflow_names, uncategorised
from gpuwise.trace.chunks import EventStream
from gpuwise.trace.pairs import Pairs
from gpuwise.trace.records import NOTHING, Arguments, Begin, End, Record, Title
from gpuwise.trace.sized import SIZED
from gpuwise.trace.source import ByteSource
from gpuwise.trace.table import LONGEST_TEXT, Interner, TableBuilder
from gpuwise.trace.types import CutOff, Device, Kind, Loss, Trace, printable

__all__ = ["read_chrome"]

# Categories by spelling, in lower case: Kineto wrote `Kernel`, `Memcpy`, `Operator`, `Runtime` until 2022.
_KINDS = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cpu_op": Kind.OP,
    "operator": Kind.OP,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "mtia_ccp_events": Kind.KERNEL,
    "hpu_runtime": Kind.RUNTIME,
    "hpu_op": Kind.KERNEL,
    "privateuse1_runtime": Kind.RUNTIME,
    "runtime": Kind.RUNTIME,
    "user_annotation": Kind.MARK,
    "gpu_user_annotation": Kind.DEVICE_MARK,
    "python_function": Kind.PYTHON,
    "python_func": Kind.PYTHON,
}
_ACCELERATORS = {"mtia_runtime": "MTIA", "hpu_runtime": "HPU", "privateuse1_runtime": "custom accelerator"}  # no GPUs
_DROPPED = -1
_MEMSET, _RUNTIME, _PYTHON = map(int, (Kind.MEMSET, Kind.RUNTIME, Kind.PYTHON))  # numpy compares plain integers much faster
_UNUSED = ("trace", "cuda_profiler_range")
_SHORTEST_PYTHON_NS = 50_000  # shorter functions explain no stall of the device, and a file has millions of them
_NANOSECONDS_FROM = 1e17  # microseconds since 1970 are below 2e15 today, nanoseconds above 1e18
_LARGEST = 2**62
_NO_ARGUMENTS = Arguments()
_WITH_SETTINGS = 2


class _Kinds(dict[str, int]):
    """The kind of a category, in any case of letters."""

    def __missing__(self, category: str) -> int:
        word = category.lower()
        found = _DROPPED if word in _UNUSED else int(_KINDS.get(word, Kind.OTHER))
        self[category] = found
        return found


class _Origins(Interner):
    """Numbers of what many events share: their category, name, process and thread. Known of an origin are the kind of its events,
    whether their sizes are of use (with or without their settings), and the numbers of their name and thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds = _Kinds()
        self.names = Interner()
        self.threads = Interner()
        self.known = np.empty((4, 0), dtype=np.int32)
        self._fresh: list[tuple[int, int, int, int]] = []

    def __missing__(self, origin: tuple[str, str, Any, Any]) -> int:
        category, name, process, thread = origin
        if len(name) > LONGEST_TEXT:
            return self[category, name[:LONGEST_TEXT], process, thread]
        self[origin] = number = len(self)
        kind = self.kinds[category]
        of_use = 0 if kind != Kind.OP or name not in SIZED else _WITH_SETTINGS if "conv" in name or "attention" in name else 1
        self._fresh.append((kind, of_use, self.names[name], self.threads[process, thread]))
        return number

    def of(self, rows: list[Record]) -> npt.NDArray[np.int32]:
        """The origins of events."""
        shared = zip(
            [row.cat for row in rows],
            [row.name for row in rows],
            [row.pid for row in rows],
            [row.tid for row in rows],
            strict=True,
        )
        found = self.many(shared, len(rows))
        if self._fresh:
            self.known = np.hstack([self.known, np.array(self._fresh, dtype=np.int32).T])
            self._fresh.clear()
        return found


class _Shapes(Interner):
    """Numbers of texts about ops and collectives; -1 for one that tells no sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bytes] = []

    def __missing__(self, text: bytes) -> int:
        if len(text) > LONGEST_TEXT:
            return self[text[:LONGEST_TEXT]]
        self[text] = number = -1 if text.startswith((b"|", b"[]|")) else len(self.found)
        if number >= 0:
            self.found.append(text)
        return number


class _ChromeTable:
    """Batches of records become columns."""

    def __init__(self) -> None:
        self.table = TableBuilder()
        self.origins = _Origins()
        self.shapes = _Shapes()
        self.titles: dict[tuple[Any, Any, str], str] = {}
        self.malformed = 0
        self.dropped = 0
        self.pairs = Pairs()
        self._scale: int | None = None

    def add(self, batch: list[Any]) -> None:
        spans: list[Record] = [entry for entry in batch if type(entry) is Record]
        present = set(map(type, batch))
        if Begin in present or End in present:
            spans += self.pairs.matched(batch)
        if Title in present:
            self._name(batch)
        count = len(spans)
        if not count:
            return
        origin = self.origins.of(spans)
        kind = self.origins.known[0].take(origin)
        start, duration = _numbers([record.ts for record in spans]), _numbers([record.dur for record in spans])
        scale = self._scale_of(start)
        limit = _LARGEST // scale
        with np.errstate(invalid="ignore"):
            wanted = (kind != _DROPPED) & ~((kind == _PYTHON) & (duration < _SHORTEST_PYTHON_NS // scale))
            whole = (duration >= 0) & (duration < limit) & (start > -limit) & (start < limit)
        kept = wanted & whole
        if kept.all():
            self._append(spans, origin, start, duration)
            return
        self.dropped += int(count - wanted.sum())
        self.malformed += int((wanted & ~whole).sum())
        if kept.any():
            self._append(list(compress(spans, kept.tolist())), origin[kept], start[kept], duration[kept])

    def _name(self, batch: list[Any]) -> None:
        """Take the names of processes and threads."""
        for title in [entry for entry in batch if type(entry) is Title]:
            if title.args is not None and title.args.name:
                self.titles[title.pid, title.tid, title.name] = title.args.name[:LONGEST_TEXT]

    @property
    def uncategorised(self) -> bool:
        """Whether no event of the file has a category."""
        return set(self.origins.kinds) == {""}

    def _append(self, rows: list[Record], origin: npt.NDArray[np.int32], start: Any, duration: Any) -> None:
        """Columns that only some kinds have are looked for in those alone. For now, the name is the number of the origin."""
        args = [row.args or _NO_ARGUMENTS for row in rows]
        kind, sized = (known.take(origin) for known in self.origins.known[:2])
        on_device, issued = (np.flatnonzero(chosen) for chosen in (kind <= _MEMSET, (kind <= _MEMSET) | (kind == _RUNTIME)))
        work = _chosen(args, on_device)
        self.table.add(
            len(rows),
            kind=kind,
            name=origin,
            start_ns=self._nanoseconds(start),
            duration_ns=self._nanoseconds(duration),
            device=(on_device, _whole([arg.device for arg in work], 2**31)),
            stream=(on_device, _whole([arg.stream for arg in work])),
            correlation=(issued, _whole([arg.correlation for arg in _chosen(args, issued)])),
            size_bytes=(on_device, _whole([arg.bytes for arg in work])),
            blocks_per_sm=(on_device, _blocks(work)),
            shape=self._shapes(args, sized, work, on_device),
        )

    def _shapes(
        self, args: list[Arguments], sized: npt.NDArray[np.int32], work: list[Arguments], on_device: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Numbers of the sizes of ops; of a collective's kernel, of its name, its ranks and its size."""
        shape = np.full(len(args), -1, dtype=np.int32)
        ops = np.flatnonzero(sized)
        told = _chosen(args, ops)
        sizes = [arg.dims for arg in told]
        if sizes.count(NOTHING) < len(sizes):  # most files tell the sizes of all ops or of none
            texts = list(map(b"|".join, zip(sizes, [arg.types for arg in told], strict=True)))
            for place in np.flatnonzero(sized[ops] == _WITH_SETTINGS).tolist():
                if told[place].given is not NOTHING:
                    texts[place] += b"|" + bytes(told[place].given)
            shape[ops] = self.shapes.many(texts, len(texts))
        if [arg.collective for arg in work].count(NOTHING) < len(work):
            for row, arg in zip(on_device.tolist(), work, strict=True):
                if arg.collective is not NOTHING:
                    shape[row] = self.shapes[b"|".join((arg.collective, arg.group, arg.sent))]
        return shape

    def _scale_of(self, start: npt.NDArray[Any]) -> int:
        """Nanoseconds in a unit of the file: judged once, by the first batch."""
        finite = start[np.isfinite(start)]
        if self._scale is None and len(finite):
            self._scale = 1 if float(np.median(finite)) > _NANOSECONDS_FROM else 1000
        return self._scale or 1000

    def _nanoseconds(self, found: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Times of the file in whole nanoseconds, keeping what a float holds after the point."""
        scale = np.int64(self._scale or 1000)
        if found.dtype.kind != "f":
            return np.asarray(found.astype(np.int64) * scale, dtype=np.int64)
        whole: npt.NDArray[np.int64] = np.floor(found).astype(np.int64)
        return np.asarray(whole * scale + np.rint((found - whole) * scale).astype(np.int64), dtype=np.int64)


def _numbers(values: list[Any]) -> npt.NDArray[Any]:
    """Integers where all are, else floats; what no 64-bit integer holds becomes a float too."""
    try:
        if type(sum(values)) is int:  # one float makes the sum a float
            return np.fromiter(values, dtype=np.int64, count=len(values))
        return np.frombuffer(struct.pack(f"{len(values)}d", *values))  # of floats, three times as fast as np.fromiter
    except OverflowError:
        return np.array([_float(value) for value in values])


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _chosen(args: list[Arguments], rows: npt.NDArray[np.intp]) -> list[Arguments]:
    return [args[row] for row in rows.tolist()]


def _blocks(args: list[Arguments]) -> npt.NDArray[np.float32]:
    """Blocks per multiprocessor, or the negative number of blocks where only the grid is known."""
    with np.errstate(over="ignore"):
        found = _numbers([arg.blocks_per_sm for arg in args]).astype(np.float32)
    for row in np.flatnonzero(np.isnan(found)).tolist():
        if args[row].grid is not NOTHING:
            found[row] = -_product(args[row].grid)
    return found


def _product(grid: msgspec.Raw) -> float:
    try:
        return float(np.prod(np.array(msgspec.json.decode(grid, type=list[float])[:3])))
    except msgspec.DecodeError:
        return float("nan")


def _whole(values: list[Any], limit: int = _LARGEST) -> npt.NDArray[np.int64]:
    found = _numbers(values)
    if found.dtype.kind == "i":
        return np.where(np.abs(found) < limit, found, -1)
    return np.array([int(value) if -limit < value < limit else -1 for value in values], dtype=np.int64)


def read_chrome(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One Chrome trace, plain or gzip."""
    collected = _ChromeTable()
    with ByteSource(path, progress, text=True) as source:
        stream = EventStream(source, path.name)
        for batch in stream.batches():
            collected.add(batch)
            batch.clear()  # so that the next batch takes the same memory, which is still in the caches
    return _trace(path, stream, collected)


def _trace(path: Path, stream: EventStream, collected: _ChromeTable) -> Trace:
    header = stream.header
    events = collected.table.build()
    base = header.get("baseTimeNanoseconds")
    if isinstance(base, int) and 0 < base < _LARGEST and len(events) and events.start_ns[-1] < _LARGEST - base:
        events.start_ns[:] += base
    if len(events):
        _, _, name, thread = collected.origins.known
        events.thread[:] = thread.take(events.name)
        events.name[:] = name.take(events.name)
        processes = Interner()
        threads = collected.origins.threads
        events.process[:] = processes.many((process for process, _ in threads), len(threads)).take(events.thread)
    spread = _distributed(header)
    names = tuple(collected.origins.names)
    trace = Trace(
        file=printable(path.name),
        format="chrome trace",
        events=events,
        names=names,
        shapes=tuple(shape.decode("utf-8", "replace").encode() for shape in collected.shapes.found),
        devices=_devices(header),
        framework=_framework(header),
        accelerator=next((_ACCELERATORS[word] for word in map(str.lower, collected.origins.kinds) if word in _ACCELERATORS), ""),
        rank=spread.get("rank"),
        world_size=spread.get("world_size"),
        backend=str(spread.get("backend", "")),
        losses=_losses(stream, collected),
        cut=_cut(stream),
        dropped=(("records of Python functions and the profiler", collected.dropped),) if collected.dropped else (),
        recorded=tuple(key for key in ("record_shapes", "with_stack", "profile_memory") if header.get(key)),
    )
    if tensorflow_names.is_tensorflow(collected.titles):
        return tensorflow_names.sort_out(trace, collected.titles, list(collected.origins.threads))
    if collected.uncategorised:
        return uncategorised.sort_out(trace, collected.titles, list(collected.origins.threads))
    return trace


def _cut(stream: EventStream) -> CutOff | None:
    """Where the file ends early. A header that lists no GPU says that none was there; one that comes last says nothing."""
    if not stream.cut:
        return None
    hides_gpu = stream.ragged and stream.header.get("deviceProperties") != []
    return CutOff(where=stream.cut, ragged=stream.ragged, hides_gpu=hides_gpu)


def _losses(stream: EventStream, collected: _ChromeTable) -> tuple[Loss, ...]:
    found = []
    if stream.lost_events:
        found.append(Loss(what=f"events that are not JSON ({stream.lost_bytes:,} bytes)", count=stream.lost_events))
    if collected.malformed:
        found.append(Loss(what="events without a start, or with a missing or negative duration", count=collected.malformed))
    if collected.pairs.unmatched:
        found.append(
            Loss(what="begin events without an end event, or end events without a begin event", count=collected.pairs.unmatched)
        )
    return tuple(found)


def _framework(header: dict[str, Any]) -> str:
    for key in ("pytorch_version", "torch_version"):
        if isinstance(header.get(key), str):
            return f"torch {header[key][:40]}"
    return "torch" if "schemaVersion" in header or "deviceProperties" in header else ""


def _distributed(header: dict[str, Any]) -> dict[str, Any]:
    found = header.get("distributedInfo")
    if not isinstance(found, dict):
        return {}
    clean: dict[str, Any] = {key: found[key] for key in ("rank", "world_size") if isinstance(found.get(key), int)}
    if isinstance(found.get("backend"), str):
        clean["backend"] = found["backend"][:40]
    return clean


def _devices(header: dict[str, Any]) -> tuple[Device, ...]:
    entries = header.get("deviceProperties")
    found = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or (index := _counted(entry.get("id"), least=0)) is None:
            continue
        name = printable(str(entry.get("name", ""))[:100])
        memory = _counted(entry.get("totalGlobalMem"))
        major, minor = (_counted(entry.get(key), least=0) for key in ("computeMajor", "computeMinor"))
        found.append(
            Device(
                index=index,
                name=name,
                vendor="AMD" if "AMD" in name or entry.get("warpSize") == 64 else "NVIDIA",
                sm_count=_counted(entry.get("numSms")),
                memory_bytes=None if memory is None else float(memory),
                capability=(major, minor) if major is not None and minor is not None else None,
            )
        )
    return tuple(found)


def _counted(value: Any, least: int = 1) -> int | None:
    """The value where it is a count that a device can have."""
    return value if isinstance(value, int) and least <= value < 2**50 else None
