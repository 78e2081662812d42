"""The model of a question, as its source gives it for other choices than the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from gpuwise.core.errors import BadValue
from gpuwise.engine.choices import Choices
from gpuwise.questions.common.step import StepQuery, check_precision
from gpuwise.workload import find
from gpuwise.workload.model.types import Workload

__all__ = ["asker"]


def asker(query: StepQuery, progress: Callable[[str], None]) -> Callable[[Choices | None], Workload]:
    """A function that gives the model as the user has it (None), or as choices want it."""
    request, own = query.capture.request, find.tells_itself(query.capture.request.model)
    if not own:
        check_precision(request.settings.precision, query.gpus)
        request = msgspec.structs.replace(request, settings=replace(request.settings, accumulate=1, checkpoint=False))

    def ask(choices: Choices | None) -> Workload:
        wanted = request
        if choices is not None:
            if own:
                raise BadValue(f"{request.model} decides itself how it runs: change it there")
            settings = replace(
                request.settings,
                precision=choices.precision,
                optimizer=choices.optimizer or request.settings.optimizer,
                implementation=choices.implementation,
                channels_last=choices.channels_last,
            )
            wanted = msgspec.structs.replace(request, settings=settings, image=choices.image or request.image)
        return find.workload(
            wanted,
            asked=query.capture.asked,
            timeout_s=query.capture.timeout_s,
            memory_bytes=query.capture.memory_limit_bytes,
            progress=progress,
        )

    return ask
