"""Remedies that spread one model over several GPUs. Memory adds up only if something is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.advise.proposals import Proposal, inference_only, training_only
from gpuwise.advise.trial import Trial
from gpuwise.core.units import GIB
from gpuwise.prediction.choices import Choices, DoesNotApply
from gpuwise.scale.cluster.collectives import weight_bytes
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["offload_weights", "split", "zero"]

_COUNTS = (2, 4, 8)


def _count(trial: Trial, choices: Choices, over: Callable[[int], Choices], stays_bytes: float = 0.0) -> int:
    """Return the number of available GPUs; if there is one, as few more as make it fit, or two. `stays_bytes` are needed on each
    of them: where they exceed the room, no number helps.
    """
    if choices.gpu_count > 1:
        return choices.gpu_count
    if stays_bytes > trial.room.usable_bytes:
        return _COUNTS[0]
    return next((count for count in _COUNTS if trial.fits(over(count))), _COUNTS[0])


def zero(stage: int) -> Callable[[Trial, Choices], Proposal]:
    """States, gradients or weights of a training step over several GPUs."""

    def propose(trial: Trial, choices: Choices) -> Proposal:
        training_only(trial)
        if choices.zero_stage >= stage:
            raise DoesNotApply(f"the run already uses ZeRO stage {choices.zero_stage}")
        if choices.offload:
            raise DoesNotApply("the optimizer runs on the host")
        if trial.room.shared:
            raise DoesNotApply("a chip that shares memory with the CPU cannot be combined with others")
        count = max(2, choices.gpu_count)
        if stage == 3:
            stays = trial.memory(choices).activation_bytes
            count = _count(trial, choices, lambda many: replace(choices, zero_stage=stage, gpu_count=many), stays)
        title = f"ZeRO-{stage} over {count} GPUs" if stage < 3 else f"FSDP (ZeRO-3) over {count} GPUs"
        how = "FSDP: fully_shard" if stage == 3 else f"DeepSpeed, stage {stage}"
        return Proposal(choices=replace(choices, zero_stage=stage, gpu_count=count), title=title, how=how)

    return propose


def offload_weights(trial: Trial, choices: Choices) -> Proposal:
    """The frozen weights of FSDP ranks in the host's memory: each GPU fetches its part of a block and gathers the rest."""
    training_only(trial)
    if not choices.adapters:
        raise DoesNotApply("only frozen weights can stay in the host's memory")
    if choices.zero_stage < 3:
        raise DoesNotApply("only weights that are sharded with FSDP can stay in the host's memory")
    if choices.weights_on_host or trial.room.shared:
        raise DoesNotApply("the weights are already in the host's memory")
    held = choices.gpu_count * weight_bytes(trial.workload(choices)) / GIB
    how = f"FSDP: CPUOffloadPolicy; the host needs {held:.0f} GiB of free memory"
    return Proposal(choices=replace(choices, weights_on_host=True), title="frozen weights in host memory", how=how)


def split(kind: str) -> Callable[[Trial, Choices], Proposal]:
    """The layers or the matrices of a model for inference over several GPUs."""

    def propose(trial: Trial, choices: Choices) -> Proposal:
        inference_only(trial)
        if choices.split:
            raise DoesNotApply("the model is already split")
        if trial.room.shared:
            raise DoesNotApply("a chip that shares memory with the CPU cannot be combined with others")
        if len(blocks_of(trial.ways.plain(choices))) < max(_COUNTS):
            raise DoesNotApply("the model has too few repeated blocks to split")
        count = _count(trial, choices, lambda many: replace(choices, split=kind, gpu_count=many))
        how = 'device_map="auto"; only one GPU works at a time' if kind == "layers" else f"vLLM: --tensor-parallel-size {count}"
        title = f"layers split over {count} GPUs" if kind == "layers" else f"matrices split over {count} GPUs"
        return Proposal(choices=replace(choices, split=kind, gpu_count=count), title=title, how=how)

    return propose
