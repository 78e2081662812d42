"""PyTorch's memory snapshot (`torch.cuda.memory._dump_snapshot`): what the allocator holds, which code requested it, and the
history.

A snapshot has `segments` (memory from the driver) made of `blocks` (in use or free), and `device_traces`: the last events on each
device, if `_record_memory_history` was on. A block's address is given, or follows from the blocks before it. Sizes in the events
are those requested; the allocator rounds them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_count, as_dict, as_list, as_text, program_frame, read_document
from gpuwise.trace.types import printable

__all__ = ["DeviceMemory", "Holder", "MemorySnapshot", "read_memory_snapshot"]

_MOST_ENTRIES = 30_000_000  # entries to read; a list that is shared a million times must not be walked a million times
_MOST_HOLDERS = 50
NO_STACK = "no stack was recorded"
BEFORE = "allocated before the recording began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The place in the program that requested memory which is still in use; `where` is `file:line function`."""

    where: str
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """One device. Allocated is what tensors use, reserved what the allocator took from the driver; peaks are over the recorded
    events. `split_bytes` are free, but in segments that are partly used; `cached_bytes` are whole free segments."""

    index: int
    allocated_bytes: int
    requested_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    split_bytes: int
    cached_bytes: int
    largest_free_bytes: int
    segment_count: int
    block_count: int
    event_count: int
    driver_calls: int
    oom_bytes: tuple[int, ...]
    oom_free_bytes: int | None
    holders: tuple[Holder, ...]
    peak_holders: tuple[Holder, ...]

    @property
    def free_bytes(self) -> int:
        """Memory that is reserved but not used by any tensor."""
        return self.split_bytes + self.cached_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    """One file: the device with most memory comes first."""

    file: str
    devices: tuple[DeviceMemory, ...]


@dataclass(slots=True)
class _Gathered:
    """The totals over the segments of one device."""

    allocated: int = 0
    requested: int = 0
    reserved: int = 0
    split: int = 0
    cached: int = 0
    largest: int = 0
    segments: int = 0
    blocks: int = 0
    live: dict[int, tuple[int, Any]] = field(default_factory=dict)


