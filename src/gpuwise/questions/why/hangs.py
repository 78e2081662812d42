"""Why does it hang? From the dumps of the NCCL flight recorder, one for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile
from gpuwise.core.text import both, counted
from gpuwise.diagnose.hangs import Hang, find_hangs
from gpuwise.questions.why.file_answer import Discovery, FileAnswer, Listing
from gpuwise.trace.formats import Format
from gpuwise.trace.readers.flight_recorder import Call, FlightDump, read_flight_dump

__all__ = ["explain_hang"]

_NAMED = 8  # ranks that fit one line
_CODES = {
    "op": "collective_mismatch",
    "size": "collective_mismatch",
    "type": "collective_mismatch",
    "missing": "rank_missing",
    "stuck": "collective_stuck",
    "p2p": "collective_stuck",
}
_REMEDIES = {
    "op": "make every rank take the same branches; the lines above show where their collectives diverge",
    "size": "give every rank a tensor of the same shape, by padding or dropping the last batch (drop_last=True)",
    "type": "give every rank a tensor of the same type",
    "missing": "check the missing rank's log, stack (py-spy dump), loader and GPU to find out what it did instead",
    "stuck": "check the network and the GPUs of this group (NCCL_DEBUG=INFO, Xid errors in dmesg)",
    "p2p": "check that the other rank of this pair makes the matching send or receive call, in the same order",
}


def explain_hang(paths: Sequence[Path]) -> FileAnswer:
    """Return the collective that does not end, and the rank that keeps the others waiting."""
    dumps = _by_rank([read_flight_dump(path) for path in paths])
    hangs = find_hangs(dumps)
    unseen = sorted({rank for dump in dumps.values() for group in dump.groups for rank in group.ranks} - dumps.keys())
    notes = []
    if unseen:
        notes.append(f"no dump was given for {_ranks(unseen)}")
    if len(dumps) == 1:
        notes.append("only one rank was given; pass the dumps of all ranks to compare them")
    return FileAnswer(
        files=tuple(dump.file for dump in dumps.values()),
        format=Format.FLIGHT.value,
        verdict=_verdict(hangs, dumps),
        head=(_head(dumps),),
        key="collectives",
        content={
            "ranks": sorted(dumps),
            "ranks_without_dump": unseen,
            "hangs": [_content(hang) for hang in hangs],
        },
        listings=(_listing(hangs[0], dumps),) if hangs else (),
        discoveries=tuple(_discovery(hang, len(dumps)) for hang in hangs),
        notes=tuple(notes),
    )


def _by_rank(dumps: Sequence[FlightDump]) -> dict[int, FlightDump]:
    """Return the dumps in order of rank or, without ranks, in the given order."""
    found: dict[int, FlightDump] = {}
    for place, dump in enumerate(dumps):
        rank = dump.rank if dump.rank is not None else place
        if rank in found:
            raise BadFile(
                f"rank {rank} appears more than once",
                looked_in=f"{found[rank].file} and {dump.file}",
                hint="pass one dump per rank; the rank is the number at the end of the file name",
            )
        found[rank] = dump
    return dict(sorted(found.items()))


def _ranks(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED])) + ", …" if len(numbers) > _NAMED else both(map(str, numbers))
    return f"rank{'s' if len(numbers) != 1 else ''} {shown}"


def _shape(call: Call) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in call.input_sizes[:3]) or "unknown"


def _group(hang: Hang) -> str:
    return f"group {hang.group}" + (f" ({hang.description})" if hang.description else "")


def _verdict(hangs: Sequence[Hang], dumps: dict[int, FlightDump]) -> str:
    if not hangs:
        count = sum(len(dump.calls) for dump in dumps.values())
        return (
            f"no collective hangs; every recorded call has ended ({count:,} in total)" if count else "no collective was recorded"
        )
    return _title(hangs[0])


def _title(hang: Hang) -> str:
    what = f"collective {hang.sequence} of {_group(hang)}"
    if hang.kind == "op":
        sides = "; ".join(
            f"{_ranks([rank for rank, call in hang.calls.items() if call.name == name])}: {name}" for name in hang.names
        )
        return f"the ranks do not agree on {what} ({sides})"
    (name, *_) = hang.names
    if hang.kind in ("size", "type"):
        return f"the ranks call {name} with different {'sizes' if hang.kind == 'size' else 'types'} ({what})"
    if hang.kind == "p2p":
        return f"{_ranks(hang.waiting)} waits in {name}, but the other rank does not respond"
    if hang.kind == "missing":
        who = _ranks(hang.missing) if hang.missing else f"{_ranks(hang.unseen)} (no dump was given)"
        verb = "never arrived" if hang.missing else "may never have arrived"
        return f"{who} {verb} at {name}, {what}, where {_ranks(hang.waiting)} {'is' if len(hang.waiting) == 1 else 'are'} waiting"
    return f"all ranks have entered {name}, {what}, but it does not end"


def _head(dumps: dict[int, FlightDump]) -> str:
    count = sum(len(dump.calls) for dump in dumps.values())
    groups = len({call.group for dump in dumps.values() for call in dump.calls})
    return f"{counted(len(dumps), 'rank')}, {counted(count, 'recorded call')} in {counted(groups, 'process group')}"


def _listing(hang: Hang, dumps: dict[int, FlightDump]) -> Listing:
    """Compare each rank with the others: at the collective that hangs, or with its last call."""
    rows = []
    for rank in sorted({*hang.calls, *hang.missing}):
        call = hang.calls.get(rank) or hang.last.get(rank)
        state = call.state if rank in hang.calls and call else "did not arrive"
        name = f"{call.name} {call.sequence}" + ("" if rank in hang.calls else " (its last call)") if call else "nothing"
        rows.append((f"rank {rank}", state, name, _shape(call) if call else "–", (call.where if call else "") or "–"))
    order = sorted(rows, key=lambda row: row[1] != "did not arrive")
    return Listing(
        title=f"ranks at collective {hang.sequence} of {_group(hang)}",
        columns=("rank", "state", "call", "sizes", "called at"),
        rows=tuple(order),
    )


def _discovery(hang: Hang, rank_count: int) -> Discovery:
    lines = [
        f"rank {rank}: {call.name}, sizes {_shape(call)}, {call.state}" + (f", called at {call.where}" if call.where else "")
        for rank, call in list(hang.calls.items())[:_NAMED]
    ]
    lines += [
        f"rank {rank}'s last call was {call.name}, collective {call.sequence} of group {call.group}"
        + (f", at {call.where}" if call.where else "")
        for rank, call in list(hang.last.items())[:_NAMED]
    ]
    guilty = hang.missing or hang.waiting or tuple(hang.calls)
    return Discovery(
        code=_CODES[hang.kind],
        title=_title(hang),
        severity="major",
        share_fraction=min(len(guilty) / max(rank_count, 1), 1.0),
        confidence="medium" if hang.kind in ("stuck", "p2p") or (hang.kind == "missing" and not hang.missing) else "high",
        lines=tuple(reversed(lines)) if hang.kind == "missing" else tuple(lines),
        remedy=_REMEDIES[hang.kind],
        verify="in a new run, the collective should end on every rank",
    )


def _content(hang: Hang) -> dict[str, Any]:
    return {
        "kind": hang.kind,
        "group": hang.group,
        "group_description": hang.description,
        "sequence": hang.sequence,
        "names": list(hang.names),
        "waiting_ranks": list(hang.waiting),
        "missing_ranks": list(hang.missing),
        "ranks_without_dump": list(hang.unseen),
        "calls": [_call(rank, call) for rank, call in hang.calls.items()],
        "last_calls": [_call(rank, call) for rank, call in hang.last.items()],
    }


def _call(rank: int, call: Call) -> dict[str, Any]:
    return {
        "rank": rank,
        "name": call.name,
        "sequence": call.sequence,
        "group": call.group,
        "state": call.state,
        "input_sizes": [list(shape) for shape in call.input_sizes],
        "types": list(call.dtypes),
        "where": call.where or None,
    }
