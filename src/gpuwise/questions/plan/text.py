"""Plans as text: a verdict, the few plans worth knowing, where a step's time goes, what to write, and what more GPUs bring."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.questions.plan.types import PlanAnswer, PlanEntry
from gpuwise.render.text import Column, assumption_lines, bold, join_notes, table
from gpuwise.scale.plans.types import Plan

__all__ = ["name_of", "render"]

_WORTH = 1.03  # a faster link that brings less is not worth a line
_LIMITS = {
    "compute": "computing; nothing between the GPUs is in the way",
    "memory": "the memory bandwidth of each GPU; nothing between the GPUs is in the way",
    "communication": "messages between GPUs",
    "bubble": "the pipeline filling and emptying: more micro-batches or fewer stages shorten it",
    "launch": "the host, which issues kernels slower than the GPUs run them",
}
_PURPOSES = {
    "tensor": "sums between GPUs that share matrices",
    "gradients": "gradients",
    "weights": "weights",
    "pipeline": "activations between stages",
    "expert": "tokens to their experts",
    "sequence": "keys and values around the ring",
}
_OPTIONS = {"zero_stage": "zero", "micro_batch": "micro-batch"}
_MOST_REJECTED = 6
_MUCH = 0.08  # of a step


def render(answer: PlanAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """The whole answer; where nothing fits, what would."""
    blocks = [_head(answer, colour), _verdict(answer, colour)]
    if answer.entries:
        blocks += [_plans(answer, width, colour), _time(answer.entries[0]), _write(answer, colour)]
        blocks += [_growth(answer, width, colour), _help(answer)] if answer.points else [_help(answer)]
    blocks.append(_rejected(answer))
    said = assumption_lines(answer.assumptions)
    return "\n\n".join(block for block in blocks if block) + join_notes(said)


def _head(answer: PlanAnswer, colour: bool) -> str:
    size = f"batch {answer.batch:,} in all" + (f", sequence {answer.seq}" if answer.seq is not None else "")
    cluster = answer.cluster
    joined = cluster.wires.gpu_link.name if cluster.gpus_per_node > 1 else ""
    if cluster.node_count > 1 and cluster.network is not None:
        adapters = f"{cluster.network_count} x " if cluster.network_count > 1 else ""
        joined += f"{'; ' if joined else ''}{adapters}{cluster.network.name} between nodes"
    meant = "".join(f"{gpu.name}; " for gpu, _ in cluster.kinds if gpu.name not in cluster.name)
    where = f"{bold(cluster.name, colour=colour)} ({meant}{_gpus(cluster.gpu_count)}{'; ' + joined if joined else ''})"
    return f"{bold(answer.model, colour=colour)}  train, {answer.precision}, {size} on {where}"


def _verdict(answer: PlanAnswer, colour: bool) -> str:
    if not answer.entries:
        return _nothing(answer, colour)
    best = answer.entries[0]
    step = f"{format_si(best.estimate.step_s, 's')} a step, {_rate(best.samples_per_s)} samples/s"
    lines = [f"Fastest: {bold(name_of(best), colour=colour)}: {step}.", f"Of such steps {_range(best)}."]
    easy = next((entry for entry in answer.entries if "simplest within 5 %" in entry.labels), None)
    if easy is not None and easy is not best:
        more = easy.estimate.step_s / best.estimate.step_s - 1.0
        lines.append(
            f"Simplest within 5 %: {name_of(easy)}, {more:.1%} slower." if more > 0.0005 else f"Simplest: {name_of(easy)}."
        )
    lines.append(_do_more_help(answer))
    return "\n".join(line for line in lines if line)


def _range(entry: PlanEntry) -> str:
    """What the range means, as `predict` says it."""
    ends = f"between {format_si(entry.low_s, 's')} and {format_si(entry.high_s, 's')}"
    return f"8 measurements in 10 lie {ends}" if entry.range_basis == "measured" else f"a range {ends} is assumed, not measured"


def _nothing(answer: PlanAnswer, colour: bool) -> str:
    if not answer.tried:
        return bold("No plan is possible; why stands below.", colour=colour)
    usable = answer.cluster.gpu.usable_memory_bytes
    need = f"the least that a GPU must hold is {_gib(answer.least_bytes)} of {_gib(usable)}"
    lines = [f"{bold('DOES NOT FIT', colour=colour)}: none of {answer.tried:,} plans; {need}."]
    if answer.plain:
        lines.append(f"Plain data parallel, the whole model on each GPU, needs {_gib(answer.plain.estimate.memory.total_bytes)}.")
    if answer.smallest:
        lines.append(f'The smallest cluster of these GPUs that holds it: --cluster "{answer.smallest[0]}".')
    elif answer.fixed:
        options = ", ".join(f"`--{_OPTIONS.get(name, name)}`" for name in answer.fixed)
        lines.append(f"No number of these GPUs that was tried holds it with what is fixed ({options}): leave some of it out.")
    else:
        lines.append("No number of these GPUs holds it: a smaller sequence or a GPU with more memory would.")
    return "\n".join(lines)


def _do_more_help(answer: PlanAnswer) -> str:
    rows = [row for row in answer.scaling() if row["samples_per_s"]]
    if len(rows) < 2:
        return ""
    first, last = rows[0], rows[-1]
    times = last["samples_per_s"] / first["samples_per_s"]
    base = "one" if first["gpu_count"] == 1 else f"{first['gpu_count']}"
    text = f"{last['gpu_count']:,} GPUs do {times:.2f} times the work of {base} ({last['efficiency_fraction']:.0%} of perfect)"
    if answer.stops_at is not None:
        return f"{text}; beyond {answer.stops_at}, each further GPU adds less than half of its own speed at this batch."
    return f"{text}."


def name_of(entry: PlanEntry) -> str:
    """A plan in words, largest axis first."""
    plan, mesh = entry.estimate.plan, entry.estimate.plan.mesh
    named = [f"{what} {count}" for what, count in _axes(plan) if count > 1]
    ways = ("", " + ZeRO-1", " + ZeRO-2", " (FSDP, ZeRO-3)")[plan.zero_stage]
    head = (" x ".join(named) or "one GPU") + ways
    if mesh.chunks > 1:
        head += f", {mesh.chunks} chunks a stage"
    tail = f", micro-batch {plan.micro_batch}" + (f" x {plan.micro_count}" if plan.micro_count > 1 else "")
    tail += f" ({plan.short} of {plan.micro_count * mesh.data} one sample smaller)" if plan.short else ""
    again = "" if plan.recompute == "none" else f", {plan.recompute} recomputation"
    shares = "; samples " + ", ".join(f"{name} {count}" for name, count in entry.shares) if entry.shares else ""
    return f"{head}{tail}{again}{', optimizer on the host' if plan.offload else ''}{shares}"


def _axes(plan: Plan) -> tuple[tuple[str, int], ...]:
    mesh = plan.mesh
    return (
        ("data", mesh.data),
        ("tensor", mesh.tensor),
        ("pipeline", mesh.pipeline),
        ("sequence", mesh.sequence),
        ("expert", mesh.expert),
    )


def _plans(answer: PlanAnswer, width: int | None, colour: bool) -> str:
    rows = answer.shown

    def column(title: str, cells: Sequence[str], drop: int = 0, right: bool = True) -> Column:
        return Column(title=title, cells=cells, drop=drop, right=right)

    columns = [
        column("GPUs", [f"{row.gpu_count:,}" for row in rows], 4),
        *(column(name, [str(dict(_axes(row.estimate.plan))[name]) for row in rows]) for name in _used(rows)),
        column("ZeRO", [str(row.estimate.plan.zero_stage) for row in rows]),
        column("micro", [f"{row.estimate.plan.micro_batch}x{row.estimate.plan.micro_count}" for row in rows]),
        column("recompute", [row.estimate.plan.recompute for row in rows], 2, False),
        column("step", [format_si(row.estimate.step_s, "s") for row in rows]),
        column("samples/s", [_rate(row.samples_per_s) for row in rows]),
        column("MFU", [f"{row.mfu_fraction:.0%}" for row in rows], 3),
        column("waits", [f"{row.estimate.exposed_comm_s / row.estimate.step_s:.0%}" for row in rows], 5),
        column("bubble", [f"{row.estimate.bubble_s / row.estimate.step_s:.0%}" for row in rows], 6),
        column("memory", [_gib(row.estimate.memory.total_bytes) for row in rows]),
        column("", [", ".join(row.labels) for row in rows], 1, False),
    ]
    return table(columns, width=width, colour=colour)


def _used(rows: Sequence[PlanEntry]) -> list[str]:
    names = [name for name, _ in _axes(rows[0].estimate.plan)]
    return [name for name in names if name == "data" or any(dict(_axes(row.estimate.plan))[name] > 1 for row in rows)]


def _time(best: PlanEntry) -> str:
    """Where the step of the fastest plan goes, and its messages."""
    one = best.estimate
    parts = (
        ("computing", one.compute_s),
        ("recomputing", one.recompute_s),
        ("update", one.update_s),
        ("waiting for messages", one.exposed_comm_s),
        ("bubble", one.bubble_s),
        ("waiting for the host and slower GPUs", one.wait_s),
    )
    shown = ", ".join(f"{name} {format_si(seconds, 's')}" for name, seconds in parts if seconds > 0.002 * one.step_s)
    lines = [f"A step of the fastest: {shown}; messages that hide behind it {format_si(one.hidden_comm_s, 's')}."]
    lines += [
        f"  {_PURPOSES.get(message.purpose, message.purpose)}: {message.count:,.0f} x {message.op}, "
        f"{format_si(message.total_bytes, 'B')} a GPU, {format_si(message.seconds, 's')}"
        for message in one.collectives
    ]
    return "\n".join([*lines, f"  limit: {_limit(best)}"])


def _limit(best: PlanEntry) -> str:
    """What the step is bound by, and messages or a bubble that also take much of it."""
    one = best.estimate
    also = {"communication": ("messages", one.exposed_comm_s), "bubble": ("the bubble", one.bubble_s)}
    much = [
        f"{seconds / one.step_s:.0%} goes to {what}"
        for bound, (what, seconds) in also.items()
        if bound != best.bound and seconds > _MUCH * one.step_s
    ]
    text = _LIMITS[best.bound]
    return ", but ".join([text.split(";")[0], " and ".join(much)]) if much else text


def _write(answer: PlanAnswer, colour: bool) -> str:
    """Settings of the simplest plan that is near the fastest."""
    chosen = next((entry for entry in answer.entries if "simplest within 5 %" in entry.labels), answer.entries[0])
    lines = [f"What to write for {name_of(chosen)}:"]
    for recipe in chosen.recipes:
        lines += [f"  {bold(recipe.framework, colour=colour)}", *(f"    {line}" for line in recipe.lines)]
    return "\n".join(lines)


def _growth(answer: PlanAnswer, width: int | None, colour: bool) -> str:
    rows = answer.scaling()

    def cell(row: dict[str, object], name: str, share: bool = False) -> str:
        value = row[name]
        if not isinstance(value, float):
            return "-"
        return f"{value:.0%}" if share else _rate(value)

    columns = [
        Column(title="GPUs", cells=[f"{row['gpu_count']:,}" for row in rows]),
        Column(title="samples/s", cells=[cell(row, "samples_per_s") for row in rows]),
        Column(title="of perfect", cells=[cell(row, "efficiency_fraction", True) for row in rows]),
        Column(title="with a growing batch", cells=[cell(row, "weak_samples_per_s") for row in rows], drop=1),
        Column(title="of perfect", cells=[cell(row, "weak_efficiency_fraction", True) for row in rows], drop=1),
    ]
    return table(columns, width=width, colour=colour)


def _help(answer: PlanAnswer) -> str:
    lines = [
        f"With {link.name}: {format_si(link.step_s, 's')} a step, {link.gain:.2f} times as fast."
        for link in answer.links
        if link.gain >= _WORTH
    ]
    if answer.links and not lines:
        lines.append("No faster link would bring 3 %.")
    found = answer.separate
    if found is not None:
        each = "one GPU" if found.gpus_each == 1 else f"{found.gpus_each} GPUs"
        rates = [_rate(rate) for rate in (found.samples_per_s, found.one_job_samples_per_s)]
        ratio = found.samples_per_s / found.one_job_samples_per_s
        lines.append(
            f"{found.jobs:,} trainings side by side, each on {each}: {rates[0]} samples/s together; one training on all: "
            f"{rates[1]}. With several to run, side by side is {ratio:.2f} times as fast."
        )
    return "\n".join(lines)


def _rejected(answer: PlanAnswer) -> str:
    """Why plans were left out, the shortest list that says it."""
    found = answer.rejected.most_common()
    if not found:
        return ""
    kinds: dict[str, tuple[str, int]] = {}
    for reason, count in found:
        axis = reason.split(" ")[0]
        kinds.setdefault(axis, (reason, 0))
        kinds[axis] = (kinds[axis][0], kinds[axis][1] + count)
    lines = [f"  {count:,} x {reason}" for reason, count in list(kinds.values())[:_MOST_REJECTED]]
    return "\n".join([f"{answer.fitting:,} of {answer.tried:,} plans fit. Left out, among others:", *lines])


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count:,} GPUs"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
