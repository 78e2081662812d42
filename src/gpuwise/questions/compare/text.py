"""A comparison as text: how much faster on what, what it costs, and what would turn it round."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpuwise.core.units import GIB
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.answer import CompareAnswer, Pair
from gpuwise.render.text import Column, assumption_lines, bold, join_notes, table

__all__ = ["render"]

_WIDTH = 120


def render(answer: CompareAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """One table a set of GPUs, against the first one named."""
    base = answer.rigs[0]
    several = any(rig.count > 1 for rig in answer.rigs)
    blocks = []
    for rig in answer.rigs[1:]:
        pairs = [pair for pair in answer.pairs if pair.gpu == rig.name]
        head = f"{bold(rig.name, colour=colour)} against {bold(base.name, colour=colour)}  (2.00x means twice as fast)"
        blocks.append(f"{head}\n\n{_table(pairs, several, width, colour)}")
    notes = [_held(answer.rigs), *answer.notes, *(f"turns it round: {flip}" for flip in answer.flips)]
    notes += assumption_lines(answer.assumptions)
    wide = width or _WIDTH
    said = textwrap.fill(bold(answer.verdict, colour=colour), wide)
    return "\n\n".join([said, *blocks]) + join_notes([textwrap.fill(note, wide, subsequent_indent="  ") for note in notes])


def _table(pairs: Sequence[Pair], several: bool, width: int | None, colour: bool) -> str:
    """Reasons stand behind the figures where there is room, else below them."""
    columns = [
        Column(title="  workload", cells=[f"  {pair.workload}" for pair in pairs], right=False),
        Column(title="precision", cells=[pair.precision for pair in pairs], right=False, drop=2),
        Column(title="one job" if several else "speed", cells=[_speed(pair, pair.ratio) for pair in pairs]),
    ]
    columns += [Column(title="separate", cells=[_speed(pair, pair.ratio_separate) for pair in pairs])] if several else []
    columns.append(Column(title="range", cells=[_range(pair) for pair in pairs], drop=1))
    why = Column(title="why", cells=[pair.why for pair in pairs], right=False)
    if width is None or sum(column.width + 2 for column in (*columns, why)) - 2 <= width:
        return table([*columns, why], width=width, colour=colour)
    return table(columns, width=width, colour=colour) + "\n\n" + _reasons(pairs, width)


def _reasons(pairs: Sequence[Pair], width: int) -> str:
    """Each reason once, with what it holds for."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.why, []).append(pair.workload)
    lines = [f"why: {', '.join(names)}: {why}" for why, names in found.items()]
    return "\n".join(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines)


def _speed(pair: Pair, ratio: float) -> str:
    return f"{_ratio(ratio)}x" if pair.fits and pair.baseline_fits else "-"


def _range(pair: Pair) -> str:
    return f"{_ratio(pair.ratio_low)} to {_ratio(pair.ratio_high)}" if pair.fits and pair.baseline_fits else "-"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _held(rigs: Sequence[Rig]) -> str:
    """Memory and watts of each GPU, and of all of a set."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}
    memory = ", ".join(f"{gpu.name} {gpu.usable_memory_bytes / GIB:.1f} GiB" for gpu in gpus.values())
    watts = ", ".join(f"{rig.name} {rig.watts:.0f} W" for rig in rigs if rig.watts)
    return f"memory: {memory}" + (f"; power: {watts}" if watts else "")
