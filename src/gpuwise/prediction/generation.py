"""Predicts text generation with a language model: tokens per second, time to the first token, and memory.

    prefill   one pass over the prompt of a request
    decode    one pass for the next token of every request in flight
    × users   with continuous batching, prompts of new requests are read between the steps of those in flight

Passes are ordinary steps (`steps.py`), run by an engine instead of a framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from gpuwise.core.units import GIB
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu, Host
from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.prediction.run import Run
from gpuwise.prediction.steps import Steps, link_bytes_per_s, predict_steps
from gpuwise.prediction.ways import SYSTEM_FRACTION, room_of
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
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import Format
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.share import split

__all__ = [
    "GenerationMemory",
    "Generations",
    "Serving",
    "chunks_s",
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

_HOST_FLOPS_A_CORE = 5e10  # per second, by a core with AVX2 on packed weights, assumed
_HOST_GIB = ((16, 64.0), (10**6, 512.0))  # memory of a host with up to this many cores, assumed
_HOST_REACHES = 0.7  # share of its memory bandwidth that layers on the CPU reach, assumed
_MOST_USERS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How text is generated: `users` requests at once, each with a prompt of `prompt` tokens and an answer of `output`.

    Several GPUs each hold whole layers (`layers`: one works at a time) or a part of every matrix (`tensor`). `offloaded` is the
    fraction of the layers, or of a mixture's experts, that runs on the CPU. GPUs of different kinds have `shares` of the layers;
    `largest_share` is the one that fills its GPU the most.
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
        """The mean number of previous tokens that a new token attends to."""
        return max(1, self.prompt + self.output // 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Generations:
    """The same serving on each of several GPUs; arrays have one entry per GPU. `decode` and `prefill` are the passes on the GPU.
    If `decode` has several numbers of users, this is the one at `point`. `unread` is the fraction of a prompt's time that
    remains if its beginning is already cached.
    """

    serving: Serving
    gpus: tuple[Gpu, ...]
    decode: Steps
    prefill: Steps
    point: int = 0
    unread: Array | float = 1.0

    @cached_property
    def decode_s(self) -> Array:
        """One step of all requests in flight, without interruptions."""
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
        """Return the time of a pass: on each GPU alone, or through the layers on GPUs of several kinds."""
        shares = self.serving.shares
        return np.array([sum(part * taken for (_, part), taken in zip(shares, seconds, strict=True))]) if shares else seconds

    @cached_property
    def _moved_fraction(self) -> float:
        """Return the share of a step's GPU time that moves to the CPU if everything possible is offloaded; experts count by the
        bytes read.
        """
        serving, shape = self.serving, self.serving.shape
        if not shape.experts:
            return 1.0
        read = read_block_bytes(shape, serving.weights, serving.users)
        return read_expert_bytes(shape, serving.weights, serving.users) / read

    @cached_property
    def _hops_s(self) -> float:
        """Return the time to pass data between layers on several GPUs over an explicitly named link, one GPU after another."""
        serving = self.serving
        if serving.split != "layers" or not serving.gpu_link:
            return 0.0
        link = find_link(serving.gpu_link)
        handed = serving.users * serving.shape.hidden * DTYPE_BYTES["fp32"]
        each = link.latency_s + handed / (link.bytes_per_s_one_way * link.achieved_fraction)
        return (serving.gpu_count - 1) * each

    @cached_property
    def _host_s(self) -> float:
        """Return the time that the CPU's part adds to a step: reading weights and caches from its memory, and multiplying on its
        cores.
        """
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
        """Time between two tokens of one user: a step, plus the prompts of other users read in the meantime."""
        serving = self.serving
        if serving.engine.batching != "continuous" or not serving.output:
            return self.decode_s
        return self.decode_s + (serving.users - 1) * self.prefill_s / serving.output

    @cached_property
    def tokens_per_s(self) -> Array:
        """Tokens per second of all users together."""
        return self.serving.users / self.token_s

    @cached_property
    def first_token_s(self) -> Array:
        """Time from a request to its first token: its prompt is read after the current step, or together with all others."""
        serving = self.serving
        if serving.engine.batching == "continuous":
            return self.prefill_s + (self.decode_s if serving.users > 1 else 0.0)
        return self.prefill_s * serving.users

    def ends(self, seconds: Array, steps: Steps) -> tuple[Array, Array]:
        """The ends of the range for a time made up of these steps."""
        return seconds * steps.widths.low[0], seconds * steps.widths.high[0]


def generate(serving: Serving, gpus: Sequence[Gpu], *, by_kind: bool = False) -> Generations:
    """Predict text generation on each of these GPUs, or on `gpu_count` of each."""
    each = _each(serving, gpus)
    decode = _passes(serving, "decode", each, [serving.users], serving.mean_context, by_kind)
    prefill = _passes(serving, "prefill", each, [1], max(1, serving.prompt), by_kind)
    return Generations(serving=serving, gpus=tuple(gpus), decode=decode, prefill=prefill)


def curve(serving: Serving, gpus: Sequence[Gpu], users: Sequence[int], *, by_kind: bool = False) -> tuple[Generations, ...]:
    """Predict the same serving with each of these numbers of users, all in one pass."""
    each = _each(serving, gpus)
    decode = _passes(serving, "decode", each, users, serving.mean_context, by_kind)
    prefill = _passes(serving, "prefill", each, [1], max(1, serving.prompt), by_kind)
    return tuple(
        Generations(serving=replace(serving, users=count), gpus=tuple(gpus), decode=decode, prefill=prefill, point=point)
        for point, count in enumerate(users)
    )


def _each(serving: Serving, gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """Return the GPUs for which passes are predicted: the members, for a set of different GPUs."""
    return [gpu for gpu, _ in serving.shares] or gpus


def mixed(serving: Serving, cards: Sequence[Gpu], name: str) -> tuple[Serving, Gpu]:
    """Return the serving with its layers divided over these cards by memory, and the set as one GPU: the card with the least room
    left after its share of the layers, under the name of the set. llama.cpp divides layers this way by default.
    """
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
    """Divide whole layers by room; the remaining ones go where the most is missing.

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
    """Return the share of a whole prompt's time that remains if this fraction of it is already cached.

    The rest attends to the whole prompt, so it takes the time of the whole minus the beginning, and never less than it would
    alone.
    """
    whole = max(1, serving.prompt)
    rest = max(1, whole - int(whole * cached))
    if rest == whole:
        return np.ones(len(gpus))
    all_s, begun_s, rest_s = (
        _passes(serving, "prefill", gpus, [1], tokens, False).step_s[0] for tokens in (whole, max(1, whole - rest), rest)
    )
    return np.asarray(np.minimum(1.0, np.maximum(rest_s, all_s - begun_s) / all_s))


