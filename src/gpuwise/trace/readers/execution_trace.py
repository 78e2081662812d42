"""Execution traces: PyTorch's (`ExecutionTraceObserver`, JSON with `nodes`) and Chakra's (`.et`, protocol buffers).

They hold every op with its shapes and dependencies. As PyTorch writes them, they have no times; linked with a profiler's trace,
they do, and then form a timeline. Message numbers: `et_def.proto` of mlcommons/chakra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_number, as_text
from gpuwise.trace.protobuf import Cut, Value, fields
from gpuwise.trace.protobuf import as_text as field_text
from gpuwise.trace.source import as_utf8, ends_early, read_whole
from gpuwise.trace.table import LONGEST_TEXT, Interner, TableBuilder
from gpuwise.trace.types import CutOff, Kind, Trace, printable

__all__ = ["read_chakra", "read_execution_trace"]

_MOST_BYTES = 1 << 30
_LARGEST_NS = 2.0**62
_KINDS = {"kernel": Kind.KERNEL, "gpu_memcpy": Kind.MEMCPY, "gpu_memset": Kind.MEMSET, "cuda_runtime": Kind.RUNTIME}
_INTERNAL = "[pytorch|profiler"  # nodes that stand for a process or thread
_COMPUTES = 4  # COMP_NODE
_COLLECTIVE = 7  # COMM_COLL_NODE


class _Node(msgspec.Struct, gc=False):
    name: Any = None
    ts: Any = None
    dur: Any = None
    inclusive_dur: Any = None
    exclusive_dur: Any = None
    cat: Any = None
    stream: Any = None
    tid: Any = None
    inputs: Any = None


class _Document(msgspec.Struct):
    schema: Any = None
    nodes: list[_Node] = []


@dataclass(frozen=True, slots=True)
class _Timed:
    """A node with a duration."""

    name: str
    kind: Kind
    start_ns: int
    duration_ns: int
    stream: int


def read_execution_trace(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one JSON file."""
    data, cut = read_whole(path, _MOST_BYTES, progress)
    if cut:
        raise ends_early(path.name, cut, "the whole file is needed", f"the {len(data):,} bytes that could be decompressed")
    try:
        found = msgspec.json.decode(as_utf8(data).decode("utf-8", "replace"), type=_Document)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise BadFile(
            f"'{path.name}' is not a valid execution trace: {str(fault)[:120]}",
            looked_in=f"its {len(data):,} bytes",
            hint="stop the observer with `unregister_callback()` before you copy the file",
        ) from None
    nodes = [node for node in found.nodes if not as_text(node.name).startswith(_INTERNAL)]
    shaped = sum(isinstance(node.inputs, dict) and bool(node.inputs.get("shapes")) for node in nodes)
    return _trace(path, [timed for node in nodes if (timed := _timed(node)) is not None], len(nodes), shaped, None)


def _timed(node: _Node) -> _Timed | None:
    """Convert a node with a start and a duration, which are in microseconds."""
    start = as_number(node.ts)
    lengths = [as_number(value) for value in (node.dur, node.inclusive_dur, node.exclusive_dur)]
    length = next((value for value in lengths if value is not None), None)
    if start is None or length is None or length <= 0:
        return None
    stream = as_number(node.stream)
    kind = _KINDS.get(as_text(node.cat).lower(), Kind.OP)
    return _span(as_text(node.name, LONGEST_TEXT), kind, start, length, -1 if stream is None else int(stream))


def _span(name: str, kind: Kind, start_us: float, length_us: float, stream: int) -> _Timed | None:
    if not abs(start_us) * 1e3 < _LARGEST_NS or not 0 < length_us * 1e3 < _LARGEST_NS:
        return None
    return _Timed(name, kind, round(start_us * 1e3), round(length_us * 1e3), stream)


def _trace(path: Path, timed: list[_Timed], count: int, shaped: int, cut: CutOff | None) -> Trace:
    if not timed:
        what = f"{count:,} ops" + (f", {shaped:,} of them with shapes" if shaped else "") if count else "no ops"
        raise BadFile(
            f"'{path.name}' is an execution trace ({what}), which shows what ran, but not when or for how long",
            looked_in=f"its {count:,} nodes",
            hint="to record times, use `with torch.profiler.profile() as p: …` and then `p.export_chrome_trace('trace.json.gz')`",
        )
    table, names = TableBuilder(), Interner()
    table.add(
        len(timed),
        kind=[int(one.kind) for one in timed],
        name=names.many([one.name for one in timed], len(timed)),
        start_ns=[one.start_ns for one in timed],
        duration_ns=[one.duration_ns for one in timed],
        process=[0] * len(timed),
        thread=[0] * len(timed),
        device=[0 if one.kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET) else -1 for one in timed],
        stream=[one.stream for one in timed],
    )
    return Trace(file=printable(path.name), format="execution trace", events=table.build(), names=tuple(names), cut=cut)


# ---------------------------------------------------------------- protocol buffers


def read_chakra(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One `.et` file: messages one after the other, each behind its length; the first one describes the file."""
    data, cut_where = read_whole(path, _MOST_BYTES, progress)
    timed: list[_Timed] = []
    count = shaped = 0
    try:
        for number, message in enumerate(_messages(memoryview(data))):
            if number:
                node = dict(fields(message))
                count += 1
                shaped += 8 in node
                found = _chakra_node(node, message)
                timed += [found] if found is not None else []
    except Cut:
        cut_where = cut_where or "in the middle of a node, or damaged at that point"
    cut = CutOff(where=cut_where, ragged=True, hides_gpu=False) if cut_where else None
    if cut is not None and not timed:
        raise ends_early(path.name, cut.where, "it contains no node with a time", f"its {count:,} complete nodes")
    return _trace(path, timed, count, shaped, cut)


def _messages(data: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            if at >= len(data) or shift > 35:
                raise Cut("a length is missing")
            byte = data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if size > len(data) - at:
            raise Cut("a message is cut", missing_bytes=size - (len(data) - at))
        yield data[at : at + size]
        at += size


def _chakra_node(node: dict[int, Value], message: memoryview) -> _Timed | None:
    """Field 2 is the name, 3 the type, 6 the start and 7 the duration in microseconds, 10 the attributes."""
    start, length, kind = node.get(6, 0), node.get(7, 0), node.get(3, 0)
    if not isinstance(start, int) or not isinstance(length, int) or not start or not length:
        return None
    on_host = kind not in (_COMPUTES, _COLLECTIVE) or _on_host(message)
    return _span(printable(field_text(node.get(2, 0))[:LONGEST_TEXT]), Kind.OP if on_host else Kind.KERNEL, start, length, -1)


def _on_host(message: memoryview) -> bool:
    """Whether the attribute `is_cpu_op` is set; its value is field 27."""
    for number, value in fields(message):
        if number == 10 and not isinstance(value, int):
            entry = dict(fields(value))
            if field_text(entry.get(1, 0)) == "is_cpu_op":
                return bool(entry.get(27, 0))
    return False
