"""Image generation as many people reported it: selects the reports that reflect the GPU's speed, and takes their median.

A report is what one person measured in one session, with growing batches. Single reports of the same thing differ by a factor of
two or more, because CPUs differ, weights are moved back and forth, or another program is running. Only the median of several
reports is therefore used for the fit. Ranges for a single person's measurement come from single reports (`report_ranges`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuwise.evidence.e2e import Question
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.today import TodayQuestion, today_questions

__all__ = ["REPORTED", "image_questions", "reported", "run_of", "single_reports"]

REPORTED = ("sd_data_webui",)  # by many people, on their own machines and with their own settings
_FEWEST = 3
_GROWTH = 1.25  # seconds per image relative to a smaller batch; more means a search for kernels, or memory that ran out
_SAME = ("origin", "gpu_as_written", "model", "precision", "size", "stack")
_HALVES = ("fp16", "bf16")  # the same speed on every GPU that has both


def image_questions(folder: Path) -> list[Question]:
    """The median of the reports for one GPU, model, size and batch. Figures from a single source are kept separately."""
    asked = _asked(folder)
    alone = [row.question for row in asked if row.cells["source"] not in REPORTED and row.question is not None]
    groups: dict[tuple[object, ...], list[Question]] = defaultdict(list)
    for question in _single(asked):
        groups[(question.gpu.name, *run_of(question), question.batch)].append(question)
    return [*alone, *(_middle(members) for members in groups.values() if len(members) >= _FEWEST)]


def single_reports(folder: Path) -> dict[str, list[Question]]:
    """What single people reported, by GPU."""
    found: dict[str, list[Question]] = defaultdict(list)
    for question in _single(_asked(folder)):
        found[question.gpu.name].append(question)
    return found


def reported(folder: Path) -> list[list[Question]]:
    """All reports, and figures from a single source as reports of one figure."""
    asked = _asked(folder)
    alone = [[row.question] for row in asked if row.cells["source"] not in REPORTED and row.question is not None]
    return [*alone, *map(_steady, _reports([row for row in asked if row.cells["source"] in REPORTED]))]


def _asked(folder: Path) -> list[TodayQuestion]:
    found, _ = today_questions(read_table(folder / "today_images.csv"))
    return [row for row in found if row.question is not None and row.question.gpu_count == 1]


def _single(asked: Iterable[TodayQuestion]) -> list[Question]:
    reports = _reports([row for row in asked if row.cells["source"] in REPORTED])
    return [question for report in reports for question in _steady(report)]


def _reports(rows: Iterable[TodayQuestion]) -> list[list[Question]]:
    """The rows from one person in one session, with each report once."""
    found: list[list[Question]] = []
    last: tuple[object, ...] = ()
    for row in rows:
        said, question = tuple(row.cells[name] for name in _SAME), row.question
        if question is None:
            continue
        if said != last or question.batch <= found[-1][-1].batch:
            found.append([])
        found[-1].append(question)
        last = said
    distinct = {
        (*(report[0].cells[name] for name in ("gpu_as_written", "model", "stack")), *(row.measured_s for row in report)): report
        for report in found
    }
    return list(distinct.values())


def _steady(report: Sequence[Question]) -> list[Question]:
    """The rows in which an image takes no longer than with a smaller batch."""
    kept: list[Question] = []
    least = np.inf
    for question in report:
        each = question.measured_s / question.batch
        if each <= _GROWTH * least:
            kept.append(question)
        least = min(least, each)
    return kept


def run_of(question: Question) -> tuple[object, ...]:
    """What two figures must share to describe the same thing."""
    precision = question.request.settings.precision
    shared = "16 bit" if precision in _HALVES else precision
    return question.request.model, shared, question.cells["stack"], question.moved_bytes > 0


def _middle(members: Sequence[Question]) -> Question:
    """One question for all rows, with the median value, in the most common precision and regardless of the version."""
    usual, _ = Counter(question.request.settings.precision for question in members).most_common(1)[0]
    first = next(question for question in members if question.request.settings.precision == usual)
    seconds = float(np.median([question.measured_s for question in members]))
    return replace(first, measured_s=seconds, cells={**first.cells, "framework_version": "mixed", "reports": str(len(members))})
