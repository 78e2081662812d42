"""Predictions as text: one GPU with the reasons, or several side by side with a sentence on why they differ."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.text import the
from gpuwise.core.units import format_si, format_span
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["MEANING", "render", "sized"]

_WORTH_A_ROW = 0.02  # of a step: ops below that are left out of a brief answer
_SHOWN = 2**20  # bytes: what holds less is not named
MEANING = {
    "compute": "the GPU's arithmetic throughput",
    "memory": "the GPU's memory bandwidth",
    "launch": "the host, which cannot launch kernels fast enough, so a faster GPU would not help",
    "input": "the data loader, so a faster GPU would not help",
    "copy": "copying inputs over PCIe",
    "communication": "communication between GPUs",
}

_COUNTED = ("tokens/s", "x realtime")  # what people count instead of samples
_HIDDEN = {"input": "the data loader", "copy": "copying inputs"}


def render(answer: PredictAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table."""
    alone = len(answer.results) == 1
    body = _sheet(answer, width, colour, verbose) if alone else _side_by_side(answer, width, colour)
    notes = [wrapped(f"note: {note}", width, "  ") for note in answer.notes]
    said = folded([note for result in answer.results for note in result.assumptions], verbose=verbose)
    return body + join_notes([*notes, *(wrapped(line, width, "  ") for line in said)])


def _head(answer: PredictAnswer, result: Prediction, colour: bool) -> str:
    size = f"batch {result.batch}" + (f", sequence {result.seq}" if result.seq is not None else "")
    differ = _differ(answer.results)
    method = result.method.partition(", weights in")[0] if differ else result.method
    how = f"{result.mode} ({method})" if method else result.mode
    kind = "" if differ else f" {result.precision},"
    return f"{bold(answer.model, colour=colour)}  {how},{kind} {size}"


def _differ(results: Sequence[Prediction]) -> bool:
    """Return whether the GPUs run in different precisions."""
    return len({result.precision for result in results}) > 1


def _sheet(answer: PredictAnswer, width: int | None, colour: bool, verbose: bool) -> str:
    result = answer.results[0]
    shares = sorted(((share, name) for name, share in result.bound_fractions.items() if share >= 0.05), reverse=True)
    used = _used(result)
    lines = [
        f"{_head(answer, result, colour)} on {_cards(result, colour)}",
        "",
        f"  step       {_time(result.step_s)}   ({_range(result)})",
        f"  speed      {_speed(result)}" + (f", {used}" if used else ""),
        *_epochs(result),
        f"  limited by {_limit(result)}",
        "             " + ", ".join(f"{name} {share:.0%}" for share, name in shares),
        wrapped(f"  memory     {sized(result)}", width, " " * 13),
        "",
        _ops(result, colour, verbose),
    ]
    return "\n".join(lines)


def _limit(result: Prediction) -> str:
    """Return what limits the step. Loading and copying overlap with the GPU's work, so each is compared with all of that work."""
    shares = result.bound_fractions
    largest = max(shares, key=lambda name: shares[name])
    if largest not in _HIDDEN or result.bound == largest:
        return MEANING[result.bound].replace("the GPU's", _owner(result))
    own = shares["compute"] + shares["memory"]
    return f"{_owner(result)} own work ({own:.0%}: memory and compute) more than by {_HIDDEN[largest]} ({shares[largest]:.0%})"


def _speed(result: Prediction) -> str:
    """What people count first: tokens of language models, seconds of audio of speech models."""
    samples = f"{_rate(result.samples_per_s)} samples/s"
    rate, unit = result.rate
    if unit == "x realtime":
        return f"{_rate(rate)} times real time, {samples} of {result.audio_s:.3g} s"
    return samples if result.tokens_per_s is None else f"{_rate(rate)} {unit}, {samples}"


def _epochs(result: Prediction) -> list[str]:
    """How long an epoch takes, and all of them."""
    if result.training is None or result.epoch_s is None:
        return []
    each, count = result.epoch_s, result.training.epochs
    low, high = (count * each * end / result.step_s for end in (result.step_low_s, result.step_high_s))
    many = "" if count == 1 else f", {count:g} epochs {_time(count * each)}"
    return [
        f"  epoch      {_time(each)} for {result.training.samples:,.0f} samples{many}   ({_time(low)} to {_time(high)} in total)"
    ]


