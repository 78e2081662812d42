"""Derives steps from a model's plain step: with adapters, recomputation or micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.prediction import Run
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ways import Ways
from gpuwise.questions.common.capturing import CaptureQuery, asker, captured
from gpuwise.questions.common.tuning import Tuning, check_targets
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["choices_of", "is_rewritten", "step_of"]


def is_rewritten(query: CaptureQuery, tuning: Tuning | None) -> bool:
    """Return whether the step is derived from the plain one: always with adapters, and if a built-in model cannot be captured
    again.
    """
    settings = query.request.settings
    changed = settings.mode == "train" and (settings.checkpoint or settings.accumulate > 1)
    return tuning is not None or (changed and zoo.has(query.request.model))


def step_of(
    query: CaptureQuery, tuning: Tuning | None, run: Run, progress: Callable[[str], None] = lambda text: None
) -> Workload:
    """Return the requested step, whatever the GPUs can compute in."""
    if not is_rewritten(query, tuning):
        return captured(query, progress)
    plain = asker(query, (), progress)(None)
    return Ways(lambda choices: plain).way(choices_of(query, tuning, run, plain)).workload


def choices_of(query: CaptureQuery, tuning: Tuning | None, run: Run, plain: Workload) -> Choices:
    """Return how the user wants to run it, given the model's step from its source."""
    settings = query.request.settings
    found = Choices(
        precision=plain.precision,
        optimizer=plain.optimizer,
        implementation=settings.implementation,
        channels_last=settings.channels_last,
        seq=plain.seq,
        image=query.request.image,
        compiled=query.compiled,
        checkpoint=(1, len(blocks_of(plain))) if settings.checkpoint else (0, 0),
        accumulate=settings.accumulate,
        fused_attention=run.setting.stack.fused_attention,
        gpu_count=run.gpu_count,
    )
    if tuning is None:
        return found
    check_targets(plain, tuning)
    return replace(found, adapters=tuning.method, rank=tuning.rank, targets=tuning.targets)