class _Budget:
    """Counts the entries that were read, and stops reading a file that has too many."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = _MOST_ENTRIES

    def dicts(self, value: Any) -> Iterator[dict[Any, Any]]:
        for entry in as_list(value):
            self._left -= 1
            if self._left < 0:
                raise BadFile(f"'{self._name}' has more than {_MOST_ENTRIES:,} entries", hint="record a shorter history")
            if isinstance(entry, dict):
                yield entry


def read_memory_snapshot(path: Path) -> MemorySnapshot:
    """One snapshot."""
    content = read_document(path)
    whole = {"segments": content} if isinstance(content, list) else as_dict(content)
    traces = as_list(whole.get("device_traces"))
    budget = _Budget(path.name)
    gathered: dict[int, _Gathered] = {}
    for segment in budget.dicts(whole.get("segments")):
        _add_segment(gathered.setdefault(as_count(segment.get("device")), _Gathered()), segment, budget)
    for index, events in enumerate(traces[:1024]):
        if as_list(events):
            gathered.setdefault(index, _Gathered())
    if not gathered:
        raise BadFile(
            f"'{path.name}' is a memory snapshot without any segment or event",
            hint="call torch.cuda.memory._record_memory_history() before the run and _dump_snapshot() while tensors are alive",
        )
    devices = [
        _device(index, found, list(budget.dicts(traces[index] if index < len(traces) else [])))
        for index, found in gathered.items()
    ]
    devices.sort(key=lambda one: (-one.peak_reserved_bytes, one.index))
    return MemorySnapshot(file=printable(path.name), devices=tuple(devices))


def _add_segment(into: _Gathered, segment: dict[Any, Any], budget: _Budget) -> None:
    blocks = list(budget.dicts(segment.get("blocks")))
    into.segments += 1
    into.blocks += len(blocks)
    into.reserved += as_count(segment.get("total_size"))
    free = 0
    address = as_count(segment.get("address"))
    for block in blocks:
        size = as_count(block.get("size"))
        if block.get("state") == "active_allocated":
            frames, requested = _asked(block, size)
            into.allocated += size
            into.requested += requested
            into.live[as_count(block.get("address")) or address] = (requested, frames)
        elif block.get("state") == "inactive":
            free += size
            into.largest = max(into.largest, size)
        address += size
    if free and free < as_count(segment.get("total_size")):
        into.split += free
    else:
        into.cached += free


def _asked(block: dict[Any, Any], size: int) -> tuple[Any, int]:
    """Return the stack and the size of a request; older snapshots keep them in a history."""
    if "frames" in block or "requested_size" in block:
        return block.get("frames"), as_count(block.get("requested_size")) or size
    history = as_list(block.get("history"))
    last = as_dict(history[0]) if history else {}
    return last.get("frames"), as_count(last.get("real_size")) or size


def _device(index: int, found: _Gathered, events: list[dict[Any, Any]]) -> DeviceMemory:
    allocated, place = _peak(found.requested, events, {"alloc": 1, "free_requested": -1})
    reserved, _ = _peak(found.reserved, events, {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1})
    failed = [event for event in events if event.get("action") == "oom"]
    calls = sum(event.get("action") in ("segment_alloc", "segment_free", "segment_map", "segment_unmap") for event in events)
    return DeviceMemory(
        index=index,
        allocated_bytes=found.allocated,
        requested_bytes=found.requested,
        reserved_bytes=found.reserved,
        peak_allocated_bytes=max(allocated, found.allocated),
        peak_reserved_bytes=max(reserved, found.reserved),
        split_bytes=found.split,
        cached_bytes=found.cached,
        largest_free_bytes=found.largest,
        segment_count=found.segments,
        block_count=found.blocks,
        event_count=len(events),
        driver_calls=calls,
        oom_bytes=tuple(as_count(event.get("size")) for event in failed),
        oom_free_bytes=as_count(failed[-1].get("device_free")) if failed else None,
        holders=_holders(found.live.values()),
        peak_holders=_holders(_live_at(place, found.live, events)) if events else (),
    )


def _peak(now: int, events: list[dict[Any, Any]], signs: dict[str, int]) -> tuple[int, int]:
    """Return the peak over the events, which end at the current amount, and after how many events it was reached."""
    changes = [signs.get(as_text(event.get("action")), 0) * as_count(event.get("size")) for event in events]
    amount = most = now - sum(changes)
    place = 0
    for number, change in enumerate(changes, start=1):
        amount += change
        if amount > most:
            most, place = amount, number
    return max(most, 0), place


def _live_at(place: int, live: dict[int, tuple[int, Any]], events: list[dict[Any, Any]]) -> list[tuple[int, Any]]:
    """Return what was allocated after a number of events: blocks that existed before and still do, those that were allocated
    and not
    yet freed, and those of unknown origin that were freed only later."""
    told = {as_count(event.get("addr")) for event in events if event.get("action") == "alloc"}
    held = {address: entry for address, entry in live.items() if address not in told}
    unknown: list[tuple[int, Any]] = []
    born: set[int] = set()
    for number, event in enumerate(events, start=1):
        address, size = as_count(event.get("addr")), as_count(event.get("size"))
        if event.get("action") == "alloc":
            born.add(address)
            if number <= place:
                held[address] = (size, event.get("frames"))
        elif event.get("action") == "free_requested":
            if number <= place:
                held.pop(address, None)
            elif address not in born:
                unknown.append((size, BEFORE))
    return [*held.values(), *unknown]


def _holders(entries: Any) -> tuple[Holder, ...]:
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for size, frames in entries:
        where = frames if frames is BEFORE else program_frame(frames) or NO_STACK
        sizes[where] += size
        counts[where] += 1
    return tuple(Holder(where=where, size_bytes=size, count=counts[where]) for where, size in sizes.most_common(_MOST_HOLDERS))