def _used(result: Prediction) -> str:
    """The fraction of the peak that the step reaches, and in which types; the notes explain how it can exceed the peak."""
    if result.utilisation_fraction is None:
        return ""
    which = "" if result.computes_in == result.precision else f" in {result.computes_in}"
    nominal = " (nominal)" if result.utilisation_fraction > 1 else ""
    return f"{result.utilisation_fraction:.0%} of {_owner(result)} peak{which}{nominal}"


def _owner(result: Prediction) -> str:
    return f"the {'CPU' if result.gpu.is_cpu else 'TPU' if result.gpu.segment == 'tpu' else 'GPU'}'s"


def _types(slow: Prediction, fast: Prediction) -> str:
    """Return the types in which two steps compute, with what distinguishes them."""
    if fast.precision != slow.precision:
        return f"{fast.precision} instead of {slow.precision}"
    if fast.computes_in == slow.computes_in:
        return fast.computes_in
    return f"{fast.precision} ({'its' if slow.computes_in == slow.precision else 'the other'} convolutions in TF32)"


def _cards(result: Prediction, colour: bool) -> str:
    if result.gpu_count == 1:
        return bold(result.gpu.name, colour=colour)
    return "each of " + bold(f"{result.gpu_count}x {result.gpu.name}", colour=colour)


def _range(result: Prediction) -> str:
    """Return what the range means: for CPUs and unmeasured makers it is assumed, with no measurements behind it."""
    ends = f"between {_time(result.step_low_s)} and {_time(result.step_high_s)}"
    return f"80% of measurements fall {ends}" if result.range_basis == "measured" else f"probably {ends}; assumed, not measured"


def sized(result: Prediction) -> str:
    """Return what a step holds, whether that fits, and the share of each category."""
    memory, has = result.memory, result.gpu.usable_memory_bytes + result.gpu.slow_memory_bytes
    verdict = {"yes": "fits", "narrowly": "may fit", "NO": "DOES NOT FIT"}[_fits(result)]
    parts = [
        ("weights", memory.weight_bytes),
        ("gradients", memory.gradient_bytes),
        ("optimizer", memory.optimizer_bytes),
        ("optimizer temporaries", memory.update_bytes),
        ("activations", memory.activation_bytes - memory.update_bytes),
        ("workspace and framework", memory.workspace_bytes + memory.framework_bytes),
    ]
    held = ", ".join(f"{name} {_bytes(value)}" for name, value in parts if value >= _SHOWN)
    return f"{_bytes(memory.total_bytes)} of {_bytes(has)}: {verdict} ({held})"


def _ops(result: Prediction, colour: bool, verbose: bool) -> str:
    total = sum(row.seconds for row in result.by_op) or 1.0
    rows = [row for row in result.by_op if row.seconds >= (0.005 if verbose else _WORTH_A_ROW) * total]
    return table(
        [
            Column(title="  op", cells=[f"  {row.op}" for row in rows], right=False),
            Column(title="calls", cells=[f"{row.count:,}" for row in rows]),
            Column(title="time", cells=[_time(row.seconds) for row in rows]),
            Column(title="share", cells=[f"{row.seconds / total:.0%}" for row in rows]),
            Column(title="limited by", cells=[row.bound for row in rows], right=False),
        ],
        colour=colour,
    )


def _side_by_side(answer: PredictAnswer, width: int | None, colour: bool) -> str:
    results = answer.results
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        *([Column(title="precision", cells=[one.precision for one in results], right=False)] if _differ(results) else []),
        Column(title="batch", cells=[str(result.batch) for result in results], drop=2),
        Column(title="step", cells=[_time(result.step_s) for result in results]),
        Column(
            title="range",
            cells=[format_span(result.step_low_s, result.step_high_s, "s", like=result.step_s) for result in results],
            drop=3,
        ),
        *_tokens(results),
        *_epoch_column(results),
        Column(title="samples/s", cells=[_rate(result.samples_per_s) for result in results], drop=5 if results[0].tokens else 0),
        Column(title="speed", cells=[_against(result, results) for result in results]),
        Column(title="limited by", cells=[result.bound for result in results], right=False),
        Column(title="memory", cells=[_bytes(result.memory.total_bytes) for result in results], drop=4),
        Column(title="fits", cells=[_fits(result) for result in results], right=False, drop=1),
    ]
    many = f" on each of {results[0].gpu_count} GPUs" if results[0].gpu_count > 1 else ""
    shown = table(columns, width=width or WIDTH, colour=colour)
    return f"{_head(answer, results[0], colour)}{many}\n\n{shown}\n\n{wrapped(_why(results), width)}"


