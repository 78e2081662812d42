"""Ways of running a model and their memory. Turns choices into the workload that one GPU runs, and computes how much memory it
needs and what fits on a GPU. Each value is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import Choices, DoesNotApply
from gpuwise.prediction.run import Run
from gpuwise.step.memory.lifetimes import library_buffers, lives_of, peak_bytes, tensor_bytes_of
from gpuwise.step.memory.peak import Memory, MemorySetting, around_bytes, memory_of, reserved_bytes_of, upper_ratio
from gpuwise.step.time.setting import default_stack, find_stack
from gpuwise.step.types import Stack
from gpuwise.workload.model.types import Workload, no_collection
from gpuwise.workload.transform.adafactor import with_adafactor
from gpuwise.workload.transform.attention import has_attention, unfolded
from gpuwise.workload.transform.flash import folded
from gpuwise.workload.transform.lora import Adapters, adapted
from gpuwise.workload.transform.low_precision import held_in_low, in_low
from gpuwise.workload.transform.packed import quantised
from gpuwise.workload.transform.share import rank_step, split

__all__ = [
    "BYTES_A_WEIGHT",
    "LARGEST_BATCH",
    "Needs",
    "Room",
    "Way",
    "Ways",
    "adapters_of",
    "as_computed",
    "largest",
    "room_of",
    "safe_bytes",
]

# ---------------------------------------------------------------- from choices to workloads
# From choices to the workload that one GPU runs. The order of rewrites is fixed, so that all choices can be combined.

# Bytes per stored weight. nf4: 4 bits and an 8-bit scale per 64 values, with a 32-bit one per 256 scales (QLoRA, section 3).
# int4: 4 bits, a 16-bit scale and a 4-bit zero point per 128 values (GPTQ, AWQ). int8: the scale per row is negligible.
BYTES_A_WEIGHT = {"nf4": 0.5 + 1 / 64 + 4 / (64 * 256), "int8": 1.0, "int4": 0.5 + 2.5 / 128}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """One way of running: what a GPU runs for the last micro-batch of a step, what crosses the link to the host, and what moves
    within the host's memory.
    """

    choices: Choices
    workload: Workload
    link_bytes: float = 0.0
    host_bytes: float = 0.0
    fetched_bytes: float = 0.0

    def run(self, run: Run) -> Run:
        """Return `run` with the changes that this way requires."""
        choices, setting = self.choices, run.setting
        return replace(
            run,
            setting=replace(setting, stack=_stack_for(choices, setting.stack)),
            gpu_count=choices.gpu_count,
            accumulate=choices.accumulate,
            zero_stage=choices.zero_stage,
            splits_matrices=choices.split == "matrices",
            offloaded_bytes=self.link_bytes + self.fetched_bytes * choices.accumulate,
            host_bytes=self.host_bytes,
        )


class Ways:
    """Builds each way once. `ask` returns the model's workload in another precision, with another optimizer and so on."""

    def __init__(self, ask: Callable[[Choices], Workload]) -> None:
        self._ask = ask
        self._asked: dict[Choices, Workload] = {}
        self._made: dict[Choices, Way] = {}
        self._weighted: dict[Choices, Workload] = {}  # workloads before checkpoints and other changes are added

    def way(self, choices: Choices) -> Way:
        """Return the way for these choices."""
        if choices not in self._made:
            with no_collection():
                self._made[choices] = self._make(choices) if choices == _rewritten_as(choices) else self._resized(choices)
        return self._made[choices]

    def _resized(self, choices: Choices) -> Way:
        """Return the rewritten workload at another sequence length or number of micro-batches."""
        way = self.way(_rewritten_as(choices))
        return replace(way, choices=choices, workload=way.workload.sized(seq=choices.seq))

    def plain(self, choices: Choices) -> Workload:
        """Return the model as its source provides it, before any rewrite."""
        key = Choices(
            precision=choices.precision,
            optimizer=choices.optimizer,
            implementation=choices.implementation,
            channels_last=choices.channels_last,
            image=choices.image,
        )
        if key not in self._asked:
            self._asked[key] = self._given(key)
        found = self._asked[key]
        return found.sized(seq=choices.seq)

    def _given(self, key: Choices) -> Workload:
        """Get the workload from the source. Adafactor is rewritten from AdamW, because only captures have it."""
        try:
            if key.optimizer == "adafactor":
                return with_adafactor(self._ask(replace(key, optimizer="adamw")))
            return self._ask(key)
        except GpuwiseError as refusal:
            raise DoesNotApply(refusal.message) from refusal

    def _make(self, choices: Choices) -> Way:
        workload = self.plain(choices)
        if _is_rewritten(choices) and _alternates(workload):
            raise DoesNotApply("the step was captured with several micro-batches; capture a single one")
        workload = self._with_weights(workload, choices)
        if not choices.fused_attention and has_attention(workload):
            workload = unfolded(workload)
        if choices.split:
            workload = split(workload, choices.gpu_count, matrices=choices.split == "matrices")
        step = rank_step(
            workload,
            checkpoint=choices.checkpoint,
            zero_stage=choices.zero_stage,
            ranks=choices.gpu_count,
            accumulates=choices.accumulate > 1,
            offload=choices.offload,
            weights_on_host=choices.weights_on_host,
        )
        workload = step.workload
        if choices.compiled:
            from gpuwise.workload.compile.fuse import fused  # few steps are compiled

            workload = fused(workload)
        moved = {"link_bytes": step.link_bytes, "host_bytes": step.host_bytes, "fetched_bytes": step.fetched_bytes}
        return Way(choices=choices, workload=as_computed(workload), **moved)

    def _with_weights(self, workload: Workload, choices: Choices) -> Workload:
        """Apply adapters or quantised weights, once for everything that is added to them."""
        if not (choices.adapters or choices.weights or choices.folded_attention):
            return workload
        key = replace(
            _rewritten_as(choices),
            checkpoint=(0, 0),
            accumulate=1,
            fused_attention=True,
            compiled=False,
            offload=False,
            gpu_count=1,
            zero_stage=0,
            weights_on_host=False,
            split="",
        )
        if key not in self._weighted:
            whole = (folded(workload) or workload) if choices.folded_attention else workload
            self._weighted[key] = _with_weights(whole, choices)
        return self._weighted[key]


