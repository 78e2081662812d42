"""Plans as text: a verdict, the few plans worth knowing, where a step's time goes, what to write, and what more GPUs bring."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.questions.plan.types import CHEAPEST, FASTEST, PLAIN, SIMPLEST, PlanAnswer, PlanEntry
from gpuwise.questions.plan.words import (
    axes_of,
    describe_cluster,
    describe_limit,
    describe_links,
    describe_plan,
    describe_separate,
    describe_verdict,
    format_gib,
    format_rate,
)
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_PURPOSES = {
    "tensor": "sums across GPUs that share matrices",
    "gradients": "gradients",
    "weights": "weights",
    "pipeline": "activations between stages",
    "expert": "tokens to their experts",
    "sequence": "keys and values around the ring",
}
_MOST_REJECTED = 6  # reasons in a long answer; in a brief one half of it
_MOST_PLANS = 5  # in a brief answer, whose table must leave room for the sentences
_SMALL = 0.002  # of a step: a part that takes less is not listed


def render(answer: PlanAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The verdict, the plans and what limits the recommended one; with `verbose` also its messages, recipes and growth."""
    wide = width or WIDTH
    verdict = "\n".join(wrapped(line, wide, "  ") for line in describe_verdict(answer))
    blocks = [wrapped(_head(answer, colour), wide, "  "), verdict]
    if answer.entries:
        blocks += _long_blocks(answer, wide, colour) if verbose else _brief_blocks(answer, wide, colour)
    if verbose or not answer.entries:
        blocks.append(_rejected(answer, wide, _MOST_REJECTED if verbose else _MOST_REJECTED // 2))
    notes = [wrapped(line, wide, "  ") for line in folded(answer.assumptions, verbose=verbose)]
    return "\n\n".join(block for block in blocks if block) + join_notes(notes)


def _brief_blocks(answer: PlanAnswer, width: int, colour: bool) -> list[str]:
    sentences = [
        f"The step is limited by {describe_limit(answer.recommended)}.",
        *describe_links(answer)[:1],
        *describe_separate(answer),
        "`-v` adds the settings for each framework and a breakdown of the time.",
    ]
    return [_plans(_chosen(answer), width, colour), "\n".join(wrapped(line, width, "  ") for line in sentences)]


def _long_blocks(answer: PlanAnswer, width: int, colour: bool) -> list[str]:
    sentences = [*describe_links(answer), *describe_separate(answer)]
    return [
        _plans(answer.shown, width, colour),
        _time(answer.recommended, width),
        _recipes(answer, colour),
        _growth(answer, width, colour) if answer.points else "",
        "\n".join(wrapped(line, width, "  ") for line in sentences),
    ]


def _chosen(answer: PlanAnswer) -> list[PlanEntry]:
    """The plans with a label, filled up with the next fastest, in their order."""
    labelled = [entry for entry in answer.shown if entry.labels]
    others = [entry for entry in answer.shown if not entry.labels]
    kept = [*labelled, *others][:_MOST_PLANS]
    return [entry for entry in answer.shown if entry in kept]


def _head(answer: PlanAnswer, colour: bool) -> str:
    size = f"global batch {answer.batch:,}" + (f", sequence {answer.seq}" if answer.seq is not None else "")
    where = f"{bold(answer.cluster.name, colour=colour)} ({describe_cluster(answer)})"
    how = f"train ({answer.method})" if answer.method else "train"
    return f"{bold(answer.model, colour=colour)}  {how}, {answer.precision}, {size} on {where}"


def _plans(rows: Sequence[PlanEntry], width: int, colour: bool) -> str:
    def column(title: str, cells: Sequence[str], drop: int = 0, right: bool = True) -> Column:
        return Column(title=title, cells=cells, drop=drop, right=right)

    columns = [
        column("GPUs", [f"{row.gpu_count:,}" for row in rows], 4),
        *(column(name, [str(dict(axes_of(row.estimate.plan))[name]) for row in rows]) for name in _used_axes(rows)),
        column("ZeRO", [str(row.estimate.plan.zero_stage) for row in rows]),
        column("micro", [_micro(row) for row in rows]),
        column("recompute", [row.estimate.plan.recompute for row in rows], 2, False),
        column("step", [format_si(row.estimate.step_s, "s") for row in rows]),
        column("samples/s", [format_rate(row.samples_per_s) for row in rows]),
        column("MFU", [f"{row.mfu_fraction:.0%}" for row in rows], 3),
        column("waits", [f"{row.estimate.exposed_comm_s / row.estimate.step_s:.0%}" for row in rows], 5),
        column("bubble", [f"{row.estimate.bubble_s / row.estimate.step_s:.0%}" for row in rows], 6),
        column("memory", [format_gib(row.estimate.memory.total_bytes) for row in rows]),
        column("", [", ".join(_labels(row)) for row in rows], 1, False),
    ]
    return table(columns, width=width, colour=colour)


def _micro(row: PlanEntry) -> str:
    """The micro-batch and how many a GPU takes, or the samples of each kind of GPU."""
    plan = row.estimate.plan
    return "/".join(str(count) for _, count in row.shares) or f"{plan.micro_batch}x{plan.micro_count}"


def _labels(row: PlanEntry) -> list[str]:
    """Which GPUs a plan uses of several kinds, and why it is shown; in short where it is the best in every way."""
    name = [f"{row.gpu_count}x {row.gpu}" if row.gpu_count > 1 else row.gpu] if row.gpu else []
    if not {FASTEST, SIMPLEST} <= {*row.labels}:
        return [*name, *(label.replace(f"{PLAIN}:", "plain:") for label in row.labels)]
    # The simplest of those within 5% of the fastest need not be simple: only one GPU or plain data parallelism is.
    best = "fastest and simplest" if row.estimate.plan.divides_samples_only else "fastest"
    return [*name, best, *(label for label in row.labels if label not in (FASTEST, SIMPLEST, CHEAPEST))]


def _used_axes(rows: Sequence[PlanEntry]) -> list[str]:
    """The axes that any of these plans divides; `data` always."""
    names = [name for name, _ in axes_of(rows[0].estimate.plan)]
    return [name for name in names if name == "data" or any(dict(axes_of(row.estimate.plan))[name] > 1 for row in rows)]


def _time(best: PlanEntry, width: int) -> str:
    """Where the step of the recommended plan goes, and its messages."""
    one = best.estimate
    parts = (
        ("compute", one.compute_s),
        ("recomputation", one.recompute_s),
        ("optimizer", one.update_s),
        ("waiting for communication", one.exposed_comm_s),
        ("pipeline bubbles", one.bubble_s),
        ("waiting for the host and slower GPUs", one.wait_s),
    )
    shown = ", ".join(f"{name} {format_si(seconds, 's')}" for name, seconds in parts if seconds > _SMALL * one.step_s)
    hidden = f"{format_si(one.hidden_comm_s, 's') if one.hidden_comm_s else 'none'} of the communication overlaps with compute"
    told = f"; {hidden}" if one.collectives else ""
    lines = [f"Time per step of the recommended plan: {shown}{told}."]
    lines += [
        f"  {_PURPOSES.get(message.purpose, message.purpose)}: {message.count:,.0f} x {message.op}, "
        f"{format_si(message.total_bytes, 'B')} per GPU, {format_si(message.seconds, 's')}"
        for message in one.collectives
    ]
    return "\n".join(wrapped(line, width, "    ") for line in [*lines, f"  limited by {describe_limit(best)}"])


def _recipes(answer: PlanAnswer, colour: bool) -> str:
    """Settings of the recommended plan; code is never wrapped."""
    chosen = answer.recommended
    lines = [f"Settings for {describe_plan(chosen)}:"]
    for recipe in chosen.recipes:
        lines += [f"  {bold(recipe.framework, colour=colour)}", *(f"    {line}" for line in recipe.lines)]
    return "\n".join(lines)


def _growth(answer: PlanAnswer, width: int, colour: bool) -> str:
    rows = answer.scaling()

    def cell(row: dict[str, object], name: str, share: bool = False) -> str:
        value = row[name]
        if not isinstance(value, float):
            return "-"
        return f"{value:.0%}" if share else format_rate(value)

    columns = [
        Column(title="GPUs", cells=[f"{row['gpu_count']:,}" for row in rows]),
        Column(title="samples/s", cells=[cell(row, "samples_per_s") for row in rows]),
        Column(title="of ideal", cells=[cell(row, "efficiency_fraction", True) for row in rows]),
        Column(title="with a scaled batch", cells=[cell(row, "weak_samples_per_s") for row in rows], drop=1),
        Column(title="of ideal", cells=[cell(row, "weak_efficiency_fraction", True) for row in rows], drop=1),
    ]
    return table(columns, width=width, colour=colour)


def _rejected(answer: PlanAnswer, width: int, most: int) -> str:
    """Why plans were left out: the most common reason for each axis, with how many plans the axis lost."""
    found = answer.rejected.most_common()
    if not found:
        return ""
    kinds: dict[str, tuple[str, int]] = {}
    for reason, count in found:
        axis = reason.split(" ")[0]
        kinds.setdefault(axis, (reason, 0))
        kinds[axis] = (kinds[axis][0], kinds[axis][1] + count)
    lines = [
        wrapped(f"  {count:,} {'plan' if count == 1 else 'plans'}: {reason}", width, "    ")
        for reason, count in list(kinds.values())[:most]
    ]
    fit = "All" if answer.fitting == answer.tried else f"{answer.fitting:,} of"
    return "\n".join([f"{fit} {answer.tried:,} plans fit. Ruled out:", *lines])
