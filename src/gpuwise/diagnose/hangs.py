"""Finds which collective hangs, and which rank causes it, by comparing the calls of all ranks by group and sequence number.

Ranks of a group call the same collectives in the same order, so calls with the same number must match. If they do not, the first
difference is the cause of everything after it. If they do, a rank whose last number is lower than that of a collective in which
the others wait never arrived there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuwise.trace.readers.flight_recorder import Call, FlightDump

__all__ = ["Hang", "find_hangs"]

_UNEVEN = ("all_to_all", "alltoall", "scatter", "gather", "coalesced", "send", "recv")  # sizes of ranks may differ there
_EVEN = ("all_gather", "allgather", "reduce_scatter")  # although their names contain one of the words above


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """One group that is stuck. `kind` is op (ranks called different ops), size, type, missing (ranks never arrived), stuck
    (all arrived, but it does not end) or p2p. `last` are the last calls of the ranks that never arrived.
    """

    kind: str
    group: str
    description: str
    sequence: int
    calls: Mapping[int, Call]
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    unseen: tuple[int, ...]
    last: Mapping[int, Call]

    @property
    def since_ns(self) -> int:
        """When the first rank called it."""
        return min((call.created_ns for call in self.calls.values()), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """What the ranks called."""
        return tuple(sorted({call.name for call in self.calls.values()}))


def find_hangs(dumps: Mapping[int, FlightDump]) -> tuple[Hang, ...]:
    """Return every group that is stuck: differences first, then by start time."""
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for rank, dump in dumps.items():
        for name in dict.fromkeys(call.group for call in dump.calls if not call.is_p2p):
            groups.setdefault((name, _members(name, rank, dumps)), []).append(rank)
    found = [hang for (name, members), there in groups.items() if (hang := _of_group(name, members or there, dumps)) is not None]
    if not found:
        found = _of_pairs(dumps)
    certain = ("op", "size", "type")
    return tuple(sorted(found, key=lambda hang: (hang.kind not in certain, hang.kind == "stuck", hang.since_ns, hang.group)))


def _members(group: str, rank: int, dumps: Mapping[int, FlightDump]) -> tuple[int, ...]:
    """Return the ranks in a rank's group with this name: groups of other ranks may have the same name."""
    told = [one.ranks for dump in (dumps[rank], *dumps.values()) for one in dump.groups if one.name == group]
    return next((ranks for ranks in told if rank in ranks), ())


def _of_group(group: str, ranks: Sequence[int], dumps: Mapping[int, FlightDump]) -> Hang | None:
    members = set(ranks)
    seen = sorted(members & dumps.keys())
    calls = {rank: _by_number(dumps[rank].calls, group) for rank in seen}
    told = next((one.description for rank in seen for one in dumps[rank].groups if one.name == group), "")
    numbers = sorted({number for rank in seen for number in calls[rank]})
    for number in numbers:
        there = {rank: calls[rank][number] for rank in seen if number in calls[rank]}
        kind = _difference(list(there.values()))
        waiting = tuple(rank for rank, call in there.items() if not call.done)
        gone = tuple(rank for rank in seen if number > max(calls[rank], default=-1))
        if not kind and not waiting:
            continue
        return Hang(
            kind=kind or ("missing" if gone or members - dumps.keys() else "stuck"),
            group=group,
            description=told,
            sequence=number,
            calls=there,
            waiting=waiting,
            missing=gone,
            unseen=tuple(sorted(members - dumps.keys())),
            last={rank: dumps[rank].calls[-1] for rank in gone if dumps[rank].calls},
        )
    return None


def _by_number(calls: Sequence[Call], group: str) -> dict[int, Call]:
    """Return the calls of one group by number; if several share one (a coalesced group), the last."""
    return {call.sequence: call for call in calls if call.group == group and not call.is_p2p}


def _difference(calls: Sequence[Call]) -> str:
    if len({call.name for call in calls}) > 1:
        return "op"
    if len({call.dtypes for call in calls if call.dtypes}) > 1:
        return "type"
    name = calls[0].name.lower() if calls else ""
    even = any(word in name for word in _EVEN) or not any(word in name for word in _UNEVEN)
    return "size" if even and len({call.input_sizes for call in calls if call.input_sizes}) > 1 else ""


def _of_pairs(dumps: Mapping[int, FlightDump]) -> list[Hang]:
    """Return sends and receives that wait."""
    found = []
    for rank, dump in dumps.items():
        call = next((one for one in dump.calls if one.is_p2p and not one.done), None)
        if call is not None:
            found.append(
                Hang(
                    kind="p2p",
                    group=call.group,
                    description="",
                    sequence=call.sequence,
                    calls={rank: call},
                    waiting=(rank,),
                    missing=(),
                    unseen=(),
                    last={},
                )
            )
    return found
