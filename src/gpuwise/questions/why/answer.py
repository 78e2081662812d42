"""Why was this training run slow? The answer comes from profiler files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwise.questions.common.diagnosis import WhyAnswer, diagnose
from gpuwise.questions.common.trace_views import Progress
from gpuwise.questions.face import face
from gpuwise.questions.why.ask import FleetQuery, ask
from gpuwise.questions.why.file_answer import FileAnswer
from gpuwise.questions.why.options import WhyOptions
from gpuwise.questions.why.sorting import explain_files, sort_files
from gpuwise.trace.formats import Format
from gpuwise.trace.readers.telemetry import read_telemetry

if TYPE_CHECKING:
    from gpuwise.questions.why.fleet import FleetAnswer

__all__ = ["answer", "why"]

_LONG_BYTES = 100e6  # a second or more of reading


def answer(
    options: WhyOptions,
    progress: Progress = lambda text, fraction: None,
    progress_of_many: Callable[[int, int], None] = lambda done, total: None,
    announce: Callable[[str], None] = lambda text: None,
) -> WhyAnswer | FleetAnswer | FileAnswer:
    """Return the causes of one slow run, one row for each of many, or what files without a timeline show. `progress` follows
    the reading of a file, `progress_of_many` the number of finished runs, and `announce` is called before a long read.
    """
    query = ask(options)
    if isinstance(query, FleetQuery):
        from gpuwise.questions.why.fleet import diagnose_each  # importing it takes longer than reading a small trace

        return diagnose_each(query, progress_of_many)
    found = sort_files(query.files)
    if found is None:
        return diagnose(query.files, model=query.model, gpu=query.gpu, compare=query.compare, progress=progress)
    if not found.timelines:
        return explain_files(found, query)
    readings = [read_telemetry(path) for path in found.others.get(Format.TELEMETRY, ())]
    files = [str(path) for path in found.read_as_timelines]
    read = [path for path in map(Path, [*files, query.compare]) if path.is_file()]
    if (size := sum(path.stat().st_size for path in read)) >= _LONG_BYTES:
        announce(f"reading {'a file' if len(read) == 1 else f'{len(read):,} files'} of {size / 1e6:,.0f} MB")
    return diagnose(files, model=query.model, gpu=query.gpu, compare=query.compare, readings=readings, progress=progress)


why = face(WhyOptions, answer)
