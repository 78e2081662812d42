"""What does a model need from a GPU?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware import tables
from gpuwise.questions.capture.ask import ask
from gpuwise.questions.capture.options import CaptureOptions
from gpuwise.questions.common.capturing import captured
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face
from gpuwise.workload.model.coverage import Coverage, coverage
from gpuwise.workload.model.evaluate import Peak, Totals, call_counts, op_bytes, op_flops, peak_memory, product_values, totals
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files

__all__ = ["CaptureAnswer", "KindRow", "answer", "capture"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """All calls of one kind of op."""

    kind: str
    calls: int
    flops: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureAnswer(Shown):
    """A workload with its totals at the captured size."""

    TEXT: ClassVar[str] = "questions.capture.text.render"

    workload: Workload
    totals: Totals
    peak: Peak
    coverage: Coverage
    kinds: tuple[KindRow, ...]
    output: Path | None
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        workload = self.workload
        return {
            "model": workload.model,
            "source": workload.source,
            "mode": workload.mode,
            "precision": workload.precision,
            "optimizer": workload.optimizer,
            "batch": workload.batch,
            "seq": workload.seq,
            "parameters": workload.parameters,
            "forward_flops": self.totals.forward_flops,
            "backward_flops": self.totals.backward_flops,
            "optimizer_flops": self.totals.optimizer_flops,
            "read_bytes": self.totals.read_bytes,
            "written_bytes": self.totals.written_bytes,
            "ops": [
                {"kind": row.kind, "calls": row.calls, "flops": row.flops, "moved_bytes": row.moved_bytes} for row in self.kinds
            ],
            "op_count": len(workload.calls),
            "peak_allocated_bytes": self.peak.total_bytes,
            "peak_by_category": {f"{name}_bytes": value for name, value in self.peak.by_category.items()},
            "coverage_fraction": self.coverage.bytes_fraction,
            "coverage": {
                "calls_fraction": self.coverage.calls_fraction,
                "flops_fraction": self.coverage.flops_fraction,
                "bytes_fraction": self.coverage.bytes_fraction,
            },
            "unknown_ops": self.coverage.unknown,
            "symbolic": list(workload.symbols),
            "notes": list(workload.notes),
            "output": str(self.output) if self.output else None,
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def answer(options: CaptureOptions, progress: Callable[[str], None] = lambda text: None) -> CaptureAnswer:
    """The workload of a model: from the zoo, a workload file, or captured in a subprocess."""
    query = ask(options)
    if query.output is not None:
        files.check_output(query.output)
    workload = captured(query, progress)
    if query.output is not None:
        files.write(workload, query.output)
    return CaptureAnswer(
        workload=workload,
        totals=totals(workload),
        peak=peak_memory(workload),
        coverage=coverage(workload),
        kinds=_by_kind(workload),
        output=query.output,
        assumptions=query.assumptions,
        data_date=tables.data_date(),
    )


def _by_kind(workload: Workload) -> tuple[KindRow, ...]:
    values = product_values(workload)
    counts = call_counts(workload).sum(axis=0)
    read, written = op_bytes(workload, values)
    flops = op_flops(workload, values)[0]
    rows: dict[str, list[float]] = {}
    for column, op in enumerate(workload.ops):
        row = rows.setdefault(op.kind, [0.0, 0.0, 0.0])
        row[0] += counts[column]
        row[1] += counts[column] * flops[column]
        row[2] += counts[column] * (read[0, column] + written[0, column])
    found = (KindRow(kind=kind, calls=int(n), flops=float(f), moved_bytes=float(b)) for kind, (n, f, b) in rows.items())
    return tuple(sorted(found, key=lambda row: (-row.flops, -row.moved_bytes)))


capture = face(CaptureOptions, answer)
