"""What does a model ask of a GPU?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.api.showing import Shown
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.core.units import parse_memory
from gpuwise.hardware import tables
from gpuwise.workload import find
from gpuwise.workload.capture.request import InputSpec, Request, parse_input
from gpuwise.workload.capture.settings import Settings
from gpuwise.workload.model.coverage import Coverage, coverage
from gpuwise.workload.model.evaluate import Peak, Totals, call_counts, op_bytes, op_flops, peak_memory, product_values, totals
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files, zoo

__all__ = ["CaptureAnswer", "CaptureQuery", "KindRow", "capture", "capture_query", "captured"]

_TRAINING_ONLY = {
    "optimizer": "--optimizer",
    "implementation": "--optimizer-impl",
    "accumulate": "--accumulate",
    "checkpoint": "--checkpoint",
    "clip": "--clip",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureQuery:
    """Which model, how, and how long it may take. `asked` names the settings that were given, not assumed."""

    request: Request
    compiled: bool = False
    timeout_s: float = 120.0
    memory_limit_bytes: float = 16e9
    output: Path | None = None
    asked: frozenset[str] = frozenset()
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """All calls of one kind of op."""

    kind: str
    calls: int
    flops: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureAnswer(Shown):
    """A workload with its totals at its own size."""

    workload: Workload
    totals: Totals
    peak: Peak
    coverage: Coverage
    kinds: tuple[KindRow, ...]
    output: Path | None
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer in the names of the JSON contract."""
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


def capture_query(
    *,
    model: str,
    arguments: Sequence[str] = (),
    batch: int | None = None,
    seq: int | None = None,
    image: int | None = None,
    precision: str = "",
    mode: str = "",
    optimizer: str = "",
    implementation: str = "",
    accumulate: int | None = None,
    checkpoint: bool = False,
    channels_last: bool = False,
    clip: bool = False,
    compiled: bool = False,
    phase: str = "",
    inputs: Sequence[str] = (),
    timeout_s: float = 120.0,
    memory_limit: str = "16GB",
    output: Path | None = None,
) -> CaptureQuery:
    """The question as typed, checked and completed with stated defaults."""
    if phase not in ("", "prefill", "decode"):
        raise BadValue(f"'{phase}' is no phase", looked_in="prefill, decode", hint="leave it out for other models")
    mode = mode or ("infer" if phase else "")  # only inference has phases
    given: dict[str, Any] = {"mode": mode, "precision": precision, "optimizer": optimizer, "implementation": implementation}
    given |= {"accumulate": accumulate, "checkpoint": checkpoint, "channels_last": channels_last, "clip": clip}
    chosen = {name: value for name, value in given.items() if value is not None and value is not False and value != ""}
    own = find.tells_itself(model)
    notes = () if own else _assumptions(model, mode or "train", chosen)
    settings = Settings(**({"optimizer": "none"} | {note.code: note.value for note in notes} | chosen))
    if settings.mode == "infer" and not own:
        _refuse_training_only(chosen)
    sizes = {"image": image, "phase": phase, "inputs": tuple(inputs)}
    request = Request(
        model=model,
        batch=batch,
        seq=seq,
        image=image,
        phase=phase,
        settings=settings,
        inputs=_inputs(inputs),
        arguments=tuple(arguments),
    )
    return CaptureQuery(
        request=request,
        compiled=compiled,
        timeout_s=_timeout(timeout_s),
        memory_limit_bytes=_memory(memory_limit),
        output=output,
        asked=frozenset((*chosen, *(name for name, value in sizes.items() if value not in (None, "", ())))),
        assumptions=notes,
    )


def _inputs(texts: Sequence[str]) -> tuple[InputSpec, ...]:
    found = tuple(parse_input(text) for text in texts)
    names = [spec.name for spec in found]
    for name in names:
        if names.count(name) > 1:
            raise BadValue(f"the input '{name}' is given {names.count(name)} times", hint="give each `--input` once")
    return found


def _timeout(timeout_s: float) -> float:
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise BadValue(f"a timeout of {timeout_s:g} s is none", hint="a number of seconds above 0, such as `--timeout 120`")
    return timeout_s


def _memory(text: str) -> float:
    limit = parse_memory(text)
    if not 1 <= limit < 2**60:
        raise BadValue(f"a memory limit of '{text}' is none", hint="between 1 byte and 1 EB, such as `--memory-limit 16GB`")
    return limit


def _refuse_training_only(chosen: Mapping[str, object]) -> None:
    for name, flag in _TRAINING_ONLY.items():
        if name in chosen and (name, chosen[name]) not in (("optimizer", "none"), ("accumulate", 1)):
            raise BadValue(f"{flag} changes nothing in inference", hint=f"leave {flag} out, or use `--mode train`")


def _assumptions(model: str, mode: str, chosen: Mapping[str, object]) -> tuple[Assumption, ...]:
    """What was taken for granted because the user did not say."""
    found = []
    if "precision" not in chosen:
        found.append(assumed("precision", "fp32", "what PyTorch does if nothing is said; --precision amp is faster"))
    if "optimizer" not in chosen and mode == "train":
        usual = zoo.entry(model).optimizer if zoo.has(model) else ""
        reason = "what this model is usually trained with" if usual else "the most common choice"
        found.append(assumed("optimizer", usual or "adamw", f"{reason}; --optimizer changes it"))
    return tuple(found)


def capture(query: CaptureQuery, progress: Callable[[str], None] = lambda text: None) -> CaptureAnswer:
    """The workload of a model: from the zoo, a workload file, or captured in a subprocess."""
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


def captured(query: CaptureQuery, progress: Callable[[str], None] = lambda text: None) -> Workload:
    """The workload alone, for questions that go on with it."""
    return find.workload(
        query.request,
        asked=query.asked,
        compiled=query.compiled,
        timeout_s=query.timeout_s,
        memory_bytes=query.memory_limit_bytes,
        progress=progress,
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
