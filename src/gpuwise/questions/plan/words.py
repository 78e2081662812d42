"""The sentences of a plan: its name, the verdict, what limits it, and what more GPUs or faster links bring."""

from __future__ import annotations

from gpuwise.core.text import both, opening, share_of, the
from gpuwise.core.units import format_si
from gpuwise.questions.common.plan_case import usable_bytes
from gpuwise.questions.plan.types import PlanAnswer, PlanEntry
from gpuwise.scale.plans.search import WITHIN
from gpuwise.scale.plans.types import Plan
from gpuwise.step.memory.peak import upper_ratio

__all__ = [
    "axes_of",
    "describe_cluster",
    "describe_limit",
    "describe_links",
    "describe_plan",
    "describe_separate",
    "describe_verdict",
    "format_gib",
    "format_rate",
]

_WORTH = 1.03  # times as fast: a link that brings less is not worth a sentence
_LIMITS = {
    "compute": "compute; communication between GPUs adds little time",
    "memory": "GPU memory bandwidth; communication between GPUs adds little time",
    "communication": "communication between GPUs",
    "bubble": "pipeline bubbles; use more micro-batches or fewer stages to shorten them",
    "launch": "the host, which launches kernels more slowly than the GPUs run them",
}
_AXES = {
    "data": "{}-way data parallelism",
    "tensor": "{}-way tensor parallelism",
    "pipeline": "{} pipeline stages",
    "sequence": "{}-way sequence parallelism",
    "expert": "{}-way expert parallelism",
}
_FLAGS = {"zero_stage": "zero", "micro_batch": "micro-batch"}  # names of the command line, where they differ
_MUCH = 0.08  # of a step: a second limit that takes more is named too
_VISIBLE = 0.0005  # of a step: what rounds to 0.0% is not called slower


def describe_cluster(answer: PlanAnswer) -> str:
    """Return the GPUs of a cluster and what connects them, in parentheses after its name."""
    cluster = answer.cluster
    kinds = [gpu.name for gpu, _ in cluster.kinds if gpu.name not in cluster.name]
    count = "1 GPU" if cluster.gpu_count == 1 else f"{cluster.gpu_count:,} GPUs"
    links = [cluster.wires.gpu_link.name] if cluster.gpus_per_node > 1 else []
    if cluster.node_count > 1 and cluster.network is not None:
        adapters = f"{cluster.network_count} x " if cluster.network_count > 1 else ""
        links.append(f"{adapters}{cluster.network.name} between nodes")
    return "; ".join([*kinds, count, *links])


def describe_plan(entry: PlanEntry) -> str:
    """A plan in words, with its axes first."""
    plan, mesh = entry.estimate.plan, entry.estimate.plan.mesh
    named = [_AXES[what].format(count) for what, count in axes_of(plan) if count > 1]
    ways = ("", " with ZeRO-1", " with ZeRO-2", " (FSDP, ZeRO-3)")[plan.zero_stage]
    head = (both(named) if named else "" if entry.gpu else "one GPU") + ways
    if mesh.chunks > 1:
        head += f", {mesh.chunks} chunks per stage"
    if entry.shares:
        (name, count), *others = entry.shares
        on = "on the" if len(entry.shares) == entry.gpu_count else "on each"
        *middle, last = [f"{number} {on} {other}" for other, number in others]
        return f"{head}, {', '.join([f'{count} samples {on} {name}', *middle])} and {last}"
    tail = f", {plan.micro_count} micro-batches of" if plan.micro_count > 1 else ", one micro-batch of"
    tail += f" {plan.micro_batch}"
    tail += f" ({plan.short} of {plan.micro_count * mesh.data} have one sample fewer)" if plan.short else ""
    again = "" if plan.recompute == "none" else f", {plan.recompute} recomputation"
    told = f"{head}{tail}{again}{', optimizer on the host' if plan.offload else ''}".removeprefix(", ")
    return f"{_alone(entry)}: {told}" if entry.gpu else told


def _alone(entry: PlanEntry) -> str:
    """The GPUs of a plan that uses one kind of several."""
    return f"{entry.gpu} alone" if entry.gpu_count == 1 else f"{entry.gpu_count}x {entry.gpu} alone"


def axes_of(plan: Plan) -> tuple[tuple[str, int], ...]:
    """The ranks of each axis, in the order in which they are shown."""
    mesh = plan.mesh
    return (
        ("data", mesh.data),
        ("tensor", mesh.tensor),
        ("pipeline", mesh.pipeline),
        ("sequence", mesh.sequence),
        ("expert", mesh.expert),
    )


