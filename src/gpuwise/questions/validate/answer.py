"""How accurate are the predictions on unseen machines and models?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.core.text import either
from gpuwise.evidence.collectives import collective_baselines, collective_sets, score_collectives
from gpuwise.evidence.e2e import Question, questions
from gpuwise.evidence.fits import left_out, shipped
from gpuwise.evidence.memory import memory_baselines, memory_questions, score_memory
from gpuwise.evidence.metrics import accuracy, baselines
from gpuwise.evidence.odd_rows import answered, comparable
from gpuwise.evidence.operators import batches, score_operators
from gpuwise.evidence.parallel import parallel_questions, score_parallel
from gpuwise.evidence.ranges import trust_of
from gpuwise.evidence.score import score
from gpuwise.evidence.seen import in_sample
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.today import score_today, today_questions
from gpuwise.evidence.types import Accuracy, Residual, Skipped, Table
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face
from gpuwise.questions.validate.options import BREAKDOWNS, ValidateOptions

__all__ = ["NOISE_FLOOR", "ValidateAnswer", "answer", "corrected", "validate"]

_NAMED = 6  # reasons in an error
# What no predictor can beat, recomputed from published raw files: what changes, and by how much steps differ.
NOISE_FLOOR = (
    ("another node with the same GPU and code", "0.1 to 0.3% (ResNet-50), 2.4 to 2.9% (BERT-base); worst pair 12%"),
    ("a second container on the same GPU model", "median 2%, 90% of pairs below 18%"),
    ("PyTorch 1.10 -> 2.4 on one RTX 3090", "median 1.24 times, 90% below 1.82 times"),
    ("PyTorch 2.4 -> 2.9.1 on one RTX 4090", "median 1.02 times, 90% below 1.06 times"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAnswer(Shown):
    """The accuracy on one table, in all and by GPU, family and source; every residual; why rows were left out.

    On our own table each row is predicted by a fit that has not seen its GPU, and in `unseen_family` by one that has not seen its
    family of models. A file of the user's is predicted by the shipped fit: `unseen_family` is None, and `in_sample` counts the
    rows of sources and GPUs that this fit has seen. `models` are those that a reason in `skipped` is about; `skipped_rows` has
    the reason of each row that was left out.
    """

    TEXT: ClassVar[str] = "questions.validate.text.render"
    FIGURE: ClassVar[str] = "questions.validate.figure.accuracy_figure"

    table: str
    rows: int
    skipped: tuple[tuple[str, int], ...]
    overall: Accuracy
    by: dict[str, dict[str, Accuracy]]
    baselines: dict[str, dict[str, float]]
    residuals: tuple[Residual, ...]
    measured_rows: int
    data_date: date
    unseen_family: Accuracy | None = None
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    in_sample: int = 0
    skipped_rows: tuple[tuple[int, str], ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        figures = {key: value for key, value in asdict(self.overall).items() if key != "rows"}
        return {
            "table": self.table,
            "rows": self.rows,
            "predicted": len(self.residuals),
            "skipped": [{"row": row, "reason": reason, "count": 1} for row, reason in self.skipped_rows],
            "skipped_reasons": [
                {"reason": reason, "count": count, "models": list(self.models.get(reason, ()))} for reason, count in self.skipped
            ],
            **figures,
            "baselines": self.baselines,
            "by": {name: {key: asdict(value) for key, value in groups.items()} for name, groups in self.by.items()},
            "residuals": [
                {
                    "row": row.row,
                    **row.shown(),
                    "unit": row.unit,
                    "gpu": row.gpu,
                    "model": row.labels.get("model", ""),
                    "family": row.labels.get("family", ""),
                }
                for row in self.residuals
            ],
            "measured_rows": self.measured_rows,
            "left_out": None if self.unseen_family is None else "gpu",
            "leave_one_family_out": None if self.unseen_family is None else asdict(self.unseen_family),
            "noise_floor": [{"changed": what, "effect": effect} for what, effect in NOISE_FLOOR],
            "in_sample": self.in_sample,
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def answer(options: ValidateOptions, progress: Callable[[str], None] = lambda text: None) -> ValidateAnswer:
    """Predict and score every row of a file of measurements that can be predicted; without a file our own table, each row with a
    fit that has not seen its GPU."""
    measured_rows = options.measured_rows
    if measured_rows < 0:
        raise BadValue(f"invalid --measured-rows {measured_rows}", hint="give a whole number (0 or more)")
    if options.held_out is None:
        return _own_table(measured_rows, progress)
    table = read_table(Path(options.held_out))
    reasons: Skipped
    if table.kind == "e2e":
        asked, reasons = questions(table, progress)
        progress(f"predicting {len(asked):,} rows")
        residuals = answered(asked, lambda rows, refused: score(rows, refused=refused), reasons)
    elif table.kind == "today":
        rows, reasons = today_questions(table, progress)
        progress(f"predicting {len(rows):,} rows")
        residuals = answered(rows, score_today, reasons)
    elif table.kind == "memory":
        return _memory(table, measured_rows, progress)
    elif table.kind == "parallel":
        steps, reasons = parallel_questions(table)
        progress(f"predicting {len(steps):,} rows")
        residuals = answered(steps, lambda rows, refused: score_parallel(rows, refused=refused), reasons)
    elif table.kind == "collectives":
        return _collectives(table, measured_rows)
    else:
        found, reasons = batches(table)
        residuals = _comparable(score_operators(found), reasons)
    if measured_rows:
        residuals = corrected(residuals, measured_rows)
    return _answer(table, reasons, residuals, measured_rows)


def _comparable(found: list[Residual], reasons: Skipped) -> list[Residual]:
    """Those that can be compared; the others are left out with their reason."""
    refused: dict[int, str] = {}
    kept = comparable(found, refused)
    for row, reason in refused.items():
        reasons.add(row, reason)
    return kept


def _memory(table: Table, measured_rows: int, progress: Callable[[str], None]) -> ValidateAnswer:
    """Bytes instead of seconds, and rules of thumb for memory."""
    asked, reasons = memory_questions(table, progress)
    progress(f"predicting {len(asked):,} rows")
    residuals = answered(asked, lambda rows, refused: score_memory(rows), reasons)
    if measured_rows:
        residuals = corrected(residuals, measured_rows)
    answer = _answer(table, reasons, residuals, measured_rows)
    return replace(answer, baselines=memory_baselines(asked))


def _collectives(table: Table, measured_rows: int) -> ValidateAnswer:
    """Messages between GPUs, and rules of thumb for them."""
    found, reasons = collective_sets(table)
    residuals = _comparable(score_collectives(found), reasons)
    if measured_rows:
        residuals = corrected(residuals, measured_rows)
    answer = _answer(table, reasons, residuals, measured_rows)
    return replace(answer, baselines=collective_baselines(found))


def _own_table(measured_rows: int, progress: Callable[[str], None]) -> ValidateAnswer:
    """The measurements that gpuwise ships, predicted as if their GPU, or their family of models, had never been measured."""
    with as_file(files("gpuwise.evidence") / "data" / "measurements.csv") as path:
        table = read_table(path)
    asked, reasons = questions(table, progress, zoo_only=True)
    progress(f"predicting {len(asked):,} rows, each first without its GPU and then without its model family")
    unseen_gpu = _unseen(asked, "gpu", lambda question: question.gpu.name)
    unseen_family = _unseen(asked, "family", lambda question: question.cells["family"])
    if measured_rows:
        unseen_gpu, unseen_family = (corrected(rows, measured_rows) for rows in (unseen_gpu, unseen_family))
    answer = _answer(table, reasons, unseen_gpu, measured_rows, own=True)
    return replace(answer, unseen_family=accuracy(unseen_family))


def _unseen(asked: Sequence[Question], by: str, label: Callable[[Question], str]) -> list[Residual]:
    """Every question answered by the fit made without its kind. A kind that no fit was made without was in none."""
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in asked:
        groups[label(question)].append(question)
    found: list[Residual] = []
    for name, members in groups.items():
        found += score(members, left_out(by).get(name))
    return sorted(found, key=lambda row: row.row)


def _answer(table: Table, reasons: Skipped, residuals: Sequence[Residual], measured: int, *, own: bool = False) -> ValidateAnswer:
    if not residuals:
        raise _nothing(table, reasons, measured)
    by: dict[str, dict[str, Accuracy]] = {}
    for name in BREAKDOWNS:
        groups: dict[str, list[Residual]] = defaultdict(list)
        for row in residuals:  # an operator's name is its family: there is no model
            groups[row.labels.get(name, row.labels.get("family", "") if name == "model" else "")].append(row)
        by[name] = {key: accuracy(members) for key, members in sorted(groups.items())}
    seen = 0 if own else in_sample(table, residuals)
    return ValidateAnswer(
        table=table.kind,
        rows=table.count,
        skipped=tuple(reasons.most_common()),
        skipped_rows=tuple(sorted(reasons.rows.items())),
        models={reason: tuple(names) for reason, names in reasons.models.items()},
        in_sample=seen,
        assumptions=(*_seen_note(seen, len(residuals)), *_gpu_notes(table, residuals)),
        overall=accuracy(residuals),
        by=by,
        baselines=baselines(residuals),
        residuals=tuple(residuals),
        measured_rows=measured,
        data_date=tables.data_date(),
    )


def _nothing(table: Table, reasons: Counter[str], measured: int) -> BadValue:
    """The error that explains why there is nothing to score."""
    told = [f"{_rows(count)}: {reason}" for reason, count in reasons.most_common(_NAMED)]
    told += [f"and {len(reasons) - _NAMED} other reasons"] if len(reasons) > _NAMED else []
    given = table.count - reasons.total()
    if measured and given:
        told.insert(0, f"{_rows(given)}: used as your own measurements")
        return BadValue(f"no rows are left to score ({'; '.join(told)})", hint="use a smaller `--measured-rows`")
    hint = "spell the model, precision and mode as in `gpuwise predict`, and the GPU as in `gpuwise gpus`"
    return BadValue(f"none of the {_rows(table.count)} can be predicted ({'; '.join(told)})", hint=hint)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _seen_note(seen: int, rows: int) -> tuple[Assumption, ...]:
    """That some rows are no test: the constants were fitted on their source and GPU."""
    if not seen:
        return ()
    effect = "the constants were fitted on the same sources and GPUs, so these errors say little about unmeasured GPUs"
    return (assumed("in sample", f"{seen:,} of {rows:,} rows", effect, basis="fitted"),)


def _gpu_notes(table: Table, residuals: Sequence[Residual]) -> tuple[Assumption, ...]:
    """What names that could mean several GPUs were taken for, each once."""
    taken = {str(table.columns["gpu"][row.row]): row.gpu for row in residuals} if "gpu" in table.columns else {}
    notes = []
    for name, gpu in taken.items():
        try:
            match = load_catalog().find(name)
        except GpuwiseError:
            continue
        meant = match.gpu.name if gpu == name else gpu  # some tables keep the name as given
        others = [one.name for one in (match.gpu, *match.others) if one.name != meant]
        if match.others:
            notes.append(assumed(f"gpu '{name}'", meant, "it could also be " + either(others), code="gpu_name"))
    return tuple(notes)


def corrected(residuals: Sequence[Residual], count: int) -> list[Residual]:
    """The first rows of each (source, model) are the user's own measurements: they correct the others and are not scored.

    The measurements that share most with a row correct it: the same setup on the same GPU, the same setup, the same GPU, or
    else all of them.
    """
    groups: dict[tuple[str, ...], list[Residual]] = defaultdict(list)
    for row in residuals:
        groups[row.group].append(row)
    found = []
    for members in groups.values():
        given, rest = members[:count], members[count:]
        for row in rest:
            factor = _correction(row, given)
            scaled = {name: getattr(row, name) * factor for name in ("predicted_s", "low_s", "high_s")}
            found.append(replace(row, **scaled))
    return sorted(found, key=lambda row: row.row)


def _correction(row: Residual, given: Sequence[Residual]) -> float:
    """What these measurements multiply the prediction of a row by."""
    shared = [(own.setup[2:] == row.setup[2:], own.gpu == row.gpu) for own in given]
    most = max(shared)
    off = [np.log(own.measured_s / own.predicted_s) for own, one in zip(given, shared, strict=True) if one == most]
    fitted = row.known or f"{row.labels['source']}//{row.labels.get('stack') or 'eager'}" in shipped().factors
    return float(np.exp(trust_of(same_setup=most[0], same_gpu=most[1], fitted=fitted) * np.median(off)))


validate = face(ValidateOptions, answer)