def _stack_for(choices: Choices, stack: Stack) -> Stack:
    """Return the software that runs these choices: newer than the user's if that lacks a chosen feature."""
    if choices.fused_attention and not stack.fused_attention:
        return default_stack(compiled=choices.compiled)
    if not choices.compiled or stack.how != "eager":
        return stack
    if stack.framework == "torch" and not stack.fused_attention:  # before 2.0, which introduced torch.compile
        return default_stack(compiled=True)
    return find_stack(stack.name, compiled=True)[0]


def _rewritten_as(choices: Choices) -> Choices:
    """Return the choices that affect rewriting: one way serves every sequence length, any number of micro-batches above one, and
    any number of GPUs that divide only samples.
    """
    divides = choices.zero_stage or choices.split
    return replace(choices, seq=None, accumulate=min(choices.accumulate, 2), gpu_count=choices.gpu_count if divides else 1)


def _is_rewritten(choices: Choices) -> bool:
    """Return whether the step itself changes, rather than only how its source provides it."""
    whole = choices.adapters or choices.weights or choices.split or choices.offload or choices.folded_attention
    return bool(whole or choices.checkpoint[1] or choices.zero_stage or choices.accumulate > 1)


def _alternates(workload: Workload) -> bool:
    """Return whether forward and backward passes alternate."""
    return bool(np.any(np.diff(workload.calls.phase) < 0))


def _with_weights(workload: Workload, choices: Choices) -> Workload:
    if choices.adapters:
        return adapted(workload, adapters_of(choices))
    return quantised(workload, BYTES_A_WEIGHT[choices.weights]) if choices.weights else workload


def adapters_of(choices: Choices) -> Adapters:
    """Return the adapters for these choices."""
    return Adapters(
        rank=choices.rank,
        targets=choices.targets,
        lengths=choices.adapters == "dora",
        weight_bytes=BYTES_A_WEIGHT["nf4"] if choices.adapters == "qlora" else None,
    )