def describe_verdict(answer: PlanAnswer) -> list[str]:
    """One sentence each on the plan to use, its range, the fastest one, and what more GPUs bring; or on what does not fit."""
    if not answer.entries:
        return _describe_misfit(answer)
    best, fastest = answer.recommended, answer.fastest
    if best.gpu_count < answer.cluster.gpu_count:
        return [*_describe_fewer(answer), *_describe_better_apart(answer), *_describe_unused(answer)]
    lines = [f"{'Fastest' if best is fastest else 'Recommended'}: {describe_plan(best)}. {_describe_speed(best)}."]
    lines.append(f"{_describe_range(best)}.")
    lines += _describe_room(answer, best)
    if best is not fastest:
        more = best.estimate.step_s / fastest.estimate.step_s - 1.0
        gain = f"{more:.1%} faster but more complex" if more > _VISIBLE else "as fast but more complex"
        lines.append(f"The fastest plan ({describe_plan(fastest)}) is {gain}.")
    return [*lines, *_describe_scaling(answer), *_describe_better_apart(answer), *_describe_unused(answer)]


def _describe_speed(entry: PlanEntry) -> str:
    return f"A step takes {format_si(entry.estimate.step_s, 's')} ({format_rate(entry.samples_per_s)} samples/s)"


def _describe_fewer(answer: PlanAnswer) -> list[str]:
    """Why some of the GPUs should be left out."""
    best, whole, count = answer.recommended, answer.on_all, answer.cluster.gpu_count
    some = f"{best.gpu_count} of the {count} GPUs" if best.gpu_count > 1 else "one GPU"
    used = f"{_named(best.gpu, best.gpu_count)} alone" if best.gpu else some
    plan = describe_plan(best).removeprefix(f"{_alone(best)}: ").removeprefix("one GPU, ")
    lines = [f"Use {used} ({plan}). {_describe_speed(best)}.", f"{_describe_range(best)}.", *_describe_room(answer, best)]
    if whole is None:
        return [*lines, f"No plan on {'both' if count == 2 else f'all {count}'} GPUs fits in memory."]
    ratio = whole.samples_per_s / best.samples_per_s
    speed = f"are only {ratio:.2f} times as fast" if ratio > 1.0 else f"reach {ratio:.0%} of that speed"
    rates = f"{format_si(whole.estimate.step_s, 's')} per step, {format_rate(whole.samples_per_s)} samples/s"
    together = f"{'Both' if count == 2 else f'All {count}'} GPUs together {speed}"
    return [*lines, f"{together} ({describe_plan(whole)}; {rates})."]


def _named(gpu: str, count: int) -> str:
    return the(gpu) if count == 1 else f"{count}x {gpu}"


def _describe_better_apart(answer: PlanAnswer) -> list[str]:
    """Separate runs where they clearly beat one run on all GPUs: part of the verdict."""
    return _describe_separate(answer) if _are_better_apart(answer) else []


def _are_better_apart(answer: PlanAnswer) -> bool:
    found = answer.separate
    return found is not None and found.samples_per_s > WITHIN * found.one_job_samples_per_s


def _describe_unused(answer: PlanAnswer) -> list[str]:
    """A `--network` that connects nothing."""
    return [f"`--network` {note.value}: {note.effect}." for note in answer.assumptions if note.code == "network_unused"]


def _describe_range(entry: PlanEntry) -> str:
    """What the range means, as `predict` says it."""
    ends = f"between {format_si(entry.low_s, 's')} and {format_si(entry.high_s, 's')}"
    return (
        f"Eight out of ten measurements fall {ends}"
        if entry.range_basis == "measured"
        else f"The time is assumed to be {ends}; no measurements support this range"
    )


def _describe_room(answer: PlanAnswer, entry: PlanEntry) -> list[str]:
    """How little memory is left, if less than is safe."""
    need, usable = entry.estimate.memory.total_bytes, min(gpu.usable_memory_bytes for gpu, _ in answer.cluster.kinds)
    safe = usable / upper_ratio()
    if answer.cluster.is_mixed or need <= safe:
        return []
    use = f"it needs {format_gib(need)} of {format_gib(usable)} per GPU"
    return [f"Memory is tight: {use}, and only plans that need less than {format_gib(safe)} fit in nine out of ten cases."]


def _describe_misfit(answer: PlanAnswer) -> list[str]:
    """Why no plan works, and what would."""
    if not answer.tried:
        return ["No plan is possible; the reasons are listed below."]
    smallest = min((gpu for gpu, _ in answer.cluster.kinds), key=usable_bytes)
    which = "the smallest GPU" if answer.cluster.is_mixed else "each GPU"
    has = f"{which} can safely use only {format_gib(usable_bytes(smallest))} of its {format_gib(smallest.memory_bytes)}"
    need = f"even the smallest needs {format_gib(answer.least_bytes)} per GPU, but {has}"
    lines = [f"DOES NOT FIT: none of the {answer.tried:,} plans fits in memory; {need}."]
    if answer.plain:
        size = format_gib(answer.plain.estimate.memory.total_bytes)
        lines.append(f"Data parallelism, with the whole model on each GPU, needs {size} per GPU.")
    if answer.remedies:
        last, changes = answer.remedies[-1], both(rung.title for rung in answer.remedies)
        result = f"{format_gib(last.memory.total_bytes)} per GPU, {format_si(last.step_s, 's')} per step"
        lines.append(f"With these changes, it fits on this cluster: {changes} ({result}). `gpuwise fit` explains them.")
    if answer.smallest:
        more = "Without other changes, the" if answer.remedies else "The"
        lines.append(f'{more} smallest cluster of these GPUs on which the model fits is `--cluster "{answer.smallest[0]}"`.')
    elif answer.fixed:
        flags = ", ".join(f"`--{_FLAGS.get(name, name)}`" for name in answer.fixed)
        lines.append(
            f"The model does not fit on any number of these GPUs with the values you fixed ({flags}). "
            "Leave out some of these options."
        )
    else:
        lines.append("The model does not fit on any number of these GPUs. Use a shorter sequence or GPUs with more memory.")
    return lines


