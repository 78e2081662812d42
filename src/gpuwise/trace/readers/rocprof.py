"""The JSON output of AMD's rocprofv3 (`--output-format json`): kernels, copies, HIP calls and roctx markers.

One object `rocprofiler-sdk-tool` per process holds `agents`, `kernel_symbols`, `buffer_records` and `strings`. A record
identifies its kind and operation by their numbers in `strings`. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_count, as_dict, as_list, as_text
from gpuwise.trace.source import as_utf8, ends_early, read_whole
from gpuwise.trace.table import LONGEST_TEXT, Interner, TableBuilder
from gpuwise.trace.types import Device, Kind, Loss, Trace, printable

__all__ = ["read_rocprof"]

_MOST_BYTES = 2 << 30
_GPU = 2  # the type of an agent that is not a CPU
_LARGEST = 2**62
_MOST_BLOCKS = 1e30


class _Record(msgspec.Struct, gc=False):
    """The fields that any record may have."""

    start_timestamp: Any = None
    end_timestamp: Any = None
    kind: Any = None
    operation: Any = None
    thread_id: Any = None
    correlation_id: Any = None
    dispatch_info: Any = None
    src_agent_id: Any = None
    dst_agent_id: Any = None
    stream_id: Any = None
    bytes: Any = None


class _Buffers(msgspec.Struct):
    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    marker_api: list[_Record] = []
    rccl_api: list[_Record] = []


class _Tool(msgspec.Struct):
    metadata: Any = None
    agents: Any = None
    kernel_symbols: Any = None
    strings: Any = None
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)


class _Whole(msgspec.Struct):
    tools: list[_Tool] | _Tool = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


def read_rocprof(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One file."""
    data, cut = read_whole(path, _MOST_BYTES, progress)
    if cut:
        raise ends_early(path.name, cut, "the whole file is needed", f"the {len(data):,} bytes that could be decompressed")
    try:
        whole = msgspec.json.decode(as_utf8(data).decode("utf-8", "replace"), type=_Whole)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise BadFile(
            f"'{path.name}' is not in the format that rocprofv3 writes: {str(fault)[:120]}",
            looked_in=f"its {len(data):,} bytes",
            hint="write it again with `rocprofv3 --sys-trace --output-format json`",
        ) from None
    reader = _Reader()
    for number, tool in enumerate(whole.tools if isinstance(whole.tools, list) else [whole.tools]):
        reader.add(tool, number)
    return Trace(
        file=printable(path.name),
        format="rocprofv3",
        events=reader.table.build(),
        names=tuple(reader.names),
        devices=tuple(reader.devices.values()),
        losses=(Loss(what="records without a valid start and end", count=reader.lost),) if reader.lost else (),
    )


