"""From choices to the workload that one GPU then runs. The order is fixed, so that any choices go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuwise.core.errors import GpuwiseError
from gpuwise.engine.choices import Choices, DoesNotApply
from gpuwise.engine.run import Run
from gpuwise.step.time.stacks import default_stack, find_stack
from gpuwise.step.types import Stack
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.rows import no_collection
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.adafactor import with_adafactor
from gpuwise.workload.transform.attention import has_attention, unfolded
from gpuwise.workload.transform.checkpoint import blocks_of, checkpointed
from gpuwise.workload.transform.flash import folded
from gpuwise.workload.transform.lora import adapted, quantised
from gpuwise.workload.transform.low_precision import as_computed
from gpuwise.workload.transform.share import accumulating, offloaded, sharded, split

__all__ = ["BYTES_A_WEIGHT", "RANK", "Way", "Ways"]

RANK = 16  # of adapters
# Bytes that hold a weight. nf4: 4 bits and a scale for 64 values; 0.516 with scales in 8 bits, 0.563 in 32 (QLoRA, section 3).
# int4: 4 bits, a 16-bit scale and a 4-bit zero for 128 values (GPTQ, AWQ). int8: the scale of a row is nothing beside the row.
BYTES_A_WEIGHT = {"nf4": 0.55, "int8": 1.0, "int4": 0.5 + 2.5 / 128}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """One way of running: what a GPU runs for the last micro-batch of a step, what crosses the link to the host, what the host's
    own memory moves."""

    choices: Choices
    workload: Workload
    link_bytes: float = 0.0
    host_bytes: float = 0.0

    def run(self, run: Run) -> Run:
        """`run` with what this way asks for."""
        choices, setting = self.choices, run.setting
        return replace(
            run,
            setting=replace(setting, stack=_stack_for(choices, setting.stack)),
            gpu_count=choices.gpu_count,
            accumulate=choices.accumulate,
            zero_stage=choices.zero_stage,
            splits_matrices=choices.split == "matrices",
            offloaded_bytes=self.link_bytes,
            host_bytes=self.host_bytes,
        )


class Ways:
    """Makes each way once. `ask` gives the model's workload in another precision, with another optimizer and the like."""

    def __init__(self, ask: Callable[[Choices], Workload]) -> None:
        self._ask = ask
        self._asked: dict[Choices, Workload] = {}
        self._made: dict[Choices, Way] = {}

    def way(self, choices: Choices) -> Way:
        """The way of these choices."""
        if choices not in self._made:
            with no_collection():
                self._made[choices] = self._make(choices) if choices == _rewritten_as(choices) else self._resized(choices)
        return self._made[choices]

    def _resized(self, choices: Choices) -> Way:
        """As rewritten for another sequence length or number of micro-batches."""
        way = self.way(_rewritten_as(choices))
        same = choices.seq in (None, way.workload.seq)
        return replace(way, choices=choices, workload=way.workload if same else replace(way.workload, seq=choices.seq))

    def plain(self, choices: Choices) -> Workload:
        """The model as its source gives it: before anything is rewritten."""
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
        return found if choices.seq in (None, found.seq) else replace(found, seq=choices.seq)

    def _given(self, key: Choices) -> Workload:
        """From the source; Adafactor is written over AdamW, for no source but a capture has it."""
        try:
            if key.optimizer == "adafactor":
                return with_adafactor(self._ask(replace(key, optimizer="adamw")))
            return self._ask(key)
        except GpuwiseError as refusal:
            raise DoesNotApply(refusal.message) from refusal

    def _make(self, choices: Choices) -> Way:
        workload = self.plain(choices)
        if _is_rewritten(choices) and _alternates(workload):
            raise DoesNotApply("the step was captured with several micro-batches; capture one")
        if choices.folded_attention:
            workload = folded(workload) or workload
        workload = _with_weights(workload, choices)
        if not choices.fused_attention and has_attention(workload):
            workload = unfolded(workload)
        depth, count = choices.checkpoint
        if count:
            workload = checkpointed(workload, blocks_of(workload, depth)[:count])
        if choices.zero_stage:
            workload = sharded(workload, choices.zero_stage, choices.gpu_count)
        if choices.split:
            workload = split(workload, choices.gpu_count, matrices=choices.split == "matrices")
        if choices.accumulate > 1:
            workload = accumulating(workload)
        link = host = 0.0
        if choices.offload:
            workload, link, host = offloaded(workload)
        if choices.compiled:
            workload = fused(workload)
        return Way(choices=choices, workload=as_computed(workload), link_bytes=link, host_bytes=host)


def _stack_for(choices: Choices, stack: Stack) -> Stack:
    """The software that runs these choices: newer than the user's, where that has not what is chosen."""
    if choices.fused_attention and not stack.fused_attention:
        return default_stack(compiled=choices.compiled)
    if not choices.compiled or stack.how != "eager":
        return stack
    if stack.framework == "torch" and not stack.fused_attention:  # before 2.0, which brought compiling
        return default_stack(compiled=True)
    return find_stack(stack.name, compiled=True)[0]


def _rewritten_as(choices: Choices) -> Choices:
    """The choices that rewriting looks at: one way serves every sequence length, any number of micro-batches but one, and any
    number of GPUs that divide nothing but samples."""
    divides = choices.zero_stage or choices.split
    return replace(choices, seq=None, accumulate=min(choices.accumulate, 2), gpu_count=choices.gpu_count if divides else 1)


def _is_rewritten(choices: Choices) -> bool:
    """Whether the step itself changes, not only how its source gives it."""
    whole = choices.adapters or choices.weights or choices.split or choices.offload or choices.folded_attention
    return bool(whole or choices.checkpoint[1] or choices.zero_stage or choices.accumulate > 1)


def _alternates(workload: Workload) -> bool:
    """Whether forward and backward passes take turns."""
    phases = [call.phase for call in workload.calls]
    return phases != sorted(phases)


def _with_weights(workload: Workload, choices: Choices) -> Workload:
    if choices.adapters:
        return adapted(workload, RANK, BYTES_A_WEIGHT["nf4"] if choices.adapters == "qlora" else None)
    return quantised(workload, BYTES_A_WEIGHT[choices.weights]) if choices.weights else workload