def _describe_scaling(answer: PlanAnswer) -> list[str]:
    rows = [row for row in answer.scaling() if row["samples_per_s"]]
    if len(rows) < 2:
        return []
    first, last, best = rows[0], rows[-1], answer.recommended
    times = best.samples_per_s / first["samples_per_s"]
    base = "one" if first["gpu_count"] == 1 else f"{first['gpu_count']}"
    ideal, many = "of ideal scaling", opening(last["gpu_count"])
    if answer.alone:
        base = f"{_named(first['gpu'], first['gpu_count'])} alone"
        ideal, many = "of the sum of their speeds", f"Together, the {many.lower()}"
    text = f"{many} GPUs are {times:.2f} times as fast as {base}"
    if last["efficiency_fraction"]:
        text += f" ({last['efficiency_fraction'] * best.samples_per_s / last['samples_per_s']:.0%} {ideal})"
    if answer.stops_at is not None:
        count = "1 GPU" if answer.stops_at == 1 else f"{answer.stops_at} GPUs"
        text += f"; beyond {count}, each additional GPU contributes less than half of its own speed at this batch size"
    return [f"{text}."]


def describe_limit(best: PlanEntry) -> str:
    """What limits the step, and messages or a bubble that also take much of it."""
    one = best.estimate
    also = {"communication": ("communication", one.exposed_comm_s), "bubble": ("pipeline bubbles", one.bubble_s)}
    much = [
        f"{seconds / one.step_s:.0%} of the time is spent on {what}"
        for bound, (what, seconds) in also.items()
        if bound != best.bound and seconds > _MUCH * one.step_s
    ]
    text = _LIMITS[best.bound] if best.gpu_count > 1 else _LIMITS[best.bound].split(";")[0]
    return ", but ".join([text.split(";")[0], " and ".join(much)]) if much else text


def describe_links(answer: PlanAnswer) -> list[str]:
    """What faster links would bring, compared with the recommended plan where that uses fewer GPUs."""
    if not answer.links:
        return []
    best = answer.recommended
    if best.gpu_count == answer.cluster.gpu_count:
        lines = [
            f"With {link.name}, a step would take {format_si(link.step_s, 's')} ({link.gain:.2f} times as fast)."
            for link in answer.links
            if link.gain >= _WORTH
        ]
        return lines or ["A faster link would make a step less than 3% faster."]
    gains = [(link, best.estimate.step_s / link.step_s) for link in answer.links]
    lines = [
        f"With {link.name}, a step on all GPUs would take {format_si(link.step_s, 's')} "
        f"({gain:.2f} times as fast as with this plan)."
        for link, gain in gains
        if gain >= _WORTH
    ]
    return lines or ["Even with a faster link, a step on all GPUs would be less than 3% faster than with this plan."]


def describe_separate(answer: PlanAnswer) -> list[str]:
    """Several trainings at once, each on few GPUs, against one on all, where the verdict does not say so."""
    return [] if _are_better_apart(answer) else _describe_separate(answer)


def _describe_separate(answer: PlanAnswer) -> list[str]:
    found = answer.separate
    if found is None:
        return []
    each = "one GPU" if found.gpus_each == 1 else f"{found.gpus_each} GPUs"
    rates = [format_rate(rate) for rate in (found.samples_per_s, found.one_job_samples_per_s)]
    ratio = found.samples_per_s / found.one_job_samples_per_s
    return [
        f"{opening(found.jobs)} separate training runs, each on {each} with a batch of {found.batch_each:,}, process {rates[0]} "
        f"samples/s in total, which is "
        f"{share_of(ratio, 'the throughput')} of one run on all GPUs ({rates[1]} samples/s)."
    ]


def format_rate(value: float) -> str:
    """Samples per second, with three digits or more.

    >>> format_rate(1234.5), format_rate(1.2345)
    ('1,234', '1.23')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def format_gib(size: float) -> str:
    """Bytes in GiB, with three digits; whole ones from 100 on."""
    gib = size / 2**30
    return f"{gib:,.0f} GiB" if gib >= 100 else f"{gib:.3g} GiB"
