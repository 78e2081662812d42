"""`rocpd`, the SQLite database that rocprofv3 writes by default since ROCm 7: kernels, copies, HIP calls and roctx markers.

Each process has tables of its own, whose names end in its identifier. `rocpd_event` connects a kernel with the call that launched
it (`stack_id`) and holds the text of a marker in its JSON. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.trace.database import Tables, cut_off, text, whole
from gpuwise.trace.documents import as_count, as_dict, as_text
from gpuwise.trace.table import LONGEST_TEXT, Interner, TableBuilder
from gpuwise.trace.types import Device, Kind, Loss, Trace, printable

__all__ = ["read_rocpd"]

_KERNELS = "rocpd_kernel_dispatch"
_GRID = "workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z"
_MARKER = "roctx"
_CALLS = ("hip", "hsa", "rccl", "nccl")
_MOST_BLOCKS = 1e30
_IDS = 48  # bits for the numbers of one process


def read_rocpd(path: Path, tables: Tables, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one database, whose tables are open."""
    reader = _Reader(tables)
    endings = [name.removeprefix(_KERNELS) for name in sorted(tables.columns) if name.startswith(_KERNELS)]
    for number, ending in enumerate(endings):
        reader.add(number, ending)
        progress((number + 1) / len(endings))
    lost = tables.malformed
    return Trace(
        file=printable(path.name),
        format="rocprofv3 database",
        events=reader.table.build(),
        names=tuple(reader.names),
        devices=tuple(reader.devices[index] for index in sorted(reader.devices)),
        losses=(Loss(what="rows without a valid start and end", count=lost),) if lost else (),
        cut=cut_off(path),
    )


class _Reader:
    """The tables of all processes become rows of one table."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.table = TableBuilder()
        self.names = Interner()
        self.devices: dict[int, Device] = {}
        self._threads = Interner()

    def add(self, process: int, ending: str) -> None:
        """Read the tables of one process."""
        strings = self._tables.texts(f"rocpd_string{ending}", "id", "string")
        stacks, messages = self._events(f"rocpd_event{ending}", process)
        agents = self._agents(f"rocpd_info_agent{ending}")
        self._kernels(ending, process, agents, stacks)
        self._copies(ending, process, agents, stacks)
        self._calls(ending, process, strings, stacks, messages)

    def _events(self, table: str, process: int) -> tuple[dict[int, int], dict[int, str]]:
        """Return the correlation of each event, and the texts of the markers."""
        stacks: dict[int, int] = {}
        messages: dict[int, str] = {}
        for rows in self._tables.rows(table, "id stack_id extdata", needed="id"):
            for number, stack, more in rows:
                if whole(stack) > 0:
                    stacks[whole(number)] = (stack & (2**_IDS - 1)) + (process << _IDS)
                if isinstance(more, str) and '"message"' in more:
                    messages[whole(number)] = as_text(_json(more).get("message"), LONGEST_TEXT)
        return stacks, messages

    def _agents(self, table: str) -> dict[int, int]:
        """Return the number of each GPU by the number of its agent."""
        found: dict[int, int] = {}
        for rows in self._tables.rows(table, "id type type_index name product_name extdata", needed="id type"):
            for number, kind, place, name, product, more in rows:
                if text(kind) != "GPU":
                    continue
                index = found[whole(number)] = whole(place, 2**31) if whole(place, 2**31) >= 0 else len(found)
                title = printable((text(product) or text(name))[:100])
                count = as_count(_json(more).get("cu_count")) or None
                self.devices.setdefault(index, Device(index=index, name=title, vendor="AMD", sm_count=count))
        return found

    def _kernels(self, ending: str, process: int, agents: dict[int, int], stacks: dict[int, int]) -> None:
        symbols = self._symbols(f"rocpd_info_kernel_symbol{ending}")
        columns = f"start end agent_id kernel_id queue_id event_id {_GRID}"
        for rows in self._tables.spans(f"{_KERNELS}{ending}", columns):
            self._add(
                rows,
                process,
                kind=int(Kind.KERNEL),
                name=[symbols.get(whole(row[3])) or f"kernel {whole(row[3])}" for row in rows],
                device=[agents.get(whole(row[2]), 0) for row in rows],
                stream=[whole(row[4]) for row in rows],
                correlation=[stacks.get(whole(row[5]), -1) for row in rows],
                blocks_per_sm=[_blocks(row[6:9], row[9:12]) for row in rows],
            )

    def _symbols(self, table: str) -> dict[int, str]:
        shown, plain = (self._tables.texts(table, "id", column) for column in ("display_name", "kernel_name"))
        return plain | {number: name for number, name in shown.items() if name}

    def _copies(self, ending: str, process: int, agents: dict[int, int], stacks: dict[int, int]) -> None:
        columns = "start end src_agent_id dst_agent_id stream_id event_id size"
        for rows in self._tables.spans(f"rocpd_memory_copy{ending}", columns):
            ways = [(agents.get(whole(row[2])), agents.get(whole(row[3]))) for row in rows]
            self._add(
                rows,
                process,
                kind=int(Kind.MEMCPY),
                name=[f"Memcpy {'H' if come is None else 'D'}to{'H' if go is None else 'D'}" for come, go in ways],
                device=[go if go is not None else come if come is not None else 0 for come, go in ways],
                stream=[whole(row[4]) for row in rows],
                correlation=[stacks.get(whole(row[5]), -1) for row in rows],
                size_bytes=[whole(row[6]) for row in rows],
            )

    def _calls(
        self, ending: str, process: int, strings: dict[int, str], stacks: dict[int, int], messages: dict[int, str]
    ) -> None:
        """Read what the host did: calls of libraries, and markers, whose text is in their event."""
        for rows in self._tables.spans(f"rocpd_region{ending}", "start end tid name_id event_id"):
            told = [_call(strings.get(whole(row[3]), ""), messages.get(whole(row[4]), "")) for row in rows]
            self._add(
                rows,
                process,
                kind=[int(kind) for kind, _ in told],
                name=[name for _, name in told],
                thread=self._threads.many([(process, whole(row[2])) for row in rows], len(rows)),
                correlation=[stacks.get(whole(row[4]), -1) for row in rows],
            )

    def _add(self, rows: list[tuple[Any, ...]], process: int, *, name: list[str], **columns: Any) -> None:
        self.table.add(
            len(rows),
            name=self.names.many(name, len(rows)),
            start_ns=[row[0] for row in rows],
            duration_ns=[row[1] - row[0] for row in rows],
            process=process,
            **columns,
        )


def _call(name: str, message: str) -> tuple[Kind, str]:
    if message or name.lower().startswith(_MARKER):
        shown = message or name
        return (Kind.OP if "::" in shown else Kind.MARK), shown
    return (Kind.RUNTIME if name.lower().startswith(_CALLS) else Kind.OP), name


def _json(value: Any) -> dict[Any, Any]:
    try:
        return as_dict(msgspec.json.decode(value)) if isinstance(value, str) else {}
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def _blocks(group: tuple[Any, ...], grid: tuple[Any, ...]) -> float:
    """Return the negative number of blocks; a grid counts threads here."""
    blocks = 1.0
    for threads, size in zip(grid, group, strict=True):
        blocks *= max(whole(threads), 1) / max(whole(size), 1)
    return -min(max(blocks, 1.0), _MOST_BLOCKS)