def _tokens(results: Sequence[Prediction]) -> list[Column]:
    rates = [(rate, unit) for rate, unit in (result.rate for result in results) if unit in _COUNTED]
    return [Column(title=rates[0][1], cells=[_rate(rate) for rate, _ in rates])] if len(rates) == len(results) else []


def _epoch_column(results: Sequence[Prediction]) -> list[Column]:
    times = [result.epoch_s for result in results if result.epoch_s is not None]
    return [Column(title="epoch", cells=[_time(each) for each in times])] if len(times) == len(results) else []


def _against(result: Prediction, results: Sequence[Prediction]) -> str:
    slowest = min(entry.samples_per_s for entry in results)
    return f"{result.samples_per_s / slowest:.2f}x"


def _why(results: Sequence[Prediction]) -> str:
    """One sentence on why the fastest is faster than the slowest."""
    fast, slow = max(results, key=lambda one: one.samples_per_s), min(results, key=lambda one: one.samples_per_s)
    ratio = fast.samples_per_s / slow.samples_per_s
    if fast.bound in ("launch", "input") and ratio < 1.3:
        is_host = fast.bound == "launch"
        what = "the host cannot launch kernels" if is_host else "the data loader cannot deliver batches"
        remedy = "A larger batch or `--compile`" if is_host else "A faster data loader, with more workers or a faster CPU,"
        return f"The GPUs are almost equally fast, because {what} any faster. {remedy} would show the difference."
    if slow.bound == "launch" and fast.precision == "fp32" != slow.precision:
        return (
            f"{the(fast.gpu.name, first=True)} is {ratio:.1f} times as fast as {the(slow.gpu.name)}, because the host limits "
            f"the step and has to launch more kernels in {slow.precision}. Use `--precision fp32` to compare them in the same "
            "precision."
        )
    bandwidth = fast.gpu.memory_bytes_per_s / slow.gpu.memory_bytes_per_s
    flops = (fast.peak_flops_per_s or 1.0) / (slow.peak_flops_per_s or 1.0)
    waits = {"launch": "the host", "input": "the data loader"}.get(fast.bound)
    held = f" {the(fast.gpu.name, first=True)} is limited by {waits}." if waits else ""
    return (
        f"{the(fast.gpu.name, first=True)} is {ratio:.1f} times as fast as {the(slow.gpu.name)}. It has "
        f"{_multiple(bandwidth, 'the memory bandwidth')} and "
        f"{_multiple(flops, 'the arithmetic throughput')} in {_types(slow, fast)}. On {the(slow.gpu.name)}, the step is "
        f"limited by {_split(slow)}.{held}"
    )


def _multiple(ratio: float, what: str) -> str:
    return f"{ratio:.1f} times {what}" if ratio >= 0.95 else f"{ratio:.0%} of {what}"


def _split(result: Prediction) -> str:
    parts = sorted(((share, name) for name, share in result.bound_fractions.items() if share >= 0.15), reverse=True)
    return " and ".join(f"{name} ({share:.0%})" for share, name in parts)


def _fits(result: Prediction) -> str:
    """It fits narrowly if one such step in ten would need more memory than there is."""
    if not result.fits:
        return "NO"
    has = result.gpu.usable_memory_bytes + result.gpu.slow_memory_bytes
    return "yes" if result.memory.high_bytes <= has else "narrowly"


def _time(seconds: float) -> str:
    return format_si(seconds, "s")


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(value: float) -> str:
    return f"{value / 2**30:,.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
