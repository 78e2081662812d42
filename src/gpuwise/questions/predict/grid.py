"""One model at several batches and precisions on several GPUs: a step for each, and where the order changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.text import both, the
from gpuwise.evidence.ranges import pair_range
from gpuwise.hardware.types import supported
from gpuwise.questions.common.gpu_list import how_many, named_gpus
from gpuwise.questions.common.options import names
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.common.predictions import predict_captured
from gpuwise.questions.common.step import parse_batch, workload_of
from gpuwise.questions.predict.ask import ask
from gpuwise.questions.predict.options import PredictOptions

__all__ = ["ALIKE", "GridAnswer", "is_grid", "predict_grid"]

ALIKE = 1.05  # times as fast: smaller differences are not called faster
_MOST = 32  # batches: more make no readable table


@dataclass(frozen=True, slots=True, kw_only=True)
class GridAnswer(PredictAnswer):
    """All steps, by precision, then batch, then GPU. `turns` names the fastest GPU by batch, and precisions that do not pay."""

    TEXT: ClassVar[str] = "questions.predict.grid_text.render"
    FIGURE: ClassVar[str] = "questions.predict.grid_figure.grid_figure"

    turns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """In the names of `predict`."""
        return {**PredictAnswer.to_dict(self), "turns": list(self.turns)}


def is_grid(options: PredictOptions) -> bool:
    """Whether several batches or precisions are asked for at once."""
    batch = str(options.batch or "")
    return "," in batch or ".." in batch or "," in options.precision


def predict_grid(options: PredictOptions, progress: Callable[[str], None] = lambda text: None) -> GridAnswer:
    """A step of a model at each batch and precision on each GPU; all batches of a precision share one capture."""
    batches = _batches(str(options.batch)) if options.batch else []
    precisions = [part.strip() for part in options.precision.split(",")]
    if len(set(precisions)) < len(precisions) or ("" in precisions and len(precisions) > 1):
        raise BadValue(
            f"invalid precisions '{options.precision}': the list contains an empty or repeated entry",
            hint="try `--precision fp32,amp`",
        )
    if options.measured:
        raise BadValue(
            "a measured step applies to one batch size and one precision",
            hint="leave out `--measured`, or give one batch and one precision",
        )
    answers = [answer for name in precisions for answer in _in_precision(name, batches, options, progress)]
    results = tuple(result for answer in answers for result in answer.results)
    return GridAnswer(
        model=answers[0].model,
        results=results,
        turns=(*_fastest(results), *_slower_precisions(results)),
        assumptions=_once(note for answer in answers for note in answer.assumptions),
        notes=(*_once(note for answer in answers for note in answer.notes), *_describe_error(results)),
        data_date=answers[0].data_date,
    )


def _batches(text: str) -> list[int]:
    """`8,32,128` as given; `1..128` by doubling, including its end.

    >>> _batches("8,32"), _batches("1..10")
    ([8, 32], [1, 2, 4, 8, 10])
    """
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        low = parse_batch(first.strip()) or 0
        high = (parse_batch(last.strip()) or 0) if dots else low
        if not 1 <= low <= high:
            raise BadValue(f"invalid batch size or range '{part}'", hint="try `--batch 8,32,128` or `--batch 1..128`")
        while low < high:
            found.append(low)
            low *= 2
        found.append(high)
    if len(found) > _MOST:
        raise BadValue(f"{len(found)} batch sizes are too many for one table", hint=f"give at most {_MOST}")
    return list(dict.fromkeys(found))


def _in_precision(
    precision: str, batches: Sequence[int], options: PredictOptions, progress: Callable[[str], None]
) -> list[PredictAnswer]:
    """Predict every batch on the GPUs that support this precision, or on all of them if none does, so that the error names
    one.
    """
    count, texts = how_many(names(options.gpu), options.gpus)
    gpus, _ = named_gpus(texts)
    able = [gpu.name for gpu in gpus if not precision or precision in supported(gpu)]
    kept = [name for name in texts if named_gpus([name])[0][0].name in able] or texts
    query = ask(replace(options, precision=precision, batch=max(batches) if batches else None, gpu=kept, gpus=count))
    workload = workload_of(query, progress)
    if len(batches) > 1 and "batch" not in workload.symbols:
        raise BadValue(f"{workload.model} was captured only at batch {workload.batch}", hint=f"use `--batch {workload.batch}`")
    sizes: list[int | None] = [*batches] or [query.batch]
    return [predict_captured(workload, replace(query, batch=size)) for size in sizes]


def _once(notes: Iterable[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for note in notes:
        if note not in found:
            found.append(note)
    return tuple(found)


def _fastest(results: Sequence[Prediction]) -> list[str]:
    """For each precision, which GPU is the fastest at which batches, and by how much."""
    found = []
    for precision, steps in groupby(results, key=lambda result: result.precision):
        rows = [list(row) for _, row in groupby(steps, key=lambda result: result.batch)]
        if len(rows[0]) < 2:
            continue
        spans = [list(span) for _, span in groupby(rows, key=_winner)]
        found.append(f"{precision}: " + "; ".join(_describe_span(span, last=span is spans[-1]) for span in spans))
    return found


def _describe_error(results: Sequence[Prediction]) -> list[str]:
    """The ratio between GPUs below which a prediction cannot tell which is faster."""
    gpus = {result.gpu.name: result.gpu for result in results}.values()
    if len(gpus) < 2 or any(gpu.is_cpu for gpu in gpus):
        return []
    sure = max(pair_range(one, two).high for one, two in permutations(gpus, 2))
    return [f"differences of less than a factor of {sure:.2g} between GPUs are within the margin of error"]


def _winner(row: Sequence[Prediction]) -> str:
    """Return the fastest GPU, or an empty text if the next one is as fast."""
    ranked = sorted(row, key=lambda result: result.step_s)
    return ranked[0].gpu.name if ranked[1].step_s > ALIKE * ranked[0].step_s else ""


def _describe_span(rows: Sequence[Sequence[Prediction]], *, last: bool) -> str:
    first, end = rows[0][0].batch, rows[-1][0].batch
    where = f"at batch {first}" if first == end else f"from batch {first} on" if last else f"from batch {first} to {end}"
    winner = _winner(rows[0])
    if not winner:
        bounds = {result.bound for row in rows for result in row}
        waits = (
            ", because the host limits all of them"
            if bounds == {"launch"}
            else ", because the data loader limits all of them"
            if bounds == {"input"}
            else ""
        )
        return f"{where}, the fastest GPUs are equally fast{waits}"
    gains = sorted(sorted(result.step_s for result in row)[1] / min(result.step_s for result in row) for row in rows)
    by = f"{gains[0]:.2g}" if f"{gains[0]:.2g}" == f"{gains[-1]:.2g}" else f"{gains[0]:.2g} to {gains[-1]:.2g}"
    return f"{where}, {the(winner)} is {by} times as fast as the next GPU"


def _slower_precisions(results: Sequence[Prediction]) -> list[str]:
    """Return where a precision other than the first makes a step slower."""
    base = {(result.gpu.name, result.batch): result for result in results if result.precision == results[0].precision}
    found = []
    worse = [
        result
        for result in results
        if (first := base.get((result.gpu.name, result.batch))) and result.step_s > ALIKE * first.step_s
    ]
    worse.sort(key=lambda result: (result.gpu.name, result.precision))
    for (name, precision), rows in groupby(worse, key=lambda result: (result.gpu.name, result.precision)):
        sizes = both(str(result.batch) for result in rows)
        found.append(f"{precision} is slower than {results[0].precision} on {the(name)} at batch {sizes}")
    return found