def as_computed(workload: Workload) -> Workload:
    """Captures in fp8 keep their tensors in bf16, as recipes do between products; this makes the large products fp8."""
    if workload.precision != "fp8" or "products" in workload.options:
        return workload
    return in_low(workload) if workload.mode == "train" else held_in_low(workload)


# ---------------------------------------------------------------- what memory holds

LARGEST_BATCH = 2**31 - 1
_SHARED_SEGMENTS = ("soc", "embedded", "cpu")
SYSTEM_FRACTION = 0.2  # share of memory shared with the CPU that the system and the program's own data take


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The memory in bytes that a step may use on one GPU. The CPU also uses shared memory."""

    usable_bytes: float
    nominal_bytes: float
    shared: bool
    remark: str = ""


def room_of(gpu: Gpu) -> Room:
    """Return the memory of this GPU that is available to one program."""
    if gpu.segment not in _SHARED_SEGMENTS or gpu.memory_type.startswith(("GDDR", "HBM")):
        whole = gpu.usable_memory_bytes + gpu.slow_memory_bytes
        return Room(usable_bytes=whole, nominal_bytes=gpu.memory_bytes, shared=False)
    usable = gpu.usable_memory_bytes
    remark = "the working set size that Metal recommends"
    if gpu.vendor != "Apple":
        usable = min(usable, gpu.memory_bytes * (1.0 - SYSTEM_FRACTION))
        remark = f"{SYSTEM_FRACTION:.0%} is reserved for the operating system and program data"
    return Room(usable_bytes=usable, nominal_bytes=gpu.memory_bytes, shared=True, remark=remark)


def safe_bytes(gpu: Gpu) -> float:
    """Return the highest predicted need at which nine in ten steps stay within this GPU's room."""
    return room_of(gpu).usable_bytes / upper_ratio()


def largest(
    need: Callable[[int], float], room_bytes: float, *, top: int = LARGEST_BATCH, known: Mapping[int, float] | None = None
) -> int:
    """Return the largest whole number up to `top` whose need stays within the room, or 0 if there is none. Needs that are
    already `known` save evaluations.

    The need grows nearly linearly, so guesses follow the line through the ends of the bracket, and every fourth guess takes its
    middle. Whatever the shape of the curve, the result fits and the next number does not.
    """
    low, least, high, most = _bracket(need, room_bytes, top, known or {})
    turn = 0
    while high - low > 1:
        slope = (most - least) / (high - low)
        turn += 1
        by_line = turn % 4 and 0 < slope < math.inf
        guess = low + int((room_bytes - least) / slope) if by_line else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        found = need(guess)
        if found <= room_bytes:
            low, least = guess, found
        else:
            high, most = guess, found
    return low


def _bracket(
    need: Callable[[int], float], room_bytes: float, top: int, known: Mapping[int, float]
) -> tuple[int, float, int, float]:
    """Return a number that fits (0 if 1 does not) and its need, and a larger one that does not fit and its need."""
    first = known[1] if 1 in known else need(1)
    if first > room_bytes:
        return 0, 0.0, 1, first
    low, least = max(((size, bytes_) for size, bytes_ in known.items() if bytes_ <= room_bytes), default=(1, first))
    above = [(size, bytes_) for size, bytes_ in known.items() if bytes_ > room_bytes and size > low]
    if above:
        return low, least, *min(above)
    step = max(1, low)
    while low < top:
        high = min(top, low + step)
        most = need(high)
        if most > room_bytes:
            return low, least, high, most
        slope = (most - least) / (high - low)
        low, least = high, most
        step = min(int((room_bytes - most) / slope) + 1, 64 * high) if slope > 0 else high
    return top, least, top + 1, math.inf


# ---------------------------------------------------------------- what a step needs

_LARGEST_AUTO = 2**16  # samples: no GPU gets faster beyond this


