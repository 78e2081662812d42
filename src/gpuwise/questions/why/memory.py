"""Why did it run out of memory, or nearly? From PyTorch's memory snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuwise.core.units import format_si
from gpuwise.questions.why.file_answer import Discovery, FileAnswer, Listing
from gpuwise.trace.formats import Format
from gpuwise.trace.readers.memory_snapshot import DeviceMemory, Holder, read_memory_snapshot

__all__ = ["explain_memory"]

_FRAGMENTED = 0.15  # of the reserved memory is free in pieces, from which it is a finding; assumed
_WHOLE = 0.8  # of the free bytes, in one block
_LARGE = 0.25  # of the memory is used by one line of the program, from which it is a finding; assumed
_NO_HISTORY = "no history was recorded, so the peak is what was in use when the snapshot was taken"


def explain_memory(paths: Sequence[Path]) -> FileAnswer:
    """Describe the device with the highest peak in these snapshots; the others are in the JSON."""
    snapshots = [read_memory_snapshot(path) for path in paths]
    pairs = [(snapshot.file, device) for snapshot in snapshots for device in snapshot.devices]
    file, device = max(pairs, key=lambda pair: pair[1].peak_reserved_bytes)
    holders = device.peak_holders or device.holders
    when = "at the peak" if device.peak_holders else "when the snapshot was taken"
    notes = [] if device.event_count else [_NO_HISTORY]
    if device.event_count:
        notes.append(f"the peaks cover only the last {device.event_count:,} recorded events; earlier ones are not in the file")
    if len(pairs) > 1:
        notes.append(f"these files contain {len(pairs)} devices, of which the fullest is shown (GPU {device.index} in {file})")
    return FileAnswer(
        files=tuple(snapshot.file for snapshot in snapshots),
        format=Format.MEMORY.value,
        verdict=_verdict(device, holders, when),
        head=_head(device),
        key="memory",
        content={**_content(file, device), "devices": [_content(name, one) for name, one in pairs]},
        listings=(_listing(f"what holds the memory {when}", holders),),
        discoveries=tuple(filter(None, (_failed(device), _fragmented(device), _held(holders, when)))),
        notes=tuple(notes),
    )


def _content(file: str, device: DeviceMemory) -> dict[str, Any]:
    found = asdict(device)
    found["oom_bytes"] = list(device.oom_bytes)
    return {
        "file": file,
        **found,
        "free_bytes": device.free_bytes,
        "fragmentation_fraction": _fragmentation(device),
        "holders": [_holder(one) for one in device.holders],
        "peak_holders": [_holder(one) for one in device.peak_holders],
    }


def _holder(one: Holder) -> dict[str, Any]:
    return {"where": one.where, "size_bytes": one.size_bytes, "count": one.count}


def _fragmentation(device: DeviceMemory) -> float:
    """The share of the reserved memory that is free, but in pieces between tensors."""
    return device.split_bytes / device.reserved_bytes if device.reserved_bytes else 0.0


def _size(value: float) -> str:
    return format_si(float(value), "B")


def _verdict(device: DeviceMemory, holders: Sequence[Holder], when: str) -> str:
    if device.oom_bytes:
        asked = f"GPU {device.index} ran out of memory: {_size(device.oom_bytes[-1])} was requested"
        free = "" if device.oom_free_bytes is None else f" while {_size(device.oom_free_bytes)} was free on the device"
        pieces = device.split_bytes >= device.oom_bytes[-1] > device.largest_free_bytes
        lost = (
            f"; {_size(device.split_bytes)} of reserved memory was free in pieces, so fragmentation is the cause"
            if pieces
            else ""
        )
        return asked + free + lost
    top = holders[0] if holders else None
    whole = sum(one.size_bytes for one in holders)
    share = f"; {top.where} holds {top.size_bytes / whole:.0%} of it {when}" if top and whole else ""
    peak = f"{_size(device.peak_allocated_bytes)} allocated and {_size(device.peak_reserved_bytes)} reserved"
    return f"GPU {device.index} reached {peak}{share}"


def _head(device: DeviceMemory) -> tuple[str, ...]:
    now = f"when the snapshot was taken: {_size(device.allocated_bytes)} allocated"
    kept = f"{_size(device.reserved_bytes)} reserved ({device.block_count:,} blocks, {device.segment_count:,} segments)"
    free = f"free but reserved: {_size(device.split_bytes)} in pieces, {_size(device.cached_bytes)} in whole segments"
    return (f"{now}, {kept}", f"{free}; the largest free block is {_size(device.largest_free_bytes)}")


def _listing(title: str, holders: Sequence[Holder]) -> Listing:
    whole = sum(one.size_bytes for one in holders) or 1
    rows = tuple((one.where, _size(one.size_bytes), f"{one.size_bytes / whole:.0%}", f"{one.count:,}") for one in holders)
    return Listing(title=title, columns=("where", "bytes", "share", "blocks"), rows=rows)


def _failed(device: DeviceMemory) -> Discovery | None:
    if not device.oom_bytes:
        return None
    largest = max(device.oom_bytes)
    return Discovery(
        code="out_of_memory",
        title=f"{len(device.oom_bytes)} request{'s' if len(device.oom_bytes) > 1 else ''} failed",
        severity="major",
        share_fraction=min(largest / max(device.peak_reserved_bytes, largest, 1), 1.0),
        confidence="high",
        lines=(
            f"it asked for {_size(largest)}" if len(device.oom_bytes) == 1 else f"the largest asked for {_size(largest)}",
            f"{_size(device.reserved_bytes)} was reserved, of which {_size(device.allocated_bytes)} was in use",
        ),
        remedy="use a smaller batch, checkpointing or a lower precision; `gpuwise fit` ranks these options",
        verify="a new snapshot should contain no failed request",
    )


def _fragmented(device: DeviceMemory) -> Discovery | None:
    share = _fragmentation(device)
    if share < _FRAGMENTED or device.largest_free_bytes > _WHOLE * device.split_bytes:  # one large block can serve any request
        return None
    return Discovery(
        code="memory_fragmented",
        title=f"{share:.0%} of the reserved memory is free but fragmented",
        severity="major" if share >= 2 * _FRAGMENTED else "moderate",
        share_fraction=share,
        confidence="high",
        lines=(
            f"{_size(device.split_bytes)} is free between tensors; the largest free block is {_size(device.largest_free_bytes)}",
            "a request larger than that block needs new memory from the driver",
        ),
        remedy="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and avoid tensors whose size changes from step to step",
        verify="in a new snapshot, less memory should be fragmented",
    )


def _held(holders: Sequence[Holder], when: str) -> Discovery | None:
    whole = sum(one.size_bytes for one in holders)
    if not holders or not whole or holders[0].size_bytes < _LARGE * whole or ":" not in holders[0].where:
        return None
    top = holders[0]
    return Discovery(
        code="memory_held",
        title=f"{top.where} holds {_size(top.size_bytes)} {when}",
        severity="moderate",
        share_fraction=top.size_bytes / whole,
        confidence="high",
        lines=(f"{top.size_bytes / whole:.0%} of the allocated memory comes from this line (blocks: {top.count:,})",),
        remedy="free these tensors earlier, keep them in a lower precision, or recompute them (checkpointing)",
        verify="in a new snapshot, this line should hold less memory",
    )
