"""What `fit` would change so that a model fits on a cluster on which no plan does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.advise.ladder import changes
from gpuwise.advise.trial import Trial
from gpuwise.advise.types import Rung
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ways import Ways, room_of
from gpuwise.questions.common.capturing import asker
from gpuwise.questions.common.plan_case import PlanCase
from gpuwise.questions.common.rewriting import choices_of

__all__ = ["remedies_of"]

_SOURCE = ("precision", "optimizer", "implementation", "channels_last", "image")  # choices that need another step from the source


def remedies_of(case: PlanCase, progress: Callable[[str], None]) -> tuple[Rung, ...]:
    """Return the changes in order, with the same samples on each GPU; none for different cards, or if nothing helps."""
    if case.cluster.is_mixed or case.cluster.node_count > 1:
        return ()
    progress("looking for changes after which the model fits")
    query, gpu, count = case.query.step, case.cluster.gpu, case.cluster.gpu_count
    ask = asker(query.capture, query.gpus, progress)
    now = replace(choices_of(query.capture, query.tuning, query.run, ask(None)), gpu_count=count)

    def source(choices: Choices) -> Choices | None:
        return choices if any(getattr(choices, name) != getattr(now, name) for name in _SOURCE) else None

    trial = Trial(
        gpu=gpu,
        room=room_of(gpu),
        batch=-(-case.wishes.global_batch // count),
        now=now,
        ways=Ways(lambda choices: ask(source(choices))),
        run=query.run,
    )
    return changes(trial)
