"""Text from a language model: how fast tokens come, how long the first one takes, and what memory holds.

  prefill   one pass over the prompt of a request
  decode    one pass for the next token of every request in flight
× users     with continuous batching, prompts of new requests are read between the steps of those in flight

Passes are steps like any others (`steps.py`), run by an engine in the place of a framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from gpuwise.core.units import GIB
from gpuwise.engine.run import Run
from gpuwise.engine.steps import Steps, link_bytes_per_s, predict_steps
from gpuwise.engine.ways import SYSTEM_FRACTION, room_of
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu, Host
from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.step.memory.generation import (
    GenerationMemory,
    block_bytes,
    held_memory,
    moved_bytes,
    read_block_bytes,
    read_expert_bytes,
)
from gpuwise.step.time.engines import Engine, engine_stack, prompt_gain
from gpuwise.step.types import Array, Setting
from gpuwise.workload.language.build import generation_pass
from gpuwise.workload.language.formats import Format
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.share import split

__all__ = [
    "GenerationMemory",
    "Generations",
    "Serving",
    "curve",
    "fits",
    "generate",
    "generation_memory",
    "host_memory_bytes",
    "least_offloaded",
    "mixed",
    "most_users",
    "room_bytes",
    "unread_fraction",
    "usable_bytes",
    "verified_s",
]

_HOST_FLOPS_A_CORE = 5e10  # a second, by a core with AVX2 on packed weights, assumed
_HOST_GIB = ((16, 64.0), (10**6, 512.0))  # memory of a host with up to so many cores, assumed
_HOST_REACHES = 0.7  # of its memory bandwidth, by layers that run on the CPU, assumed
_MOST_USERS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How text is generated: `users` requests at once, each with a prompt of `prompt` tokens and an answer of `output`.

    Several GPUs hold whole layers each (`layers`: one works at a time) or a part of every matrix (`tensor`). `offloaded` is the
    fraction of the layers that run on the CPU, or of the experts of a mixture. GPUs of several kinds have `shares` of the layers,
    of which the one that fills its GPU most is the `largest_share`.
    """

    shape: LanguageShape
    engine: Engine
    weights: Format
    host: Host
    cache: str = "fp16"
    users: int = 1
    prompt: int = 512
    output: int = 256
    gpu_count: int = 1
    split: str = ""
    gpu_link: str = ""
    offloaded: float = 0.0
    power_limit_watts: float | None = None
    shares: tuple[tuple[Gpu, float], ...] = ()
    largest_share: float = 0.0

    @property
    def context(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt + self.output

    @property
    def mean_context(self) -> int:
        """Tokens that the next one looks back on, in the mean."""
        return max(1, self.prompt + self.output // 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Generations:
    """The same serving on each of some GPUs; arrays have a place for each. `decode` and `prefill` are the passes on the GPU; of
    several numbers of users in `decode`, this is the one at `point`. `unread` is the fraction of a prompt's time that is left
    where the beginning of it is in the cache already."""

    serving: Serving
    gpus: tuple[Gpu, ...]
    decode: Steps
    prefill: Steps
    point: int = 0
    unread: Array | float = 1.0

    @cached_property
    def decode_s(self) -> Array:
        """One step of all requests in flight, without what interrupts it."""
        serving = self.serving
        found: Array = self._whole(self.decode.step_s[self.point]) * (1.0 - serving.offloaded * self._moved_fraction)
        return found + self._host_s + self._hops_s

    @cached_property
    def prefill_s(self) -> Array:
        """Reading one prompt."""
        serving = self.serving
        seconds: Array = self._whole(self.prefill.step_s[0]) * self.unread
        if serving.split == "layers" and serving.gpu_count > 1:
            seconds = seconds / prompt_gain(serving.engine, serving.prompt, serving.gpu_count)
        if serving.offloaded:
            moved = serving.offloaded * moved_bytes(serving.shape, serving.weights)
            seconds = np.maximum(seconds, np.array([moved / link_bytes_per_s(gpu) for gpu in self.gpus]))
        return seconds + self._hops_s

    def _whole(self, seconds: Array) -> Array:
        """A pass: on each GPU by itself, or through the layers that each of several kinds has."""
        shares = self.serving.shares
        return np.array([sum(part * taken for (_, part), taken in zip(shares, seconds, strict=True))]) if shares else seconds

    @cached_property
    def _moved_fraction(self) -> float:
        """Of a step's time on the GPU, what goes to the CPU where everything that can go does: of experts, by the bytes read."""
        serving, shape = self.serving, self.serving.shape
        if not shape.experts:
            return 1.0
        read = read_block_bytes(shape, serving.weights, serving.users)
        return read_expert_bytes(shape, serving.weights, serving.users) / read

    @cached_property
    def _hops_s(self) -> float:
        """What layers on several GPUs hand on over a link that was named, one GPU after the other."""
        serving = self.serving
        if serving.split != "layers" or not serving.gpu_link:
            return 0.0
        link = find_link(serving.gpu_link)
        handed = serving.users * serving.shape.hidden * DTYPE_BYTES["fp32"]
        each = link.latency_s + handed / (link.bytes_per_s_one_way * link.achieved_fraction)
        return (serving.gpu_count - 1) * each

    @cached_property
    def _host_s(self) -> float:
        """What runs on the CPU adds to a step: its memory is read for weights and caches, and its cores multiply."""
        serving, shape = self.serving, self.serving.shape
        if not serving.offloaded:
            return 0.0
        if shape.experts:
            read = read_expert_bytes(shape, serving.weights, serving.users)
            flops = 2.0 * shape.routed_layers * shape.chosen * shape.expert_weights * serving.users
        else:
            cached = shape.cached_tokens(serving.mean_context) * shape.cache_elements * DTYPE_BYTES[serving.cache]
            read = block_bytes(shape, serving.weights) + cached * serving.users
            flops = 2.0 * shape.active_block_weights * serving.users
        moving = read / (serving.host.memory_bytes_per_s * _HOST_REACHES)
        return serving.offloaded * max(moving, flops / (serving.host.core_count * _HOST_FLOPS_A_CORE))

    @cached_property
    def token_s(self) -> Array:
        """Between two tokens of one user: a step, and the prompts of others that are read meanwhile."""
        serving = self.serving
        if serving.engine.batching != "continuous" or not serving.output:
            return self.decode_s
        return self.decode_s + (serving.users - 1) * self.prefill_s / serving.output

    @cached_property
    def tokens_per_s(self) -> Array:
        """Of all users together."""
        return self.serving.users / self.token_s

    @cached_property
    def first_token_s(self) -> Array:
        """From a request to its first token: its prompt is read after the step that runs, or with all others at once."""
        serving = self.serving
        if serving.engine.batching == "continuous":
            return self.prefill_s + (self.decode_s if serving.users > 1 else 0.0)
        return self.prefill_s * serving.users

    def ends(self, seconds: Array, steps: Steps) -> tuple[Array, Array]:
        """The ends of the range of a time that these steps make up."""
        return seconds * steps.widths.low[0], seconds * steps.widths.high[0]


def generate(serving: Serving, gpus: Sequence[Gpu], *, by_kind: bool = False) -> Generations:
    """Text generated on each of these GPUs, or on `gpu_count` of each."""
    each = _each(serving, gpus)
    decode = _passes(serving, "decode", each, [serving.users], serving.mean_context, by_kind)
    prefill = _passes(serving, "prefill", each, [1], max(1, serving.prompt), by_kind)
    return Generations(serving=serving, gpus=tuple(gpus), decode=decode, prefill=prefill)


def curve(serving: Serving, gpus: Sequence[Gpu], users: Sequence[int], *, by_kind: bool = False) -> tuple[Generations, ...]:
    """The same serving with each of these numbers of users, all priced in one pass."""
    each = _each(serving, gpus)
    decode = _passes(serving, "decode", each, users, serving.mean_context, by_kind)
    prefill = _passes(serving, "prefill", each, [1], max(1, serving.prompt), by_kind)
    return tuple(
        Generations(serving=replace(serving, users=count), gpus=tuple(gpus), decode=decode, prefill=prefill, point=point)
        for point, count in enumerate(users)
    )


def _each(serving: Serving, gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """The GPUs that passes are priced on: those of a set of several kinds, where there is one."""
    return [gpu for gpu, _ in serving.shares] or gpus


def mixed(serving: Serving, cards: Sequence[Gpu], name: str) -> tuple[Serving, Gpu]:
    """The serving with its layers divided over these cards by their memory, and the set as one GPU: the card whose part of the
    layers leaves it the least room, under the name of all. llama.cpp divides layers so unless told otherwise."""
    rooms = [usable_bytes(serving.engine, gpu) for gpu in cards]
    layers = _divided(serving.shape.layers, rooms)
    shares = [count / serving.shape.layers for count in layers]
    held = [
        generation_memory(replace(serving, gpu_count=len(cards), split="layers", largest_share=max(part, 1e-9))).total_bytes
        for part in shares
    ]
    fullest = max(range(len(cards)), key=lambda place: held[place] / rooms[place])
    found = replace(
        serving,
        gpu_count=len(cards),
        split="layers",
        shares=tuple(zip(cards, shares, strict=True)),
        largest_share=shares[fullest],
    )
    return found, replace(cards[fullest], name=name, aliases=())


def _divided(layers: int, rooms: Sequence[float]) -> list[int]:
    """Whole layers by room, those left over to where most is missing.

    >>> _divided(80, [24.0, 12.0]), _divided(3, [1.0, 1.0])
    ([53, 27], [2, 1])
    """
    exact = [layers * room / sum(rooms) for room in rooms]
    found = [int(value) for value in exact]
    order = sorted(range(len(rooms)), key=lambda place: found[place] - exact[place])
    for place in order[: layers - sum(found)]:
        found[place] += 1
    return found


def unread_fraction(serving: Serving, gpus: Sequence[Gpu], cached: float) -> Array:
    """Of the time that a whole prompt takes, what is left where this fraction of it is in the cache already.

    The rest looks back on all of it, so it takes what the whole takes more than the beginning, and never less than alone."""
    whole = max(1, serving.prompt)
    rest = max(1, whole - int(whole * cached))
    if rest == whole:
        return np.ones(len(gpus))
    all_s, begun_s, rest_s = (
        _passes(serving, "prefill", gpus, [1], tokens, False).step_s[0] for tokens in (whole, max(1, whole - rest), rest)
    )
    return np.asarray(np.minimum(1.0, np.maximum(rest_s, all_s - begun_s) / all_s))


def verified_s(serving: Serving, gpus: Sequence[Gpu], users: Sequence[int], drafted: int) -> Array:
    """A step that checks so many drafted tokens of every user and adds one, by users and GPUs.

    Its products have a row for each of these tokens; attention reads the cache of a user once for all of them."""
    one, many = (
        _passes(serving, "decode", gpus, [count * tokens for count in users], serving.mean_context, True)
        for tokens in (1, drafted + 1)
    )
    return many.step_s - _attention_s(many) + _attention_s(one)


def _attention_s(steps: Steps) -> Array:
    found = [entry.seconds for entry in steps.last.classes if entry.kind == "attention"]
    return np.sum(found, axis=0) if found else np.zeros_like(steps.step_s)


def _passes(serving: Serving, phase: str, gpus: Sequence[Gpu], batches: Sequence[int], seq: int, by_kind: bool) -> Steps:
    parts = serving.gpu_count if serving.split == "tensor" else 1
    workload = _workload(serving.shape, phase, serving.weights, serving.cache, parts, _window(serving.shape, seq))
    run = Run(
        setting=Setting(stack=engine_stack(serving.engine, phase, serving.weights.family), host=serving.host),
        gpu_count=parts,
        gpu_link=serving.gpu_link if parts > 1 else "",
        splits_matrices=parts > 1,
        power_limit_watts=serving.power_limit_watts,
    )
    return predict_steps(workload.sized(seq=seq), gpus, run, batches, by_kind=by_kind)


def _window(shape: LanguageShape, seq: int) -> int:
    """The length a pass is built at: where layers have a window, it matters whether they fill it."""
    return seq if shape.window and seq <= shape.window else max(shape.window + 1, 2048)


@lru_cache(maxsize=64)
def _workload(shape: LanguageShape, phase: str, weights: Format, cache: str, parts: int, seq: int) -> Workload:
    whole = generation_pass(shape, phase, weights=weights, cache=cache, seq=seq)
    return split(whole, parts, matrices=True) if parts > 1 else whole


# ---------------------------------------------------------------- memory


def generation_memory(serving: Serving, users: int | None = None) -> GenerationMemory:
    """What the fullest GPU holds for so many users (those of the serving, unless given)."""
    return held_memory(
        serving.shape,
        serving.weights,
        serving.engine,
        cache=serving.cache,
        users=users or serving.users,
        prompt=serving.prompt,
        context=serving.context,
        gpu_count=serving.gpu_count,
        split=serving.split,
        offloaded=serving.offloaded,
        largest_share=serving.largest_share,
    )


def room_bytes(serving: Serving, gpu: Gpu) -> float:
    """What an engine may use of this GPU."""
    return usable_bytes(serving.engine, gpu)


def usable_bytes(engine: Engine, gpu: Gpu) -> float:
    """What this engine may use of this GPU."""
    return room_of(gpu).usable_bytes * (engine.reserves_fraction or 1.0)


def fits(serving: Serving, gpu: Gpu) -> bool:
    """Whether this serving stays within the memory of each GPU."""
    return generation_memory(serving).total_bytes <= room_bytes(serving, gpu)


def most_users(serving: Serving, gpu: Gpu) -> int:
    """The largest number of requests in flight that memory holds; 0 where not even one fits."""
    one, two = (generation_memory(serving, users).total_bytes for users in (1, 2))
    left = room_bytes(serving, gpu) - one
    return 0 if left < 0 else min(_MOST_USERS, 1 + int(left / max(two - one, 1.0)))


def least_offloaded(serving: Serving, gpu: Gpu) -> float | None:
    """The smallest fraction of layers on the CPU with which this serving fits; None where no fraction helps, or where the host's
    memory does not hold them either."""
    for layers in range(serving.shape.layers + 1):
        moved = replace(serving, offloaded=layers / serving.shape.layers)
        if fits(moved, gpu):
            held = generation_memory(moved)
            return moved.offloaded if held.host_bytes <= host_memory_bytes(serving.host, gpu, held.total_bytes) else None
    return None


def host_memory_bytes(host: Host, gpu: Gpu, held_bytes: float) -> float:
    """Memory that a usual host of this size has for the layers on its CPU. A GPU that shares the memory of its machine leaves the
    CPU only what the GPU does not hold and the system does not need."""
    room = room_of(gpu)
    if room.shared:
        return max(0.0, room.nominal_bytes * (1.0 - SYSTEM_FRACTION) - held_bytes)
    return next(gib for cores, gib in _HOST_GIB if host.core_count <= cores) * GIB
