"""Compares language models that generate text by their tokens per second."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import both, the
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import usable_bytes
from gpuwise.questions.common.language.answer import LanguageAnswer, LanguagePrediction, predict_text
from gpuwise.questions.common.language.ask import asked_for_text
from gpuwise.questions.common.language.bounds import check_text_bounds
from gpuwise.questions.common.language.groups import describe_groups, groupings
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.peaks import peak_in
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.rigs import Rig, Throughput
from gpuwise.questions.compare.options import CompareOptions
from gpuwise.step.time.engines import engine_range, find_engine, measured_gpus

__all__ = [
    "TEXT_OPTIONS",
    "check_text",
    "describe_divided",
    "describe_layers",
    "describe_rates",
    "describe_unmeasured",
    "explain_text_ratio",
    "in_one_engine",
    "offloaded",
    "text_options",
    "text_ratio_width",
    "text_throughput",
]

_WIDER = 1.5  # times as wide on a log scale: a ratio with a GPU of a maker that the engine was hardly measured on, assumed
TEXT_OPTIONS = ("weights", "kv", "engine", "users", "prompt", "output", "context")


def text_options(model: str, options: CompareOptions, gpu: Gpu) -> LanguageOptions | None:
    """Return the options for a model that generates text, as `predict` would take them; None if a step is requested."""
    check_text_bounds(options)
    asked = LanguageOptions(
        model,
        mode=options.mode,
        precision=options.precision,
        batch=options.batch,
        stack=options.stack,
        cpu=options.cpu,
        **{name: getattr(options, name) for name in TEXT_OPTIONS},
    )
    return asked if asked_for_text(asked, gpus=[gpu]) is not None else None


def check_text(rigs: Iterable[Rig], asked: LanguageOptions) -> None:
    """Refuse what some of these GPUs cannot generate: alone, or all GPUs of a set together."""
    for rig in rigs:
        for gpu, _ in rig.parts:
            for count in {1, rig.count}:
                asked_for_text(asked, gpus=[gpu], gpu_count=count)


def text_throughput(rig: Rig, asked: LanguageOptions) -> Throughput:
    """Tokens a second of these GPUs: with one model over all of them, or in groups if those serve the users faster; and with one
    model on each.
    """
    alone = [_ask(asked, gpu) for gpu, _ in rig.parts]
    separate = sum(count * _rate(answer) for answer, (_, count) in zip(alone, rig.parts, strict=True))
    together = alone if rig.count == 1 else [_ask(asked, gpu, rig.count, rig.link) for gpu, _ in rig.parts]
    slowest = min(together, key=lambda answer: (answer.results[0].fits, _rate(answer)))
    groups, rate, slowest = _in_groups(rig, asked, slowest)
    told = slowest.results[0]
    told = replace(told, peak_flops_per_s=peak_in(told.gpu, told.precision))  # what a reason may compare
    return Throughput(
        together_per_s=rate,
        separate_per_s=separate,
        slowest=told,
        answers=tuple(together),
        groups=groups,
        separate_fits=all(answer.results[0].fits and (rig.count == 1 or not offloaded(answer.results[0])) for answer in alone),
    )


def _in_groups(rig: Rig, asked: LanguageOptions, whole: LanguageAnswer) -> tuple[int, float, LanguageAnswer]:
    """Return how many groups of these GPUs serve the users fastest, their tokens per second, and the answer for one group."""
    best = (1, _rate(whole), whole)
    query = asked_for_text(asked, gpus=[rig.gpu], gpu_count=rig.count, link=rig.link) if len(rig.parts) == 1 else None
    for groups, part in groupings(query) if query is not None else ():
        answer = predict_text(part)
        told = answer.results[0]
        rate = _rate(answer) * (query.serving.users if query else 1) / part.serving.users
        if told.fits and not offloaded(told) and (rate > best[1] or not best[2].results[0].fits):
            best = (groups, rate, answer)
    return best


def describe_divided(found: Iterable[Throughput], rigs: Sequence[Rig], users: int) -> list[str]:
    """How sets are divided that serve their users fastest in groups."""
    sets = [
        f"{rig.name} as {describe_groups(rig.count, told.groups, users)}"
        for rig, told in zip(rigs, found, strict=True)
        if told.groups > 1
    ]
    return [f"the GPUs generate the most text in groups that each hold the whole model: {both(sets)}"] if sets else []


def in_one_engine(asked: LanguageOptions, gpus: Sequence[Gpu]) -> tuple[LanguageOptions, list[Assumption]]:
    """Return the same in an engine that runs on all of these GPUs, if each alone would get a different one: the ratio of two
    engines says little about GPUs. Unchanged if no engine runs on all of them.
    """
    alone = [asked_for_text(asked, gpus=[gpu]) for gpu in gpus]
    if len({query.serving.engine.name for query in alone if query is not None}) < 2:
        return asked, []
    try:
        shared = asked_for_text(asked, gpus=gpus)
    except BadValue:
        return asked, []
    if shared is None:
        return asked, []
    engine, weights = shared.serving.engine, shared.format_name
    notes = [assumed("engine", engine.title, "runs on all of these GPUs, so the comparison is fair; change it with `--engine`")]
    return replace(asked, engine=engine.name, weights=weights), notes


def _ask(asked: LanguageOptions, gpu: Gpu, count: int = 1, link: str = "") -> LanguageAnswer:
    query = asked_for_text(asked, gpus=[gpu], gpu_count=count, link=link)
    if query is None:
        raise BadValue(f"{asked.model} is not set to generate text", hint="use `--mode infer`")
    return predict_text(query)


def _rate(answer: LanguageAnswer) -> float:
    told = answer.results[0]
    return told.generation.tokens_per_s if isinstance(told, LanguagePrediction) else told.samples_per_s


def explain_text_ratio(base: Prediction, other: Prediction) -> str:
    """Return why one set is faster if layers of one run on the CPU, which outweighs everything else, or on which set the model
    does not fit; empty if neither is so."""
    short = [told for told in (base, other) if not told.fits]
    if short and all(isinstance(told, LanguagePrediction) for told in short):
        return _describe_misfit([told for told in short if isinstance(told, LanguagePrediction)])
    found = [
        f"{offloaded(told):.0%} of the {_parts(told)} run on the CPU with {the(told.gpu.name)}"
        for told in (base, other)
        if offloaded(told)
    ]
    return " and ".join(found)


def _describe_misfit(short: Sequence[LanguagePrediction]) -> str:
    """Return what is needed, how much of the memory the engine may use, and how many users would fit."""
    where = "either GPU" if len(short) == 2 else the(short[0].gpu.name)
    each = " on each GPU" if any(told.gpu_count > 1 for told in short) else ""
    needs = both(dict.fromkeys(f"{told.memory.total_bytes / GIB:.1f} GiB" for told in short))
    engines = both(dict.fromkeys(find_engine(told.generation.engine).title for told in short))
    rooms = _on_each([(told, _usable(told)) for told in short])
    users = [(told, told.generation.users_fit) for told in short if 0 < told.generation.users_fit < told.generation.users]
    fitting = _on_each([(told, f"{most:,} user{'' if most == 1 else 's'}") for told, most in users])
    room = f"; there is room for {fitting} at a time" if fitting else ""
    return f"does not fit on {where}: needs {needs}{each}, but {engines} may use only {rooms}{room}"


def _usable(told: LanguagePrediction) -> str:
    """`71.7 of 79.6 GiB`: what the engine leaves is not for the model."""
    usable, whole = usable_bytes(find_engine(told.generation.engine), told.gpu) / GIB, told.gpu.usable_memory_bytes / GIB
    return f"{usable:.1f} of {whole:.1f} GiB" if f"{usable:.1f}" != f"{whole:.1f}" else f"{whole:.1f} GiB"


def _on_each(values: Sequence[tuple[LanguagePrediction, str]]) -> str:
    """The value of each GPU; without the names where they share it."""
    alike = len({value for _, value in values}) == 1
    return values[0][1] if alike else both(f"{value} on {the(told.gpu.name)}" for told, value in values)


def describe_layers(found: Iterable[Throughput], rigs: Sequence[Rig]) -> list[str]:
    """Sets whose engine gives each GPU whole layers, so that only one works at a time, and an engine that uses all at once."""
    lines = []
    for rig, told in zip(rigs, (each.slowest for each in found), strict=True):
        if (
            rig.count > 1
            and isinstance(told, LanguagePrediction)
            and told.generation.split == "layers"
            and told.gpu.vendor == "NVIDIA"
        ):
            title = find_engine(told.generation.engine).title
            lines.append(
                f"{title} runs the GPUs of {rig.name} one after another; "
                "an engine that splits matrices, as with `--engine vllm --weights int4`, uses all of them at once"
            )
    return lines


def describe_rates(found: Iterable[Throughput], rigs: Sequence[Rig]) -> list[str]:
    """Return how many tokens per second each set generates: a ratio does not tell whether that is enough."""
    rates = [
        f"{told.together_per_s:,.{0 if told.together_per_s >= 100 else 1}f} tokens/s on {the(rig.name)}"
        for rig, told in zip(rigs, found, strict=True)
        if told.fits and isinstance(told.slowest, LanguagePrediction)
    ]
    return [f"predicted speed: {both(rates)}"] if rates else []


def _parts(told: Prediction) -> str:
    """What can run on the CPU."""
    return "experts" if isinstance(told, LanguagePrediction) and told.generation.offloads_experts else "layers"


def describe_unmeasured(found: Iterable[Throughput]) -> str:
    """Return which of these GPUs its engine was hardly measured on; empty if there is none."""
    for told in (each.slowest for each in found):
        same = _hardly_measured(told)
        if same is not None and isinstance(told, LanguagePrediction):
            maker = told.gpu.vendor
            seen = f"the {same} is the only {maker} GPU that was measured" if same else f"no {maker} GPU was measured"
            return f"{seen} with {find_engine(told.generation.engine).title}"
    return ""


def _hardly_measured(told: Prediction) -> str | None:
    """The one GPU of this one's maker that its engine was measured on, or an empty text for none; None where there are more, or
    where the GPU itself was measured."""
    if not isinstance(told, LanguagePrediction) or told.gpu.vendor == "NVIDIA":
        return None
    measured = sorted(measured_gpus(find_engine(told.generation.engine)))
    same = [name for name in measured if load_catalog().find(name).gpu.vendor == told.gpu.vendor]
    return None if told.gpu.name in same or len(same) > 1 else "".join(same)


def offloaded(told: Prediction) -> float:
    """The fraction of the layers that run on the CPU, because not all fit on the GPU."""
    return told.generation.offloaded_fraction if isinstance(told, LanguagePrediction) else 0.0


def text_ratio_width(base: Prediction, told: LanguagePrediction) -> float:
    """Return how far a ratio of two GPUs may be off, assumed: as far as one GPU on which the engine was not measured. Shared
    errors cancel; individual ones add up.
    """
    low, high, _ = engine_range(find_engine(told.generation.engine), "decode")
    unsure = base.gpu.name != told.gpu.name and any(_hardly_measured(one) is not None for one in (base, told))
    return math.pow(high / low, 0.5 * (_WIDER if unsure else 1.0))
