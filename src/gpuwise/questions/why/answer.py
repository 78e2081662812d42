"""Why was this training run slow? The answer comes from profiler files."""

from __future__ import annotations

from collections.abc import Callable

from gpuwise.questions.common.diagnosis import WhyAnswer, diagnose
from gpuwise.questions.common.trace_views import Progress
from gpuwise.questions.face import face
from gpuwise.questions.why.ask import FleetQuery, ask
from gpuwise.questions.why.fleet import FleetAnswer, diagnose_each
from gpuwise.questions.why.options import WhyOptions

__all__ = ["answer", "why"]


def answer(
    options: WhyOptions,
    progress: Progress = lambda text, fraction: None,
    progress_of_many: Callable[[int, int], None] = lambda done, total: None,
) -> WhyAnswer | FleetAnswer:
    """The causes of one slow run, or one row for each of many. `progress` follows the reading of a file, `progress_of_many` the
    number of runs that are done."""
    query = ask(options)
    if isinstance(query, FleetQuery):
        return diagnose_each(query, progress_of_many)
    return diagnose(query.files, model=query.model, gpu=query.gpu, compare=query.compare, progress=progress)


why = face(WhyOptions, answer)
