"""Remedies for a language model that does not fit as requested, each with its memory and speed: fewer bits for cache or
weights, more GPUs, layers on the CPU, fewer users, a shorter context, another GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gpuwise.advise.offers import Offered
from gpuwise.advise.types import Rung
from gpuwise.core.text import the
from gpuwise.core.units import GIB
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.prediction.generation import Serving, fits, generate, generation_memory, least_offloaded, most_users, room_bytes
from gpuwise.prediction.language_memory import HIGH, longest_context, memory_of, with_context
from gpuwise.step.time.engines import Engine, engines, refusal, usual_split, weights_in
from gpuwise.workload.language.weight_formats import FORMATS

__all__ = ["FEWEST_BITS", "LanguageRung", "LanguageWay", "ladder", "remedies", "spread"]

_FORMATS = ("fp8", "int8", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "awq", "int4", "gptq", "nf4")
FEWEST_BITS = ("q3_k_m", "q2_k")  # offered only to those who have 4 bits already
_FEW_BITS = 0.75  # bytes of a weight below which answers may get worse
_CACHES = ("fp8", "q8_0", "int8", "q4_0")
_WORTH = 0.97  # of the memory: what saves less is no remedy
_FASTER = 1.1  # times as fast: less is not worth more GPUs than are needed
_MOST_GPUS = 8
_OFFLOADER = "llama.cpp"  # what people turn to where a model is larger than their GPUs
_OFFLOADED_IN = "q4_k_m"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageWay:
    """A serving on a GPU, with the name of its format as people type it."""

    serving: Serving
    gpu: Gpu
    weights: str

    @property
    def fits(self) -> bool:
        return fits(self.serving, self.gpu)

    @property
    def total_bytes(self) -> float:
        return generation_memory(self.serving).total_bytes

    def changed(self, **serving: object) -> LanguageWay:
        """The same with another serving."""
        return replace(self, serving=replace(self.serving, **serving))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRung(Rung):
    """A remedy for a model that generates text. `batch` and `max_batch` count requests; `host_bytes` are in system memory."""

    tokens_per_s: float
    tokens_per_s_per_user: float
    context: int
    host_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    name: str
    title: str
    effect: str
    how: str
    way: LanguageWay


def remedies(now: LanguageWay, larger: Sequence[Offered] = ()) -> tuple[tuple[LanguageRung, ...], tuple[tuple[str, str], ...]]:
    """Return every remedy alone, and those that do not apply with the reason. `larger` are GPUs that could be used instead."""
    found, refused = list[_Proposal](), list[tuple[str, str]]()
    for name, propose in _REMEDIES:
        proposed = list(propose(now))
        found += proposed
        if not proposed:
            refused.append((name, _why_not(name, now)))
    found += _instead(now, larger)
    rungs = [_rung(now, one) for one in found]
    return tuple(rung for rung in rungs if not (now.fits and rung.effect == "hardware" and not _sooner(rung, now))), tuple(
        refused
    )


def _sooner(rung: LanguageRung, now: LanguageWay) -> bool:
    """Return whether more GPUs than needed make it faster: not if one works at a time."""
    return rung.tokens_per_s > _FASTER * float(generate(now.serving, [now.gpu]).tokens_per_s[0])


def ladder(now: LanguageWay) -> tuple[LanguageRung, ...]:
    """Combine remedies until it fits, the least harmful ones first and with room to spare if possible: a smaller cache, then the
    most bits that fit, then more GPUs, finally layers on the CPU; none if it already fits or never does.
    """
    if now.fits:
        return ()
    formats, caches = _smaller_formats(now), (None, *_smaller_caches(now))
    groups: list[Sequence[_Proposal | None]] = [[None], [one for one in formats if one.name not in FEWEST_BITS]]
    groups += [[one] for one in formats if one.name in FEWEST_BITS]
    for count, group, margin in product((None, *_more_gpus(now, _MOST_GPUS)), groups, (HIGH, 1.0)):
        for cache, weights in product(caches, group):
            taken = _together(now, [step for step in (weights, cache, count) if step], margin)
            if taken:
                return tuple(_rung(now, one) for one in taken)
    moved = next(_on_cpu(now), None)
    return (_rung(now, moved),) if moved is not None and moved.way.fits else ()


def _together(now: LanguageWay, steps: Sequence[_Proposal], margin: float) -> list[_Proposal]:
    """Apply these changes in order, if they fit at the end even with `margin` times the memory."""
    found, way = list[_Proposal](), now
    for step in steps:
        own = step.way.serving
        way = replace(way, weights=step.way.weights if own.weights is not now.serving.weights else way.weights)
        way = way.changed(
            weights=own.weights if own.weights is not now.serving.weights else way.serving.weights,
            cache=own.cache if own.cache != now.serving.cache else way.serving.cache,
            gpu_count=max(own.gpu_count, way.serving.gpu_count),
            split=own.split or way.serving.split,
        )
        found.append(replace(step, way=way))
    return found if way.total_bytes * margin <= room_bytes(way.serving, way.gpu) else []


def _rung(now: LanguageWay, proposal: _Proposal) -> LanguageRung:
    way, serving = proposal.way, proposal.way.serving
    found, before = generate(serving, [way.gpu]), generate(now.serving, [now.gpu])
    each_s = float(found.token_s[0]) * serving.gpu_count / serving.users
    before_s = float(before.token_s[0]) * now.serving.gpu_count / now.serving.users
    return LanguageRung(
        name=proposal.name,
        title=proposal.title,
        effect=proposal.effect,
        how=proposal.how,
        gpu=way.gpu.name,
        gpu_count=serving.gpu_count,
        batch=serving.users,
        memory=memory_of(serving),
        fits=way.fits,
        max_batch=most_users(serving, way.gpu),
        step_s=float(found.decode_s[0]),
        cost=each_s / before_s,
        tokens_per_s=float(found.tokens_per_s[0]),
        tokens_per_s_per_user=1.0 / float(found.token_s[0]),
        context=serving.context,
        host_bytes=generation_memory(serving).host_bytes,
    )


# ---------------------------------------------------------------- each remedy


def _smaller_formats(now: LanguageWay) -> list[_Proposal]:
    """Return formats with fewer bits that the engine runs on this GPU, most bits first; of equivalent ones, the most common. A
    model that was published in a 4-bit type has no smaller file: the experts of gpt-oss keep this type in every GGUF file.
    """
    engine, has, current = now.serving.engine, now.total_bytes, FORMATS[now.weights]
    smallest = current.bytes_a_weight < _FEW_BITS and current.family != "fp4"
    offered = (*_FORMATS, *FEWEST_BITS) if smallest else _FORMATS
    found: dict[str, _Proposal] = {}
    for name in offered:
        form = weights_in(engine, name)
        way = replace(now.changed(weights=form), weights=name)
        runs = name in engine.formats and refusal(engine, now.gpu, name) is None
        if runs and form.name not in found and _saves(way, has) and form.bytes_a_weight < now.serving.weights.bytes_a_weight:
            effect = "numerics" if form.bytes_a_weight >= _FEW_BITS else "quality"
            found[form.name] = _Proposal(
                name=name, title=f"{name} weights", effect=effect, how=_how_weights(engine, name), way=way
            )
    if "int4" in found:
        found.pop("nf4", None)  # as small, and slower
    return sorted(found.values(), key=lambda one: -one.way.total_bytes)


def _how_weights(engine: Engine, name: str) -> str:
    if name.startswith("q"):
        return f"load the model's {name.upper()} file"
    return f"load the model with its weights in {name} into {engine.title}"


def _saves(way: LanguageWay, before_bytes: float) -> bool:
    return way.total_bytes < _WORTH * before_bytes


def _smaller_caches(now: LanguageWay) -> list[_Proposal]:
    """A cache with fewer bits, if the cache is large enough to matter."""
    engine, serving = now.serving.engine, now.serving
    found = []
    for name in _CACHES:
        way = now.changed(cache=name)
        if (
            refusal(engine, now.gpu, "", name) is None
            and DTYPE_BYTES[name] < DTYPE_BYTES[serving.cache]
            and _saves(way, now.total_bytes)
        ):
            found.append(
                _Proposal(
                    name=f"kv-{name}",
                    title=f"{name} keys and values",
                    effect="numerics",
                    how=_how_cache(engine, name),
                    way=way,
                )
            )
    return found[:1]


def _how_cache(engine: Engine, name: str) -> str:
    told = {"vllm": f"--kv-cache-dtype {name}", _OFFLOADER: f"--cache-type-k {name} --cache-type-v {name}"}
    return told.get(engine.measured_as, f"set the {engine.title} cache type to {name}")


def _more_gpus(now: LanguageWay, most: int = 4) -> list[_Proposal]:
    """Twice as many GPUs, and twice that."""
    engine, has = now.serving.engine, now.serving.gpu_count
    if not engine.splits or now.gpu.is_cpu or now.gpu.segment in ("laptop", "soc"):
        return []
    found = []
    for count in (2 * has, 4 * has, 8 * has):
        split = usual_split(engine, now.serving.shape.heads, count)
        if split and count <= min(_MOST_GPUS, most * has) and count <= now.serving.shape.layers:
            name = f"split-{'matrices' if split == 'tensor' else 'layers'}-{count}"
            way = now.changed(gpu_count=count, split=split)
            title, how = f"{spread(split)} over {count} GPUs", _how_many(engine, split, count)
            found.append(_Proposal(name=name, title=title, effect="hardware", how=how, way=way))
    return found


def _how_many(engine: Engine, split: str, count: int) -> str:
    if engine.measured_as == "vllm":
        return f"--{'tensor' if split == 'tensor' else 'pipeline'}-parallel-size {count}"
    return (
        f"{engine.title} spreads layers over all available GPUs" if split == "layers" else f"let {engine.title} use {count} GPUs"
    )


def spread(split: str) -> str:
    """What is divided among several GPUs."""
    return "matrices split" if split == "tensor" else "layers split"


def _on_cpu(now: LanguageWay) -> Iterator[_Proposal]:
    """As few layers as needed on the CPU, in an engine that supports that."""
    if now.fits or now.gpu.is_cpu:
        return
    engine, way, with_it = now.serving.engine, now, ""
    if not engine.offloads:
        engine = engines()[_OFFLOADER]
        few = FORMATS[now.weights].bytes_a_weight <= FORMATS[_OFFLOADED_IN].bytes_a_weight
        name = now.weights if few and now.weights in engine.formats else _OFFLOADED_IN
        if refusal(engine, now.gpu, name) is not None:
            return
        split = engine.splits[0] if now.serving.gpu_count > 1 else ""
        cache = now.serving.cache if now.serving.cache in engine.caches else engine.caches[0]
        way = replace(now.changed(engine=engine, weights=weights_in(engine, name), split=split, cache=cache), weights=name)
        with_it = f"{engine.title}, {name}, "
    fraction = least_offloaded(way.serving, way.gpu)
    if fraction is None:
        return
    way, layers = way.changed(offloaded=fraction), way.serving.shape.layers
    moved = round(fraction * layers)
    where = f"{moved} of {layers} layers on the CPU" if moved else "all layers on the GPU"
    host = generation_memory(way.serving).host_bytes / GIB
    needs = f"; needs {host:.1f} GiB of system memory" if moved else ""
    effect = "same" if way.weights == now.weights else "quality"
    yield _Proposal(name="cpu-layers", title=f"{with_it}{where}", effect=effect, how=f"-ngl {layers - moved}{needs}", way=way)


def _fewer_users(now: LanguageWay) -> Iterator[_Proposal]:
    users = 0 if now.fits else most_users(now.serving, now.gpu)
    if 0 < users < now.serving.users:
        title = f"{users:,} user{'' if users == 1 else 's'} at a time"
        yield _Proposal(name="fewer-users", title=title, effect="task", how=f"--users {users}", way=now.changed(users=users))


def _shorter_context(now: LanguageWay) -> Iterator[_Proposal]:
    longest = 0 if now.fits else longest_context(now.serving, now.gpu)
    if 0 < longest < now.serving.context:
        way = replace(now, serving=with_context(now.serving, longest))
        how = f"--context {longest}"
        yield _Proposal(name="shorter-context", title=f"contexts of {longest:,} tokens", effect="task", how=how, way=way)


def _instead(now: LanguageWay, larger: Sequence[Offered]) -> list[_Proposal]:
    """The cheapest GPU to buy that holds it as it is, and the cheapest to rent."""
    if now.fits:
        return []
    able = [one for one in larger if refusal(now.serving.engine, one.gpu, now.weights) is None]
    able = [one for one in able if replace(now, gpu=one.gpu).fits]
    bought = min((one for one in able if one.price), key=lambda one: one.price.usd if one.price else 0.0, default=None)
    hired = min((one for one in able if one.rent), key=lambda one: one.rent.usd_per_gpu_hour if one.rent else 0.0, default=None)
    found = []
    for one, terms in (
        (bought, f"${bought.price.usd:,.0f}" if bought and bought.price else ""),
        (hired, f"rented at ${hired.rent.usd_per_gpu_hour:.2f}/h" if hired and hired.rent else ""),
    ):
        if one is not None:
            number = f"{now.serving.gpu_count}x " if now.serving.gpu_count > 1 else ""
            each = " each" if number else ""
            title = f"{number}{one.gpu.name} instead ({terms}{each})"
            found.append(_Proposal(name="bigger-gpu", title=title, effect="hardware", how=terms, way=replace(now, gpu=one.gpu)))
    return found


_REMEDIES: tuple[tuple[str, Callable[[LanguageWay], Sequence[_Proposal] | Iterator[_Proposal]]], ...] = (
    ("smaller-cache", _smaller_caches),
    ("smaller-weights", _smaller_formats),
    ("more-gpus", _more_gpus),
    ("cpu-layers", _on_cpu),
    ("fewer-users", _fewer_users),
    ("shorter-context", _shorter_context),
)


def _why_not(name: str, now: LanguageWay) -> str:
    engine = now.serving.engine
    if name in ("cpu-layers", "fewer-users", "shorter-context") and now.fits:
        return "the model fits without changes"
    return {
        "smaller-weights": f"{engine.title} does not support a smaller format on {the(now.gpu.name)}",
        "smaller-cache": f"{engine.title} has no smaller cache type, or a smaller one would save too little",
        "more-gpus": f"{engine.title} cannot split the model over more GPUs",
        "cpu-layers": "moving layers to the CPU does not free enough memory",
        "fewer-users": "not even one request fits",
        "shorter-context": "the weights alone do not fit",
    }[name]
