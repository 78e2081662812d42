"""A sweep: every model on every GPU at every batch and precision, as one table. If interrupted, it continues where it stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware import tables
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.runs.parts import Parts, alone
from gpuwise.questions.common.runs.spread import Progress, carry_out
from gpuwise.questions.common.runs.tables import Columns, check_table, write_table
from gpuwise.questions.common.runs.versions import versions
from gpuwise.questions.face import face
from gpuwise.questions.sweep.ask import ask, gpus_meant
from gpuwise.questions.sweep.block import Block, block_of, decode, lost_block
from gpuwise.questions.sweep.options import SweepOptions
from gpuwise.step.types import BOUNDS, Array

__all__ = ["COLUMNS", "Refused", "SweptAnswer", "answer", "columns_of", "sweep"]

COLUMNS: dict[str, type] = {
    "model": str,
    "mode": str,
    "precision": str,
    "gpu": str,
    "batch": int,
    "seq": int,
    "step_s": float,
    "step_low_s": float,
    "step_high_s": float,
    "samples_per_s": float,
    "bound": str,
    "memory_bytes": float,
    "usable_memory_bytes": float,
    "fits": bool,
    "coverage_fraction": float,
    "reason": str,
    "gpuwise_version": str,
    "constants_version": str,
    "data_date": str,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Points that could not be predicted for one reason, and one of the models."""

    reason: str
    count: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptAnswer(Shown):
    """The outcome of a sweep. `kept_parts` come from earlier runs; `already_whole` where the table was complete before."""

    TEXT: ClassVar[str] = "questions.sweep.text.render"

    out: Path
    model_count: int
    gpu_count: int
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    points: int
    predicted: int
    fitting: int
    refused: tuple[Refused, ...]
    part_count: int
    kept_parts: int
    already_whole: bool
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "out": str(self.out),
            "models": self.model_count,
            "gpus": self.gpu_count,
            "batches": list(self.batches),
            "precisions": list(self.precisions),
            "points": self.points,
            "predicted": self.predicted,
            "fitting": self.fitting,
            "refused": [{"reason": one.reason, "count": one.count, "model": one.model} for one in self.refused],
            "parts": self.part_count,
            "parts_kept": self.kept_parts,
            "already_whole": self.already_whole,
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


@dataclass
class _Counts:
    """What is counted while the table is written."""

    points: int = 0
    predicted: int = 0
    fitting: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, block: Block, columns: Columns) -> None:
        reasons = Counter(reason for reason in columns["reason"] if reason is not None)
        self.points += len(columns["model"])
        self.predicted += len(columns["model"]) - reasons.total()
        self.fitting += sum(fits is True for fits in columns["fits"])
        self.refused += reasons
        for reason in reasons:
            self.first.setdefault(reason, block.model)

    def plain(self) -> dict[str, Any]:
        refused = [{"reason": reason, "count": n, "model": self.first[reason]} for reason, n in self.refused.most_common()]
        return {"points": self.points, "predicted": self.predicted, "fitting": self.fitting, "refused": refused}


def answer(options: SweepOptions, progress: Progress = lambda done, total: None) -> SweptAnswer:
    """Predict every point and write the table."""
    query = ask(options)
    out = query.out
    check_table(out)
    tasks = query.tasks()
    folder = out.with_name(f"{out.name}.parts")
    with alone(folder):
        parts = Parts(folder)
        parts.begin(query.identity(), fresh=query.fresh, out=out)
        kept, already_whole = len(tasks), parts.finished is not None
        if not already_whole:
            kept = carry_out(parts, tasks, block_of, lost=lost_block, on=query.on, progress=progress)
            counts = _Counts()
            write_table(out, COLUMNS, _pieces(parts, len(tasks), counts))
            parts.finish(counts.plain())
        came_out = parts.finished or {}
    return SweptAnswer(
        out=out,
        model_count=len(query.models),
        gpu_count=len(gpus_meant(query.gpus)),
        batches=query.batches,
        precisions=query.precisions,
        **{**came_out, "refused": tuple(Refused(**one) for one in came_out["refused"])},
        part_count=len(tasks),
        kept_parts=kept,
        already_whole=already_whole,
        assumptions=query.assumptions,
        data_date=tables.data_date(),
    )


def _pieces(parts: Parts, count: int, counts: _Counts) -> Iterator[Columns]:
    for data in parts.read(count):
        block = decode(data)
        columns = columns_of(block)
        counts.add(block, columns)
        yield columns


def columns_of(block: Block) -> Columns:
    """The rows of a block, GPU by GPU: one for each point, predicted or not."""
    points, gpus = len(block.batches), len(block.gpus)
    rows = points * gpus
    now = versions()
    same: dict[str, Any] = {
        "model": block.model,
        "mode": block.mode,
        "precision": block.precision or None,
        "seq": block.seq,
        "coverage_fraction": None if block.refusal else block.coverage_fraction,
        "gpuwise_version": now.gpuwise,
        "constants_version": now.constants,
        "data_date": now.data_date,
    }
    found: dict[str, list[Any]] = {name: [value] * rows for name, value in same.items()}
    found["gpu"] = [name for name in block.gpus for _ in range(points)]
    found["batch"] = list(block.batches) * gpus
    found["usable_memory_bytes"] = [value for value in block.usable_bytes for _ in range(points)]
    if block.refusal:
        found["reason"] = [block.refusal] * rows
        return found | {name: [None] * rows for name in COLUMNS if name not in found}
    arrays = {name: block.array(name).T.ravel() for name in ("step_s", "low_s", "high_s", "memory_bytes", "bound", "reason")}
    usable = np.array(found["usable_memory_bytes"])
    rate = np.array(found["batch"]) / arrays["step_s"]
    there = arrays["reason"] == 0
    names = np.array(BOUNDS, dtype=object)[arrays["bound"]]
    figures = {
        "step_s": arrays["step_s"],
        "step_low_s": arrays["low_s"],
        "step_high_s": arrays["high_s"],
        "samples_per_s": rate,
        "memory_bytes": arrays["memory_bytes"],
        "bound": names,
        "fits": arrays["memory_bytes"] <= usable,
    }
    found |= {name: _where(there, values) for name, values in figures.items()}
    found["reason"] = np.array([text or None for text in block.reasons], dtype=object)[arrays["reason"]].tolist()
    return found


def _where(there: Array, values: Array) -> list[Any]:
    """The values as plain Python ones; None where there is none."""
    plain = values.astype(object)
    plain[~there] = None
    found: list[Any] = plain.tolist()
    return found


sweep = face(SweepOptions, answer)
