"""Measurements as input for the fit, prepared by `gpuwise.evidence` itself, so that the fit and `gpuwise validate` cannot
differ.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuwise.evidence.e2e import Question, questions
from gpuwise.evidence.operators import Batch, batches, fitted_table
from gpuwise.evidence.score import copied_bytes, setting_of
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.today import today_questions
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Array, Group, Ops, dtype_code
from gpuwise.step.time import simulate
from gpuwise.step.time.simulate import choices_of, ops_of
from gpuwise.workload.model.evaluate import call_counts
from gpuwise.workload.model.types import Workload

from .reports import image_questions

__all__ = ["BATCH_12", "HOST_NAMES", "OperatorRows", "StepRow", "operator_rows", "read_batches", "sampled", "step_rows"]

BATCH_12 = ("ryujaehun", "lamikr")  # scripts with small batches and slow hosts, on many people's machines
HOST_NAMES = ("host.attention", "host.cast", "host.light", "host.conv_backward", "host.backward", "host.optimizer")
_ROWS = {"ops_fp32": 120, "gemm_lowp": 200, "attention": 200, "deepbench": 10_000}  # of a GPU and operator
_FILES = ("ops_fp32.parquet", "gemm_lowp.parquet", "attention.parquet", "deepbench.csv")
_FROM_PYTHON = ("ops_fp32", "deepbench")  # their shortest rows are launches, not work
_LAUNCHES = 2.5
_SHORTEST = 0.02  # share of an operator's rows that gives its time regardless of size
_FEWEST = 5
_COMMUNITY_SIDE = 8192.0  # the size from 1024 to 10240 at which most cards are fastest
_LARGE_FLOPS, _LARGE_BYTES = 1e9, 1.5e7  # smaller products say more about the serving stack than about the GPU
# The pages give only these names. The others are in the catalogue under their own name.
_MEANT = {"V100 16GB": "V100 PCIe 16GB", "P100 16GB": "P100 PCIe 16GB", "A100 40GB": "A100 PCIe 40GB", "V100": "V100 PCIe 16GB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One measured step. `host_calls` are the calls that the host issues, in units of a layer's forward call, followed by what
    each of `HOST_NAMES` multiplies."""

    question: Question
    ops: Ops
    calls: Array
    host_calls: Array
    copied_bytes: float

    @property
    def stack(self) -> str:
        cells = self.question.cells
        return f"{cells['source']}/{cells.get('framework_version', '')}/{cells.get('stack', 'eager') or 'eager'}"

    @property
    def source(self) -> str:
        return self.question.cells["source"]

    @property
    def machine(self) -> str:
        """The host. There is one for each source, or one for each GPU if a source collected results from many people."""
        return f"{self.source}/{self.question.gpu.name}" if self.source in BATCH_12 else self.source

    @property
    def family(self) -> str:
        return self.question.cells.get("family", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRows:
    """The rows for one operator on one GPU. `table` has its own factor and start time, and `floor_s` is the minimum time for any
    size."""

    table: str
    kind: str
    name: str
    gpu: Gpu
    ops: Ops
    measured_s: Array
    floor_s: float = 0.0


def step_rows(folder: Path, progress: Callable[[str], None]) -> list[StepRow]:
    """Every row of e2e.csv on one GPU that can be predicted, and current training workloads."""
    asked, reasons = questions(read_table(folder / "e2e.csv"), progress)
    recent, others = today_questions(read_table(folder / "today_training.csv"), progress)
    for reason, count in (reasons + others).most_common():
        progress(f"left out {count}: {reason}")
    asked += [row.question for row in recent if row.question is not None and row.unit != "GiB"]
    asked += image_questions(folder)
    asked = [replace(question, row=number) for number, question in enumerate(asked)]
    memo: dict[tuple[object, ...], tuple[Ops, Array, Array]] = {}
    return [_step_row(question, memo) for question in asked if question.gpu_count == 1]


def _step_row(question: Question, memo: dict[tuple[object, ...], tuple[Ops, Array, Array]]) -> StepRow:
    setting, _ = setting_of(question)
    choices = choices_of(setting)
    workload, compiled = question.workload, question.cells.get("stack", "")
    batch = question.batch if "batch" in workload.symbols else None
    beside = tuple((id(part.workload), part.batch, part.share) for part in question.around)
    key = (question.request, compiled, batch, question.seq, choices, setting.stack.host_factor, beside)
    if key not in memo:
        counts = call_counts(workload)
        found = [(ops_of(workload, batch, question.seq, choices), counts.sum(axis=0), _host_calls(question, workload))]
        for part in question.around:
            calls, host = call_counts(part.workload).sum(axis=0), _host_calls(question, part.workload)
            found.append((ops_of(part.workload, part.batch, None, choices), part.share * calls, part.share * host))
        memo[key] = _together(found)
    ops, calls, host = memo[key]
    return StepRow(question=question, ops=ops, calls=calls, host_calls=host, copied_bytes=copied_bytes(question))


def _together(found: Sequence[tuple[Ops, Array, Array]]) -> tuple[Ops, Array, Array]:
    """Several workloads as one, with their ops one after the other, each called as often as before."""
    groups, base = [], 0
    for ops, _, _ in found:
        groups += [replace(group, rows=group.rows + base) for group in ops.groups]
        base += ops.count
    calls = np.concatenate([calls for _, calls, _ in found])
    return Ops(count=base, groups=tuple(groups)), calls, np.sum([host for _, _, host in found], axis=0)


def _host_calls(question: Question, workload: Workload) -> Array:
    """The terms of the step's own formula, which is linear in these constants."""
    setting, _ = setting_of(question)
    counts = call_counts(workload)
    setting = replace(setting, host=replace(setting.host, launch_s=1.0))
    zero = dict.fromkeys(HOST_NAMES, 0.0)
    base = simulate._host_s(workload, counts, setting, zero)
    others = [simulate._host_s(workload, counts, setting, {**zero, name: 1.0}) - base for name in HOST_NAMES]
    return np.array([base, *others])


def read_batches(folder: Path) -> list[Batch]:
    """Every operator table."""
    return [batch for name in _FILES for batch in batches(read_table(folder / name))[0]]


def operator_rows(found: Sequence[Batch], folder: Path) -> list[OperatorRows]:
    """A sample of every operator table, and the measurements of hardware alone."""
    chance = np.random.default_rng(0)
    taken = []
    for batch in found:
        places = _some(_worth(batch), _ROWS[batch.table], chance)
        if len(places) >= _FEWEST:
            taken.append(_taken(batch, places))
    return [*taken, *_hardware_rows(folder / "hardware_measured.csv"), *_product_rows(folder / "today_matmul.csv")]


def sampled(found: Sequence[Batch], count: int = 300) -> list[Batch]:
    """A limited number of rows for each operator on each GPU, large and small, for scoring."""
    chance = np.random.default_rng(1)
    picked = []
    for batch in found:
        places = _some(np.arange(len(batch.rows)), count, chance)
        columns = {name: column[places] for name, column in batch.columns.items()}
        rows = [batch.rows[place] for place in places]
        picked.append(replace(batch, rows=rows, columns=columns, measured_s=batch.measured_s[places], flops=batch.flops[places]))
    return picked


def _some(places: Array, count: int, chance: np.random.Generator) -> Array:
    return places if len(places) <= count else np.sort(chance.choice(places, count, replace=False))


def _worth(batch: Batch) -> Array:
    """Rows that show the GPU at work."""
    if batch.table == "gemm_lowp":
        m, n, k = (batch.columns[name][:, 0] for name in "mnk")
        return np.flatnonzero((2 * m * n * k >= _LARGE_FLOPS) | (2 * (m * k + n * k) >= _LARGE_BYTES))
    if batch.table in _FROM_PYTHON:
        return np.flatnonzero(batch.measured_s > _LAUNCHES * batch.measured_s.min())
    return np.arange(len(batch.rows))


def _taken(batch: Batch, places: Array) -> OperatorRows:
    columns = {name: column[places] for name, column in batch.columns.items()}
    return OperatorRows(
        table=fitted_table(batch),
        kind=batch.table,
        name=batch.name,
        gpu=batch.gpu,
        ops=_ops(batch.kind, columns),
        measured_s=batch.measured_s[places],
        floor_s=float(np.quantile(batch.measured_s, _SHORTEST)) if batch.table in _FROM_PYTHON else 0.0,
    )


def _ops(kind: str, columns: Mapping[str, Any]) -> Ops:
    shaped = {name: np.asarray(column, float).reshape(-1, 1) for name, column in columns.items()}
    count = len(next(iter(shaped.values())))
    return Ops(count=count, groups=(Group(kind=kind, rows=np.arange(count), columns=shaped),))


def _hardware_rows(path: Path) -> list[OperatorRows]:
    with path.open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    found = []
    for row in cells:
        value = float(row["value"])
        if row["quantity"] in ("stream_scale_bandwidth", "memory_bandwidth"):
            ops, seconds = _stream(), 2e9 / (value * 1e9)
        elif row["quantity"] == "max_achievable_matmul_bf16" and "Gaudi" not in row["gpu"]:
            ops, seconds = _square(), 2 * 16384.0**3 / (value * 1e12)
        else:
            continue
        gpu = load_catalog().find(_MEANT.get(row["gpu"], row["gpu"])).gpu
        name = ops.groups[0].kind
        found.append(OperatorRows(table="hw", kind="hw", name=name, gpu=gpu, ops=ops, measured_s=np.array([seconds])))
    return found


def _product_rows(path: Path) -> list[OperatorRows]:
    """The best square matrix products in PyTorch on many cards, once for each precision and card."""
    asked, _ = today_questions(read_table(path))
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    gpus = {row.gpu.name: row.gpu for row in asked}
    for row in asked:
        values[(row.gpu.name, row.precision)].append(row.value)
    found = []
    for (name, precision), rates in values.items():
        ops, rate = _square(_COMMUNITY_SIDE, precision), float(np.median(rates))
        seconds = np.array([2 * _COMMUNITY_SIDE**3 / (rate * 1e12)])
        found.append(OperatorRows(table="products", kind="products", name=precision, gpu=gpus[name], ops=ops, measured_s=seconds))
    return found


def _stream() -> Ops:
    return _ops("memory_bound", {"class": 0, "read": 1e9, "written": 1e9, "launches": 1, "looked": 0})


def _square(side: float = 16384.0, precision: str = "bf16") -> Ops:
    sizes = {"batch": 1, "m": side, "n": side, "k": side, "aligned": 1, "dtype": dtype_code(precision)}
    width = 4 if precision in ("fp32", "tf32") else 2
    return _ops("matmul", {**sizes, "read": 2 * width * side**2, "written": width * side**2})