class Needs:
    """The memory a step needs at a batch, and the largest batch that fits in a room, each computed once.

    The GPU affects the memory of the framework and the libraries; GPUs with the same library memory share a search.
    """

    def __init__(self, workload: Workload, setting: MemorySetting | None = None) -> None:
        self.workload = workload
        self.setting = setting or MemorySetting()
        self._memories: dict[tuple[object, int], Memory] = {}
        self._peaks: dict[int, float] = {}
        self._known: dict[object, dict[int, float]] = {}
        self._largest: dict[tuple[object, float], int] = {}

    def memory(self, gpu: Gpu, batch: int) -> Memory:
        """Return the memory on this GPU."""
        return self._memory(gpu, batch, (self._around(gpu), self._libraries(gpu)))

    def total_bytes(self, gpu: Gpu, batch: int) -> float:
        """Return the total of `memory`: what the framework takes, plus what the allocator holds."""
        return self._held(gpu, batch) + self._around(gpu)

    def within(self, gpu: Gpu, room: float) -> Callable[[int], bool]:
        """Return the test for whether a batch fits. If the tensors in use at the peak already exceed the room, nothing else is
        computed.
        """
        left, known = room - self._around(gpu), self._known.setdefault(self._libraries(gpu), {})
        return lambda batch: self._peak(batch) <= room and (known.get(batch) or self._held(gpu, batch)) <= left

    def _peak(self, batch: int) -> float:
        if batch not in self._peaks:
            size = batch if "batch" in self.workload.symbols else None
            self._peaks[batch] = peak_bytes(self.workload, size, None)
        return self._peaks[batch]

    def serves(self, workload: Workload) -> bool:
        """Return whether another step holds the same bytes at the same times."""
        mine = self.workload
        return mine is workload or (_outline(mine) == _outline(workload) and _figures(mine) == _figures(workload))

    def _held(self, gpu: Gpu, batch: int) -> float:
        """Return the bytes that the allocator holds, excluding the framework's share."""
        kept = self._libraries(gpu)
        known = self._known.setdefault(kept, {})
        if batch not in known:
            size = batch if "batch" in self.workload.symbols else None
            known[batch] = reserved_bytes_of(self.workload, size, gpu=gpu)
        return known[batch]

    def _around(self, gpu: Gpu) -> float:
        return around_bytes(gpu, self.setting)

    def _libraries(self, gpu: Gpu) -> object:
        return library_buffers(gpu, products=True, training=self.workload.mode == "train")

    def _memory(self, gpu: Gpu, batch: int, key: object) -> Memory:
        if (key, batch) not in self._memories:
            size = batch if "batch" in self.workload.symbols else None
            self._memories[key, batch] = memory_of(self.workload, size, gpu=gpu, setting=self.setting)
        return self._memories[key, batch]

    def power_of_two(self, gpu: Gpu) -> int:
        """Return the largest power of two whose step fits on this GPU, or 1 if none does. `--batch auto` uses it."""
        size, fits = 1, self.within(gpu, gpu.usable_memory_bytes)
        while size < _LARGEST_AUTO and fits(size * 2):
            size *= 2
        return size

    def largest(self, gpu: Gpu, usable: float) -> int:
        """Return the largest batch that fits, starting the search from the results for smaller and larger rooms."""
        if "batch" not in self.workload.symbols:
            return self.workload.batch if self.memory(gpu, self.workload.batch).total_bytes <= usable else 0
        kept, room = self._libraries(gpu), usable - self._around(gpu)
        known = self._known.setdefault(kept, {})
        if (kept, room) not in self._largest:
            self._largest[kept, room] = largest(lambda batch: self._held(gpu, batch), room, known=known)
        return self._largest[kept, room]


def _outline(workload: Workload) -> tuple[object, ...]:
    return workload.mode, workload.batch, workload.seq, workload.symbols, len(workload.calls), len(workload.buffers)


def _figures(workload: Workload) -> tuple[bytes, ...]:
    """Return the allocations, frees and sizes of all tensors, which determine memory."""
    lives = lives_of(workload)
    sizes = [tensor_bytes_of(workload, size, None) for size in ((1.0, 2.0, 3.0) if "batch" in workload.symbols else (None,))]
    columns = (lives.born, lives.died, lives.category, lives.tensor, lives.phase, lives.convolved, *sizes)
    return tuple(np.ascontiguousarray(column).tobytes() for column in columns)
