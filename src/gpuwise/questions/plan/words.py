"""The sentences of a plan: its name, the verdict, what limits it, and what more GPUs or faster links bring."""

from __future__ import annotations

from gpuwise.core.text import share_of
from gpuwise.core.units import format_si
from gpuwise.questions.plan.types import SIMPLEST, PlanAnswer, PlanEntry
from gpuwise.scale.plans.types import Plan

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
    "simplest_of",
]

_WORTH = 1.03  # times as fast: a link that brings less is not worth a sentence
_LIMITS = {
    "compute": "compute; communication between GPUs adds little time",
    "memory": "GPU memory bandwidth; communication between GPUs adds little time",
    "communication": "communication between GPUs",
    "bubble": "pipeline bubbles; use more micro-batches or fewer stages to shorten them",
    "launch": "the host, which launches kernels more slowly than the GPUs run them",
}
_FLAGS = {"zero_stage": "zero", "micro_batch": "micro-batch"}  # names of the command line, where they differ
_MUCH = 0.08  # of a step: a second limit that takes more is named too
_VISIBLE = 0.0005  # of a step: what rounds to 0.0% is not called slower


def describe_cluster(answer: PlanAnswer) -> str:
    """The GPUs of a cluster and what joins them, in parentheses behind its name."""
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
    named = [f"{what} {count}" for what, count in axes_of(plan) if count > 1]
    ways = ("", " + ZeRO-1", " + ZeRO-2", " (FSDP, ZeRO-3)")[plan.zero_stage]
    head = (" x ".join(named) or "one GPU") + ways
    if mesh.chunks > 1:
        head += f", {mesh.chunks} chunks per stage"
    tail = f", micro-batch {plan.micro_batch}" + (f" x {plan.micro_count}" if plan.micro_count > 1 else "")
    tail += f" ({plan.short} of {plan.micro_count * mesh.data} one sample smaller)" if plan.short else ""
    again = "" if plan.recompute == "none" else f", {plan.recompute} recomputation"
    shares = "; samples " + ", ".join(f"{name} {count}" for name, count in entry.shares) if entry.shares else ""
    return f"{head}{tail}{again}{', optimizer on the host' if plan.offload else ''}{shares}"


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


def simplest_of(answer: PlanAnswer) -> PlanEntry | None:
    """The simplest plan that is nearly as fast as the fastest, where the search found one."""
    return next((entry for entry in answer.entries if SIMPLEST in entry.labels), None)


def describe_verdict(answer: PlanAnswer) -> list[str]:
    """One sentence each on the fastest plan, its range, the simplest one, and what more GPUs bring; or on what does not fit."""
    if not answer.entries:
        return _describe_misfit(answer)
    best, easy = answer.entries[0], simplest_of(answer)
    step = f"{format_si(best.estimate.step_s, 's')} per step, {format_rate(best.samples_per_s)} samples/s"
    lines = [f"Fastest: {describe_plan(best)}: {step}.", f"{_describe_range(best)}."]
    if easy is not None and easy is not best:
        more = easy.estimate.step_s / best.estimate.step_s - 1.0
        name = describe_plan(easy)
        lines.append(
            f"Simplest plan within 5% of that: {name}, {more:.1%} slower." if more > _VISIBLE else f"Simplest plan: {name}."
        )
    return [*lines, *_describe_scaling(answer)]


def _describe_range(entry: PlanEntry) -> str:
    """What the range means, as `predict` says it."""
    ends = f"between {format_si(entry.low_s, 's')} and {format_si(entry.high_s, 's')}"
    return (
        f"80% of measurements fall {ends}"
        if entry.range_basis == "measured"
        else f"The assumed range is {ends}; no measurements support it"
    )


def _describe_misfit(answer: PlanAnswer) -> list[str]:
    """Why no plan works, and what would."""
    if not answer.tried:
        return ["No plan is possible for the reasons listed below."]
    usable = answer.cluster.gpu.usable_memory_bytes
    need = f"even the smallest needs {format_gib(answer.least_bytes)} per GPU, but each GPU has {format_gib(usable)}"
    lines = [f"DOES NOT FIT: none of the {answer.tried:,} plans fits in memory; {need}."]
    if answer.plain:
        size = format_gib(answer.plain.estimate.memory.total_bytes)
        lines.append(f"Data parallelism, with the whole model on each GPU, needs {size} per GPU.")
    if answer.smallest:
        lines.append(f'The smallest cluster of these GPUs that the model fits on is `--cluster "{answer.smallest[0]}"`.')
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
    first, last = rows[0], rows[-1]
    times = last["samples_per_s"] / first["samples_per_s"]
    base = "one" if first["gpu_count"] == 1 else f"{first['gpu_count']}"
    text = (
        f"{last['gpu_count']:,} GPUs are {times:.2f} times as fast as {base} ({last['efficiency_fraction']:.0%} of ideal scaling)"
    )
    if answer.stops_at is not None:
        count = "1 GPU" if answer.stops_at == 1 else f"{answer.stops_at} GPUs"
        text += f"; beyond {count}, each extra GPU adds less than half of its speed at this batch size"
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
    text = _LIMITS[best.bound]
    return ", but ".join([text.split(";")[0], " and ".join(much)]) if much else text


def describe_links(answer: PlanAnswer) -> list[str]:
    """What faster links would bring."""
    lines = [
        f"With {link.name}, a step would take {format_si(link.step_s, 's')} ({link.gain:.2f} times as fast)."
        for link in answer.links
        if link.gain >= _WORTH
    ]
    return lines or (["A faster link would make a step less than 3% faster."] if answer.links else [])


def describe_separate(answer: PlanAnswer) -> list[str]:
    """Several trainings at once, each on few GPUs, against one on all."""
    found = answer.separate
    if found is None:
        return []
    each = "one GPU" if found.gpus_each == 1 else f"{found.gpus_each} GPUs"
    rates = [format_rate(rate) for rate in (found.samples_per_s, found.one_job_samples_per_s)]
    ratio = found.samples_per_s / found.one_job_samples_per_s
    return [
        f"{found.jobs:,} separate training runs on {each} each process {rates[0]} samples/s in total, which is "
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
