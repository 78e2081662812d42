"""Dumps of PyTorch's flight recorder (`TORCH_FR_BUFFER_SIZE`), a pickle or JSON file for each rank: the last collectives that
the rank called, and how far each has progressed.

An entry has its process group, a sequence number that counts the group's collectives on this rank, a name such as
`nccl:all_reduce`, sizes, types and a state (scheduled, started or completed). A retired entry has ended, even if its backend
(gloo) never updates the state. The rank is in the file name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_count, as_dict, as_list, as_text, program_frame, read_document
from gpuwise.trace.types import printable

__all__ = ["Call", "FlightDump", "Group", "read_flight_dump"]

_MOST_ENTRIES = 1_000_000
_MOST_RANKS = 1_000_000
_RANK = re.compile(r"(\d{1,7})(?:\.[A-Za-z]\w*)*$")
_SEQUENCES = ("collective_seq_id", "seq_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One collective, or one send or receive, on one rank. `where` is the line of the program that called it."""

    group: str
    sequence: int
    name: str
    state: str
    is_p2p: bool
    created_ns: int
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    where: str

    @property
    def done(self) -> bool:
        """Whether the call has ended on this rank."""
        return self.state == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A process group and its ranks, as far as the dump lists them."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightDump:
    """One rank; `rank` is None if neither the content nor the name of the file contains it."""

    file: str
    rank: int | None
    groups: tuple[Group, ...]
    calls: tuple[Call, ...]


def read_flight_dump(path: Path) -> FlightDump:
    """One dump."""
    content = as_dict(read_document(path))
    entries = as_list(content.get("entries"))
    if len(entries) > _MOST_ENTRIES:
        raise BadFile(f"'{path.name}' has more than {_MOST_ENTRIES:,} entries", hint="record with a smaller buffer")
    calls = tuple(_call(entry) for entry in entries if isinstance(entry, dict))
    config = as_dict(content.get("pg_config"))
    if not calls and not config:
        raise BadFile(
            f"'{path.name}' is a flight recorder dump without any collective",
            looked_in="its entries and process groups",
            hint="set TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 before the run",
        )
    return FlightDump(file=printable(path.name), rank=_rank(content, path), groups=_groups(config), calls=calls)


def _rank(content: dict[Any, Any], path: Path) -> int | None:
    told = content.get("rank")
    if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < _MOST_RANKS:
        return told
    found = _RANK.search(path.name)
    return int(found[1]) if found else None


def _groups(config: dict[Any, Any]) -> tuple[Group, ...]:
    """Return the groups. Newer dumps key them by name, older ones by number, and some nest them under a description."""
    found = []
    for key, value in config.items():
        entry = as_dict(value)
        name = as_text(entry.get("name")) or as_text(str(key)[:80])
        found.append(Group(name=name, description=as_text(entry.get("desc"), 80), ranks=_ranks(entry.get("ranks"))))
    return tuple(found)


def _ranks(value: Any) -> tuple[int, ...]:
    """Parse a list of ranks, which is written as text such as "[0, 1]"."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return ()
    ranks = [one for one in as_list(value) if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST_RANKS]
    return tuple(sorted(set(ranks)))


def _call(entry: dict[Any, Any]) -> Call:
    pair = as_list(entry.get("process_group"))
    group = as_text(pair[0] if pair else entry.get("pg_name")) or str(as_count(entry.get("pg_id")))
    sequence = next((as_count(entry[key]) for key in _SEQUENCES if key in entry), 0)
    return Call(
        group=group,
        sequence=sequence,
        name=as_text(entry.get("profiling_name"), 100) or "unnamed",
        state="completed" if entry.get("retired") is True else as_text(entry.get("state"), 20).lower(),
        is_p2p=entry.get("is_p2p") is True,
        created_ns=as_count(entry.get("time_created_ns")),
        input_sizes=_sizes(entry.get("input_sizes")),
        output_sizes=_sizes(entry.get("output_sizes")),
        dtypes=tuple(as_text(one, 20) for one in as_list(entry.get("input_dtypes"))[:64]),
        where=program_frame(entry.get("frames")),
    )


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(as_count(size) for size in as_list(shape)[:16]) for shape in as_list(value)[:64])
