"""How fast does a language model generate text on a GPU? Answers in tokens, with the underlying step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import a, either, the
from gpuwise.core.units import GIB, format_si
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import (
    Generations,
    Serving,
    fits,
    generate,
    generation_memory,
    host_memory_bytes,
    least_offloaded,
    most_users,
    room_bytes,
)
from gpuwise.prediction.language_memory import memory_of
from gpuwise.prediction.steps import Steps
from gpuwise.questions.common.fit_command import fit_command
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.common.language.groups import describe_groups, groupings
from gpuwise.questions.common.prediction_types import OpShare, PredictAnswer, Prediction
from gpuwise.step.time.engines import engines, refusal, usual_split, weights_in
from gpuwise.step.types import BOUNDS

__all__ = [
    "Generated",
    "LanguageAnswer",
    "LanguagePrediction",
    "generated",
    "offloaded_layers",
    "placed",
    "predict_text",
    "predicted",
]


_OFFLOADS = "llama.cpp"  # the usual engine for models that do not fit
_CLEARLY_MORE = 1.1  # times the tokens: less is not worth a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What a user of the model notices. Times have the ends of a range that contains 8 of 10 measurements; `users_fit` is how
    many requests fit in memory at once, of which the engine may use `usable_memory_bytes`; `offloaded_fraction` of the layers, or
    of the experts (`offloads_experts`), run on the CPU if not all fit.
    """

    engine: str
    weights: str
    kv: str
    users: int
    prompt: int
    output: int
    split: str
    tokens_per_s: float
    tokens_per_s_low: float
    tokens_per_s_high: float
    tokens_per_s_per_user: float
    time_per_token_s: float
    time_to_first_token_s: float
    time_to_first_token_low_s: float
    time_to_first_token_high_s: float
    prompt_tokens_per_s: float
    request_s: float
    users_fit: int
    usable_memory_bytes: float
    offloaded_fraction: float
    offloads_experts: bool
    host_bytes: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePrediction(Prediction):
    """A decoding step, and what it means for the user who waits for the text."""

    generation: Generated

    @property
    def rate(self) -> tuple[float, str]:
        return self.generation.tokens_per_s, "tokens/s"

    def to_dict(self) -> dict[str, Any]:
        """The keys of `predict`, with the values for text generation added."""
        told = self.generation
        return {
            **Prediction.to_dict(self),
            "tokens_per_s": told.tokens_per_s,
            "time_per_token_s": told.time_per_token_s,
            "ttft_s": told.time_to_first_token_s,
            "generation": told.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageAnswer(PredictAnswer):
    """The same model on each GPU."""

    TEXT = "questions.predict.generation_text.render"


def predict_text(query: LanguageQuery) -> LanguageAnswer:
    """Text from the model on each GPU of the question."""
    results = tuple(_prediction(query, gpu) for gpu in query.gpus)
    return LanguageAnswer(
        model=query.serving.shape.name if query.model.endswith((".json", ".gguf")) else query.model,
        results=results,
        assumptions=query.assumptions,
        notes=_notes(query, results),
        data_date=tables.data_date(),
    )


def placed(serving: Serving, gpu: Gpu) -> Serving:
    """Return the serving as it runs on this GPU: with layers on the CPU if not all fit and the engine supports that."""
    if fits(serving, gpu) or not serving.engine.offloads or gpu.is_cpu:
        return serving
    fraction = least_offloaded(serving, gpu)
    return serving if not fraction else replace(serving, offloaded=fraction)


def generated(serving: Serving, gpus: Sequence[Gpu]) -> list[Generated]:
    """The speed that users see on each of these GPUs, with the serving unchanged."""
    found = generate(serving, gpus)
    return [_generated(found, place, gpu) for place, gpu in enumerate(gpus)]


def _generated(found: Generations, place: int, gpu: Gpu) -> Generated:
    serving = found.serving
    token_s, first_s = float(found.token_s[place]), float(found.first_token_s[place])
    low, high = found.decode.widths.low[found.point, place], found.decode.widths.high[found.point, place]
    soon, late = found.prefill.widths.low[0, place], found.prefill.widths.high[0, place]
    rate = float(found.tokens_per_s[place])
    return Generated(
        engine=serving.engine.name,
        weights=serving.weights.name,
        kv=serving.cache,
        users=serving.users,
        prompt=serving.prompt,
        output=serving.output,
        split=serving.split,
        tokens_per_s=rate,
        tokens_per_s_low=rate / float(high),
        tokens_per_s_high=rate / float(low),
        tokens_per_s_per_user=1.0 / token_s,
        time_per_token_s=token_s,
        time_to_first_token_s=first_s,
        time_to_first_token_low_s=first_s * float(soon),
        time_to_first_token_high_s=first_s * float(late),
        prompt_tokens_per_s=serving.prompt / float(found.prefill_s[place]),
        request_s=first_s + serving.output * token_s,
        users_fit=most_users(serving, gpu),
        usable_memory_bytes=room_bytes(serving, gpu),
        offloaded_fraction=serving.offloaded,
        offloads_experts=bool(serving.offloaded and serving.shape.experts),
        host_bytes=generation_memory(serving).host_bytes,
    )


def _prediction(query: LanguageQuery, gpu: Gpu) -> LanguagePrediction:
    return predicted(query, generate(placed(query.serving, gpu), [gpu], by_kind=True), gpu)


def predicted(query: LanguageQuery, found: Generations, gpu: Gpu) -> LanguagePrediction:
    """The result for a single GPU, with the keys of `predict`."""
    serving, point = found.serving, found.point
    said = _generated(found, 0, gpu)
    steps, memory = found.decode, memory_of(serving)
    seconds = float(found.decode_s[0])
    scale = seconds / float(steps.step_s[point, 0])
    return LanguagePrediction(
        gpu=gpu,
        gpu_count=serving.gpu_count,
        mode="infer",
        precision=steps.workload.precision,
        batch=serving.users,
        seq=serving.mean_context,
        step_s=seconds,
        step_low_s=float(steps.low_s[point, 0]) * scale,
        step_high_s=float(steps.high_s[point, 0]) * scale,
        range_basis="measured" if steps.widths.rows[point, 0] else "assumed",
        bound=steps.bound_name(point) if not serving.offloaded else "copy",
        bound_fractions={name: float(steps.bound_fractions[name][point, 0]) for name in BOUNDS},
        lanes_s={name: float(lane[point, 0]) for name, lane in steps.last.lanes.items()},
        memory=memory,
        fits=memory.total_bytes <= room_bytes(serving, gpu),
        coverage_fraction=1.0,
        utilisation_fraction=None,
        peak_flops_per_s=None,
        computes_in=steps.workload.precision,
        by_op=_by_op(steps, point),
        assumptions=(*query.assumptions, *_own_notes(serving, gpu)),
        generation=replace(said, weights=query.format_name),
    )


def _own_notes(serving: Serving, gpu: Gpu) -> tuple[Assumption, ...]:
    if not serving.offloaded:
        return ()
    value = f"{offloaded_layers(serving)} on the CPU"
    ram = host_memory_bytes(serving.host, gpu, generation_memory(serving).total_bytes) / GIB
    rate = format_si(serving.host.memory_bytes_per_s, "B/s")
    machine = f"{a(f'{serving.host.name} CPU')} with {ram:.0f} GiB of system memory at {rate}"
    effect = (
        f"not all layers fit in GPU memory; this assumes {machine}; set the speed of your memory with `--ram-speed DDR5-6000`"
    )
    return (assumed(f"{gpu.name} offload", value, effect, code="offload"),)


def offloaded_layers(serving: Serving) -> str:
    """Return what runs on the CPU, in words: layers or, for a mixture of experts, the experts of layers."""
    shape = serving.shape
    if shape.experts:
        return f"the experts of {round(serving.offloaded * shape.routed_layers)} of {shape.routed_layers} layers"
    return f"{round(serving.offloaded * shape.layers)} of {shape.layers} layers"


def _notes(query: LanguageQuery, results: Sequence[LanguagePrediction]) -> tuple[str, ...]:
    short = [result.gpu for result in results if not result.fits]
    if not short:
        return _groups_note(query, results[0]) if len(results) == 1 else ()
    names = either(the(gpu.name) for gpu in short)
    if query.serving.shares:
        return (f"the model does not fit on {names}; weights in fewer bits, such as `--weights q4_k_m`, need less memory",)
    fix = f"the model does not fit on {names}; to see what would make it fit, run `{_fit_command(query, short)}`"
    return (*_offload_note(query, short[0]), fix) if len(results) == 1 else (fix,)


def _groups_note(query: LanguageQuery, whole: LanguagePrediction) -> tuple[str, ...]:
    """Return how many tokens the same GPUs generate for the same users in groups, if that is clearly more."""
    found = []
    for groups, part in groupings(query):
        if fits(part.serving, whole.gpu):
            each = generated(part.serving, [whole.gpu])[0].tokens_per_s
            found.append((each * query.serving.users / part.serving.users, groups))
    rate, groups = max(found, default=(0.0, 1))
    if rate < _CLEARLY_MORE * whole.generation.tokens_per_s:
        return ()
    divided = describe_groups(query.serving.gpu_count, groups, query.serving.users)
    return (f"{divided}, each with the whole model, would generate {rate:,.0f} tokens/s in total",)


def _offload_note(query: LanguageQuery, gpu: Gpu) -> tuple[str, ...]:
    """Return how fast the model is with some layers on the CPU, in an engine that supports that."""
    engine = engines()[_OFFLOADS]
    if query.serving.engine.offloads or refusal(engine, gpu, query.format_name) is not None:
        return ()
    count = query.serving.gpu_count
    split = usual_split(engine, query.serving.shape.heads, count) if count > 1 else ""
    weights = weights_in(engine, query.serving.weights.name)
    serving = placed(replace(query.serving, engine=engine, weights=weights, split=split, cache="fp16"), gpu)
    if not serving.offloaded:
        return ()
    layers = offloaded_layers(serving)
    speed = generated(serving, [gpu])[0].tokens_per_s
    return (f"with `--engine {_OFFLOADS}`, the model runs at {speed:.3g} tokens/s, with {layers} on the CPU",)


def _fit_command(query: LanguageQuery, short: Sequence[Gpu]) -> str:
    """The same question, put to `fit`."""
    serving = query.serving
    return fit_command(
        query.model,
        short,
        gpus=serving.gpu_count if serving.gpu_count > 1 else None,
        weights=query.format_name,
        kv=serving.cache if serving.cache != "fp16" else None,
        engine=serving.engine.name,
        users=serving.users if serving.users > 1 else None,
        prompt=serving.prompt,
        output=serving.output,
    )


def _by_op(steps: Steps, point: int) -> tuple[OpShare, ...]:
    rows = [
        OpShare(
            op=entry.kind,
            count=entry.count,
            seconds=float(entry.seconds[point, 0]),
            bound="compute" if entry.compute_s[point, 0] > 0.5 * entry.seconds[point, 0] else "memory",
            flops=float(np.ravel(entry.flops)[point]),
            moved_bytes=float(np.ravel(entry.moved_bytes)[point]),
        )
        for entry in steps.last.classes
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))
