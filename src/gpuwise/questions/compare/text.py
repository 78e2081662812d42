"""A comparison as text: how much faster on what, what it costs, and what would change the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuwise.core.text import both, the
from gpuwise.core.units import GIB, format_si
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.types import CompareAnswer, Pair
from gpuwise.questions.compare.words import ABOUT_REASONS, mean_speed
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_MOST_LINES = 25  # of a brief answer
_MOST_OTHERS = 3  # notes of a brief answer beyond those on prices and memory, as far as there is room
_MOST_REASONS = 3  # workloads whose reasons a brief answer prints
_MEANING = "2.00x means twice as fast"


def render(answer: CompareAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The verdict; then one table for each set of GPUs with reasons, or in brief one table for all."""
    wide = width or WIDTH
    verdict = bold(wrapped(answer.verdict, wide), colour=colour)
    several = len(answer.rigs) > 2 and not verbose
    cards = wrapped(_describe_priced(answer) if several else _describe_cards(answer.rigs), wide, "  ")
    notes = {note: wrapped(f"note: {note}", wide, "  ") for note in answer.notes}
    flips = {flip: wrapped(f"it depends: {flip}", wide, "  ") for flip in answer.flips}
    below = [wrapped(line, wide, "  ") for line in folded(answer.assumptions, verbose=verbose)]
    if verbose:
        top = "\n\n".join([verdict, *_tables(answer, wide, colour)])
        return top + join_notes([cards, *notes.values(), *flips.values(), *below])
    top = f"{verdict}\n\n{_brief_table(answer, wide, colour)}"
    left = _MOST_LINES - len((top + join_notes([cards, *below])).splitlines())
    kept = [notes[name] for name in answer.must_notes]
    left -= sum(len(text.splitlines()) for text in kept)
    key = [(notes | flips)[name] for name in answer.key_notes if name in notes or name in flips]
    kept += _with_room([text for text in key if text not in kept], left)
    left = _MOST_LINES - len((top + join_notes([cards, *kept, *below])).splitlines())
    reasons = _reasons(answer.pairs, wide) if len(answer.pairs) <= _MOST_REASONS else ""
    about = {*answer.key_notes, ABOUT_REASONS}
    if reasons and len(reasons.splitlines()) + 1 <= left:
        top += f"\n\n{reasons}"
        left -= len(reasons.splitlines()) + 1
        about = set(answer.key_notes)
    others = [text for name, text in (*flips.items(), *notes.items()) if name not in about]
    kept += _with_room(others[:_MOST_OTHERS], left)
    shown = [text for text in (*notes.values(), *flips.values()) if text in kept]
    return top + join_notes([cards, *shown, *below])


def _with_room(notes: Sequence[str], lines: int) -> list[str]:
    """The notes that fit on this many lines; a long one is left out if shorter ones after it fit."""
    found = []
    for note in notes:
        if len(note.splitlines()) <= lines:
            lines -= len(note.splitlines())
            found.append(note)
    return found


def _brief_table(answer: CompareAnswer, width: int, colour: bool) -> str:
    """A row for each workload; a column for each set, or the ranges where there is one set."""
    base, *others = answer.rigs
    if len(others) == 1:
        shown = table(_columns(_turned(answer, others[0]), _several(answer)), width=width, colour=colour)
        head = _head(answer, others[0], colour)
    else:
        by_workload: dict[str, list[Pair]] = {}
        for pair in answer.pairs:
            by_workload.setdefault(pair.workload, []).append(pair)
        columns = [Column(title="  workload", cells=[f"  {name}" for name in by_workload], right=False)]
        for place, rig in enumerate(others):
            cells = [_describe_speed(row[place], row[place].ratio) for row in by_workload.values()]
            columns.append(Column(title=rig.name, cells=cells))
        shown = table(columns, width=width, colour=colour)
        head = f"Speed relative to {bold(base.name, colour=colour)}  ({_MEANING})"
    return f"{head}\n\n{shown}"


def _tables(answer: CompareAnswer, width: int, colour: bool) -> list[str]:
    """One table for each set of GPUs, with the reason of every workload behind the figures where there is room, else below."""
    blocks = []
    for rig in answer.rigs[1:]:
        pairs = _turned(answer, rig)
        columns = _columns(pairs, _several(answer))
        reason = Column(title="why", cells=[pair.why for pair in pairs], right=False)
        if sum(column.width + 2 for column in (*columns, reason)) - 2 <= width:
            shown = table([*columns, reason], width=width, colour=colour)
        else:
            shown = table(columns, width=width, colour=colour) + "\n\n" + _reasons(pairs, width)
        blocks.append(f"{_head(answer, rig, colour)}\n\n{shown}")
    return blocks