class _Reader:
    """The records of all processes become rows of one table."""

    def __init__(self) -> None:
        self.table = TableBuilder()
        self.names = Interner()
        self.devices: dict[int, Device] = {}
        self.lost = 0
        self._threads = Interner()

    def add(self, tool: _Tool, process: int) -> None:
        agents = self._agents(tool.agents)
        kernels = _kernel_names(tool.kernel_symbols)
        strings = as_dict(tool.strings)
        operations = _operations(strings)
        texts = _texts(strings.get("marker_api"))
        records = tool.buffer_records
        self._rows(records.kernel_dispatch, process, lambda one: self._kernel(one, kernels, agents))
        self._rows(records.memory_copy, process, lambda one: self._copy(one, agents))
        for calls in (records.hip_api, records.rccl_api):
            self._rows(calls, process, lambda one: {"kind": Kind.RUNTIME, "name": _operation(one, operations)})
        self._rows(records.marker_api, process, lambda one: self._mark(one, texts, operations))

    def _agents(self, agents: Any) -> dict[int, int]:
        """Return the number of each GPU by the handle that records use for it."""
        found: dict[int, int] = {}
        for agent in as_list(agents):
            if isinstance(agent, dict) and as_count(agent.get("type")) == _GPU:
                index = len(found)
                found[_handle(agent.get("id"))] = index
                self.devices.setdefault(
                    index,
                    Device(
                        index=index,
                        name=as_text(agent.get("product_name"), 100) or as_text(agent.get("name"), 100),
                        vendor="AMD",
                        sm_count=as_count(agent.get("cu_count")) or None,
                    ),
                )
        return found

    def _kernel(self, one: _Record, kernels: dict[int, str], agents: dict[int, int]) -> dict[str, Any]:
        told = as_dict(one.dispatch_info)
        number = as_count(told.get("kernel_id"))
        return {
            "kind": Kind.KERNEL,
            "name": kernels.get(number) or f"kernel {number}",
            "device": agents.get(_handle(told.get("agent_id")), 0),
            "stream": _handle(told.get("queue_id")),
            "blocks_per_sm": _blocks(as_dict(told.get("grid_size")), as_dict(told.get("workgroup_size"))),
        }

    def _copy(self, one: _Record, agents: dict[int, int]) -> dict[str, Any]:
        source, target = agents.get(_handle(one.src_agent_id)), agents.get(_handle(one.dst_agent_id))
        way = f"{'H' if source is None else 'D'}to{'H' if target is None else 'D'}"
        return {
            "kind": Kind.MEMCPY,
            "name": f"Memcpy {way}",
            "device": target if target is not None else source if source is not None else 0,
            "stream": _handle(one.stream_id),
            "size_bytes": as_count(one.bytes) or -1,
        }

    def _mark(self, one: _Record, texts: dict[int, str], operations: list[list[str]]) -> dict[str, Any]:
        name = texts.get(_correlation(one)) or _operation(one, operations)
        return {"kind": Kind.OP if "::" in name else Kind.MARK, "name": name}

    def _rows(self, records: list[_Record], process: int, describe: Callable[[_Record], dict[str, Any]]) -> None:
        kept = [one for one in records if _is_span(one.start_timestamp, one.end_timestamp)]
        self.lost += len(records) - len(kept)
        told = [describe(one) for one in kept]
        if not told:
            return
        columns: dict[str, Any] = {key: [row[key] for row in told] for key in told[0] if key not in ("kind", "name")}
        self.table.add(
            len(kept),
            kind=[int(row["kind"]) for row in told],
            name=self.names.many([row["name"] for row in told], len(kept)),
            start_ns=[one.start_timestamp for one in kept],
            duration_ns=[one.end_timestamp - one.start_timestamp for one in kept],
            process=[process] * len(kept),
            thread=self._threads.many([(process, as_count(one.thread_id)) for one in kept], len(kept)),
            correlation=[_correlation(one) + (process << 48) for one in kept],
            **columns,
        )


def _is_span(start: Any, end: Any) -> bool:
    return type(start) is int and type(end) is int and 0 <= start <= end < _LARGEST


def _handle(value: Any) -> int:
    return as_count(as_dict(value).get("handle")) if isinstance(value, dict) else as_count(value)


def _correlation(one: _Record) -> int:
    found = as_dict(one.correlation_id).get("internal") if isinstance(one.correlation_id, dict) else one.correlation_id
    return as_count(found) & (2**48 - 1)


def _kernel_names(symbols: Any) -> dict[int, str]:
    found: dict[int, str] = {}
    for symbol in as_list(symbols):
        if isinstance(symbol, dict):
            keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
            name = next((text for key in keys if (text := as_text(symbol.get(key), LONGEST_TEXT))), "")
            found[as_count(symbol.get("kernel_id"))] = name
    return found


def _operations(strings: dict[Any, Any]) -> list[list[str]]:
    """The names of operations by the number of their kind."""
    return [
        [as_text(name) for name in as_list(as_dict(kind).get("operations"))] for kind in as_list(strings.get("buffer_records"))
    ]


def _operation(one: _Record, operations: list[list[str]]) -> str:
    kind, number = as_count(one.kind), as_count(one.operation)
    names = operations[kind] if kind < len(operations) else []
    return (names[number] if number < len(names) else "") or f"operation {number}"


def _texts(marks: Any) -> dict[int, str]:
    """Return the texts of markers by their correlation, given as a list of keys and values."""
    pairs = [as_dict(entry) for entry in as_list(marks)]
    return {as_count(pair.get("key")): as_text(pair.get("value")) for pair in pairs}


def _blocks(grid: dict[Any, Any], group: dict[Any, Any]) -> float:
    """Return the negative number of blocks; a grid counts threads here."""
    blocks = 1.0
    for axis in ("x", "y", "z"):
        blocks *= max(as_count(grid.get(axis)), 1) / max(as_count(group.get(axis)), 1)
    return -min(max(blocks, 1.0), _MOST_BLOCKS)