def chunks_s(serving: Serving, gpus: Sequence[Gpu], tokens: int) -> tuple[Array, float]:
    """Return the time of a pass that reads this many tokens of a prompt, and how many such passes a prompt takes."""
    size = min(tokens, max(1, serving.prompt))
    return _passes(serving, "prefill", gpus, [1], size, False).step_s[0], max(1.0, serving.prompt / size)


def verified_s(serving: Serving, gpus: Sequence[Gpu], users: Sequence[int], drafted: int) -> Array:
    """Return the time of a step that checks this many drafted tokens of every user and adds one, by users and GPUs.

    Its products have a row for each of these tokens; attention reads a user's cache once for all of them.
    """
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
    """Return the length at which a pass is built. If layers have a window, it matters whether they fill it."""
    return seq if shape.window and seq <= shape.window else max(shape.window + 1, 2048)


@lru_cache(maxsize=64)
def _workload(shape: LanguageShape, phase: str, weights: Format, cache: str, parts: int, seq: int) -> Workload:
    if parts > 1:
        return split(_workload(shape, phase, weights, cache, 1, seq), parts, matrices=True)
    return generation_pass(shape, phase, weights=weights, cache=cache, seq=seq)


# ---------------------------------------------------------------- memory


def generation_memory(serving: Serving, users: int | None = None) -> GenerationMemory:
    """Return the memory on the fullest GPU for this many users (by default those of the serving)."""
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
    """Return the memory that an engine may use on this GPU."""
    return usable_bytes(serving.engine, gpu)


def usable_bytes(engine: Engine, gpu: Gpu) -> float:
    """Return the memory that this engine may use on this GPU."""
    return room_of(gpu).usable_bytes * (engine.reserves_fraction or 1.0)


def fits(serving: Serving, gpu: Gpu) -> bool:
    """Return whether this serving fits in the memory of each GPU."""
    return generation_memory(serving).total_bytes <= room_bytes(serving, gpu)


def most_users(serving: Serving, gpu: Gpu) -> int:
    """Return the largest number of requests in flight that fits in memory, or 0 if not even one fits."""
    one, two = (generation_memory(serving, users).total_bytes for users in (1, 2))
    left = room_bytes(serving, gpu) - one
    return 0 if left < 0 else min(_MOST_USERS, 1 + int(left / max(two - one, 1.0)))


def least_offloaded(serving: Serving, gpu: Gpu, *, any_ram: bool = False) -> float | None:
    """Return the smallest fraction of layers on the CPU with which this serving fits; None if no fraction helps, or if the host's
    memory cannot hold them either, unless the host may have `any_ram`.
    """
    for layers in range(serving.shape.layers + 1):
        moved = replace(serving, offloaded=layers / serving.shape.layers)
        if fits(moved, gpu):
            held = generation_memory(moved)
            if any_ram and not room_of(gpu).shared:
                return moved.offloaded
            return moved.offloaded if held.host_bytes <= host_memory_bytes(serving.host, gpu, held.total_bytes) else None
    return None


def host_memory_bytes(host: Host, gpu: Gpu, held_bytes: float) -> float:
    """Return the memory that a typical host of this size has for layers on its CPU. If the GPU shares the machine's memory, the
    CPU has only what the GPU and the system do not need.
    """
    room = room_of(gpu)
    if room.shared:
        return max(0.0, room.nominal_bytes * (1.0 - SYSTEM_FRACTION) - held_bytes)
    return next(gib for cores, gib in _HOST_GIB if host.core_count <= cores) * GIB