def _head(answer: CompareAnswer, rig: Rig, colour: bool) -> str:
    base, other = answer.rigs[0].name, rig.name
    fast, slow = (base, other) if _is_turned(answer, rig) else (other, base)
    return f"{bold(fast, colour=colour)} compared with {bold(slow, colour=colour)}  ({_MEANING})"


def _is_turned(answer: CompareAnswer, rig: Rig) -> bool:
    """Whether the table of two sets shows the first one named against the second: the faster one comes first, as in the verdict,
    so that nobody has to invert 0.4x.
    """
    return len(answer.rigs) == 2 and mean_speed(rig, answer.pairs) < 1


def _turned(answer: CompareAnswer, rig: Rig) -> list[Pair]:
    """The pairs of this set, in the direction that the table shows."""
    pairs = [pair for pair in answer.pairs if pair.gpu == rig.name]
    return [_inverse(pair) for pair in pairs] if _is_turned(answer, rig) else pairs


def _inverse(pair: Pair) -> Pair:
    return replace(
        pair,
        gpu=pair.baseline,
        baseline=pair.gpu,
        precision=" against ".join(reversed(pair.precision.split(" against "))),
        ratio=1 / pair.ratio,
        ratio_low=1 / pair.ratio_high,
        ratio_high=1 / pair.ratio_low,
        ratio_separate=1 / pair.ratio_separate if pair.ratio_separate else None,
        fits=pair.baseline_fits,
        baseline_fits=pair.fits,
    )


def _several(answer: CompareAnswer) -> bool:
    return any(rig.count > 1 for rig in answer.rigs)


def _columns(pairs: Sequence[Pair], several: bool) -> list[Column]:
    columns = [
        Column(title="  workload", cells=[f"  {pair.workload}" for pair in pairs], right=False),
        Column(title="precision", cells=[pair.precision for pair in pairs], right=False, drop=2),
        Column(title="one job" if several else "speed", cells=[_describe_speed(pair, pair.ratio) for pair in pairs]),
    ]
    if several:
        columns.append(Column(title="separate", cells=[_describe_speed(pair, pair.ratio_separate) for pair in pairs]))
    return [*columns, Column(title="range", cells=[_describe_range(pair) for pair in pairs], drop=1)]


def _reasons(pairs: Sequence[Pair], width: int) -> str:
    """Each reason once, with the workloads (and where there are several sets, the GPUs) it applies to."""
    several = len({pair.gpu for pair in pairs}) > 1
    alone = len({pair.workload for pair in pairs}) == 1  # the table has just named it
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.why, []).append(
            pair.workload if not several else the(pair.gpu) if alone else f"{the(pair.gpu)} on {pair.workload}"
        )
    return "\n".join(
        wrapped(f"  why: {both(names) if several else ', '.join(names)}: {why}", width, "    ") for why, names in found.items()
    )


def _describe_speed(pair: Pair, ratio: float | None) -> str:
    return f"{_format_ratio(ratio)}x" if pair.comparable and ratio is not None else "-"


def _describe_range(pair: Pair) -> str:
    if not pair.comparable:
        return "fits on one only" if pair.fits or pair.baseline_fits else "fits on neither"
    return f"{_format_ratio(pair.ratio_low)} to {_format_ratio(pair.ratio_high)}"


def _format_ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _describe_priced(answer: CompareAnswer) -> str:
    """Memory, bandwidth, power and price of each of several sets."""
    found = []
    for rig, price in zip(answer.rigs, answer.prices, strict=True):
        each = " each" if rig.count > len(rig.parts) else ""
        memory = " + ".join(
            f"{gpu.usable_memory_bytes / GIB:.1f} GiB at {format_si(gpu.memory_bytes_per_s, 'B/s')}" for gpu, _ in rig.parts
        )
        found.append(f"{rig.name} {memory}{each}{f', {rig.watts:.0f} W' if rig.watts else ''}, {price}")
    return f"memory, power and price: {'; '.join(found)}"


def _describe_cards(rigs: Sequence[Rig]) -> str:
    """Memory and bandwidth of each GPU, and the power of each set."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}
    memory = ", ".join(
        f"{gpu.name} {gpu.usable_memory_bytes / GIB:.1f} GiB at {format_si(gpu.memory_bytes_per_s, 'B/s')}"
        for gpu in gpus.values()
    )
    watts = ", ".join(f"{rig.name} {rig.watts:.0f} W" for rig in rigs if rig.watts)
    return f"memory: {memory}" + (f"; power: {watts}" if watts else "")
