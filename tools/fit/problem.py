"""All measurements as one least-squares problem in ln(seconds).

The unknowns, all in ln, are the constants of the kernel models; for each software stack, a factor for its class, one for its
source and one of its own; the seconds per call on each host, around the mean of its class; the speed of its copies; the time of a
complete call outside a program's models; and a factor and a start time for each operator table. A step is `((gpu · stack)^6 +
host^6)^(1/6) + copy + its share of a call`, as in `gpuwise.step` and `gpuwise.evidence.score`. Rows are whole steps, then single
operators, then points on power curves, in ln(seconds over those at the highest limit).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from gpuwise.evidence.fits import Fit
from gpuwise.evidence.images import SCRIPT, WEB_UI
from gpuwise.evidence.operators import floor_key
from gpuwise.kernels.limits import longer
from gpuwise.kernels.times import times
from gpuwise.kernels.types import GENERATIONS, Array, Ops

from .curves import Curve
from .parts import KINDS, parts_of
from .priors import PRIORS
from .reports import REPORTED
from .rows import BATCH_12, HOST_NAMES, OperatorRows, StepRow

__all__ = ["BATCH_12", "PIPELINES", "Problem", "class_of"]

LOADING = ("lambda_pytorch", "mac_ml_speed_test")  # real images or text, loaded during the step
OTHER_BUILDS = ("tf_metal_experiments", "itex_max1550", "pytorch_dlprim", "u39kun")  # third-party builds, or years older
PIPELINES = (
    "sd_data_webui",
    "fal_sd",
)  # complete programs around a model, whose figures include text encoder, sampler and decoder
_SMOOTH = 6.0
_CALL_S = 0.3  # assumed time for turning text into tokens and pixels into an image, and for the rest of the program
_STEP_SIGMA, _OPERATOR_SIGMA, _POWER_SIGMA = 0.10, 0.15, 0.05
_REPORT_SIGMA = 0.3  # how much figures from different people differ for the same thing
_OPERATOR_WEIGHT = 40.0  # total weight of the rows of one operator on one GPU
_CURVES_WEIGHT = 30.0  # total weight of the points on all power curves of one GPU
_FEWEST = 12
_FROM_PYTHON_S = {"fp32": 5e-6, "deepbench": 5e-6, "attention": 4e-6}
_GRAPH_S = 5e-7
_QUANTISING_S = 5e-6  # activations are cast before the product
_OF_GENERATIONS = ("matrix", "vector", "bandwidth")  # constants with a value for each generation
# Which kinds of ops a constant touches, by the first part of its name; others touch all.
_TOUCHES = {
    "conv": ("conv",),
    "depthwise": ("conv",),
    "attention": ("attention",),
    "rnn": ("rnn",),
    "bytes": ("memory_bound",),
    "pool": ("memory_bound",),
    "row": ("memory_bound",),
    "half": ("conv", "matmul", "attention"),
    "vector": ("conv", "matmul", "attention", "rnn"),
    "engine": ("conv", "matmul", "attention", "rnn"),
    "matmul": ("matmul", "attention", "rnn"),
    "tile": ("matmul", "attention", "rnn", "conv"),
}


def _host_class(source: str) -> int:
    """Plain scripts, small batches on slow hosts, or programs with hooks around every layer."""
    return 1 if source in BATCH_12 else 2 if source in REPORTED else 0


def class_of(stack: str) -> str:
    """How software runs, regardless of who measured it."""
    source, _, how = stack.split("/")
    if source in BATCH_12:
        return "torch batch-12"
    if source in PIPELINES:
        return f"pipeline {how}"
    if source in LOADING:
        return f"loading {how}"
    if source in OTHER_BUILDS:
        return f"other {how}"
    if how in ("graph", "xla"):
        return f"tf {how}"
    return "torch7" if source == "cnn_benchmarks" else f"torch {how}"


class Problem:
    """The rows, the unknowns with their priors, and predictions of the rows for values of the unknowns."""

    def __init__(self, steps: Sequence[StepRow], operators: Sequence[OperatorRows], curves: Sequence[Curve] = ()) -> None:
        self.steps, self.operators, self.curves = list(steps), list(operators), list(curves)
        self.step_count = len(self.steps)
        self.single_count = sum(len(entry.measured_s) for entry in self.operators)
        self.names = [name for name in PRIORS if name not in HOST_NAMES]
        steps_s: Array = np.array([row.question.measured_s for row in self.steps])
        slower = [1.0 / np.array(curve.relative) for curve in self.curves]
        measured: list[Array] = [steps_s, *(entry.measured_s for entry in self.operators), *slower]
        self.measured: Array = np.log(np.concatenate(measured))
        self._index()
        self.gpu_of_row, self.parts = parts_of(self.steps, self.operators, self.curves)
        self.gpus_of_generation = _by_generation(self)
        self._unknowns()
        self.weight, self.sigma = self._weights()

    def _index(self) -> None:
        """Places of stacks, sources, classes, hosts and tables."""
        self.stacks = sorted({row.stack for row in self.steps})
        self.sources = sorted({stack.split("/")[0] for stack in self.stacks})
        self.classes = sorted({class_of(stack) for stack in self.stacks})
        self.machines = sorted({row.machine for row in self.steps})
        self.tables = sorted({entry.table for entry in self.operators})
        self.stack_of_row = np.array([self.stacks.index(row.stack) for row in self.steps], int)
        self.source_of_stack = np.array([self.sources.index(stack.split("/")[0]) for stack in self.stacks], int)
        self.class_of_stack = np.array([self.classes.index(class_of(stack)) for stack in self.stacks], int)
        self.machine_of_row = np.array([self.machines.index(row.machine) for row in self.steps], int)
        self.slow = np.array([_host_class(machine.split("/")[0]) for machine in self.machines], int)
        self.programs = [source for source in self.sources if source in PIPELINES]
        self.source_of_row = self.source_of_stack[self.stack_of_row]
        self.call_fraction = np.array([row.question.call_fraction for row in self.steps])
        self.host_calls = np.array([row.host_calls for row in self.steps])
        self.copied = np.array([row.copied_bytes for row in self.steps])
        sizes = [len(entry.measured_s) for entry in self.operators]
        self.set_of_row = np.repeat(np.arange(len(sizes)), sizes)
        self.floor = np.array([entry.floor_s for entry in self.operators])[self.set_of_row]
        self.table_of_row = np.array([self.tables.index(entry.table) for entry in self.operators], int)[self.set_of_row]
        lengths = np.array([len(curve.relative) for curve in self.curves], int)
        self.curve_of_row = np.repeat(np.arange(len(lengths)), lengths)
        self.highest = np.repeat(np.cumsum(lengths) - 1, lengths)  # the last point of each curve, among all points

    def _unknowns(self) -> None:
        classes, sources, stacks, machines = (len(x) for x in (self.classes, self.sources, self.stacks, self.machines))
        tight = [0.15 for _ in self.classes]
        quantised = [table.startswith("lowp/") and table != "lowp/bf16" for table in self.tables]
        starts = [
            _QUANTISING_S if cast else _FROM_PYTHON_S.get(table, _GRAPH_S)
            for table, cast in zip(self.tables, quantised, strict=True)
        ]
        factors = [
            0.3 if cast else 0.02 if name in ("fp32", "hw", "products") else 0.10
            for name, cast in zip(self.tables, quantised, strict=True)
        ]
        blocks: dict[str, tuple[Array, Array]] = {
            "constants": _pairs([PRIORS[name] for name in self.names]),
            "class": (np.zeros(classes), np.array(tight)),
            "source": (np.zeros(sources), np.full(sources, 0.12)),
            "stack": (np.zeros(stacks), np.full(stacks, 0.06)),
            "host_class": _pairs([(30e-6, 0.35), (40e-6, 0.35), (40e-6, 0.35)]),
            "host": (np.zeros(machines), np.full(machines, 0.25)),
            "copy": (np.full(machines, np.log(3e9)), np.full(machines, 0.6)),
            "program": (np.full(len(self.programs), np.log(_CALL_S)), np.full(len(self.programs), 0.7)),
            "calls": _pairs([PRIORS[name] for name in HOST_NAMES]),
            "table": (np.zeros(len(self.tables)), np.array(factors)),
            "start": (np.log(starts), np.full(len(starts), 0.6)),
        }
        self.at: dict[str, slice] = {}
        end = 0
        for name, (values, _) in blocks.items():
            self.at[name] = slice(end, end + len(values))
            end += len(values)
        self.prior: Array = np.concatenate([values for values, _ in blocks.values()])
        self.spread: Array = np.concatenate([sigmas for _, sigmas in blocks.values()])

    def _weights(self) -> tuple[Array, Array]:
        """Reduce the weight of many rows of one kind. Except in timm's long list, the weight applies to each model, not to each
        row."""

        def key(row: StepRow) -> tuple[str, ...]:
            cells = row.question.cells
            model = cells["model"] if row.source != "timm" else ""
            return (
                row.source,
                row.question.gpu.name,
                cells["precision"],
                cells["mode"],
                row.stack,
                cells.get("layout", ""),
                model,
            )

        counts = Counter(map(key, self.steps))
        steps = np.array([counts[key(row)] for row in self.steps], float) ** -0.25
        reports = np.array([float(row.question.cells.get("reports", "inf")) for row in self.steps])
        steps = steps / np.sqrt(1.0 + (_REPORT_SIGMA / _STEP_SIGMA) ** 2 / reports)
        sizes = np.array([max(_FEWEST, len(entry.measured_s)) for entry in self.operators], float)
        singles = np.sqrt(_OPERATOR_WEIGHT / sizes)[self.set_of_row] * 0.6
        counts_of = (self.step_count, self.single_count, len(self.curve_of_row))
        sigma = np.repeat([_STEP_SIGMA, _OPERATOR_SIGMA, _POWER_SIGMA], counts_of)
        cards = [curve.gpu.name if curve.fitted else "" for curve in self.curves for _ in curve.relative]
        points = np.sqrt(_CURVES_WEIGHT / np.array([max(_FEWEST, cards.count(card)) for card in cards], float))
        points = points * np.array([float(curve.fitted) for curve in self.curves])[self.curve_of_row]
        return np.concatenate([steps, singles, points]), sigma

    def constants(self, theta: Array) -> dict[str, float]:
        """The constants of the kernel models and of the host, by name."""
        own = zip(self.names, np.exp(theta[self.at["constants"]]), strict=True)
        host = zip(HOST_NAMES, np.exp(theta[self.at["calls"]]), strict=True)
        return {name: float(value) for name, value in (*own, *host)}

    def gpu_seconds(self, theta: Array, kinds: Sequence[str] = KINDS, only: frozenset[str] | None = None) -> dict[str, Array]:
        """Seconds of each row on its GPU by kind of op, without any stack."""
        k = self.constants(theta)
        found = {kind: np.zeros(len(self.measured)) for kind in kinds}
        for part in self.parts:
            used = tuple(group for group in part.ops.groups if group.kind in kinds)
            if not used or (only is not None and part.gpu not in only):
                continue
            seconds = times(Ops(count=part.ops.count, groups=used), part.gpus, k).seconds[:, 0]
            for group in used:
                own = np.zeros(part.ops.count)
                own[group.rows] = seconds[group.rows]
                found[group.kind] += np.bincount(part.row, weights=own[part.op] * part.count, minlength=len(self.measured))
        return found

    def total_seconds(self, theta: Array, only: frozenset[str] | None = None) -> Array:
        """Seconds of each row on its GPU, without any stack. If `only` names GPUs, only for their rows."""
        result: Array = np.sum(list(self.gpu_seconds(theta, only=only).values()), axis=0)
        return result

    def shared_factors(self, theta: Array) -> Array:
        """ln of what each stack shares with others of its class and source."""
        result: Array = theta[self.at["class"]][self.class_of_stack] + theta[self.at["source"]][self.source_of_stack]
        return result

    def stack_factors(self, theta: Array) -> Array:
        """ln of the factor of each stack."""
        result: Array = self.shared_factors(theta) + theta[self.at["stack"]]
        return result

    def host_seconds(self, theta: Array) -> Array:
        """Seconds the host needs for each step."""
        calls = self.host_calls @ np.concatenate([[1.0], np.exp(theta[self.at["calls"]])])
        result: Array = self.launch(theta)[self.machine_of_row] * calls
        return result

    def call_seconds(self, theta: Array) -> Array:
        """Seconds that a complete call of a row's program takes in addition to its models, or 0 without such a program."""
        own = dict(zip(self.programs, np.exp(theta[self.at["program"]]), strict=True))
        result: Array = np.array([own.get(source, 0.0) for source in self.sources])[self.source_of_row]
        return result

    def launch(self, theta: Array) -> Array:
        """Seconds of a layer's call on each machine."""
        result: Array = np.exp(theta[self.at["host"]] + theta[self.at["host_class"]][self.slow])
        return result

    def joined(self, theta: Array, seconds: Array, factors: Array | None = None) -> Array:
        """ln(seconds) of each row. `factors` (ln, by row) replace those of the stacks."""
        own = self.stack_factors(theta)[self.stack_of_row] if factors is None else factors
        busy, host = seconds[: self.step_count] * np.exp(own), self.host_seconds(theta)
        copies = self.copied / np.exp(theta[self.at["copy"]])[self.machine_of_row]
        steps = (busy**_SMOOTH + host**_SMOOTH) ** (1 / _SMOOTH) + copies + self.call_fraction * self.call_seconds(theta)
        single = seconds[self.step_count : self.step_count + self.single_count] * np.exp(
            theta[self.at["table"]][self.table_of_row]
        )
        single = longer(single + np.exp(theta[self.at["start"]])[self.table_of_row], self.floor, _SMOOTH)
        points = seconds[self.step_count + self.single_count :]
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Array = np.log(np.concatenate([steps, single, points / points[self.highest]]))
        return result

    def predicted(self, theta: Array, only: frozenset[str] | None = None, factors: Array | None = None) -> Array:
        """ln(seconds) of each row. If `only` names GPUs, only for their rows."""
        return self.joined(theta, self.total_seconds(theta, only), factors)

    def jacobian(self, theta: Array, step: float = 0.02) -> tuple[Array, Array]:
        """ln(seconds) of each row, and how they change with each unknown."""
        seconds = self.gpu_seconds(theta)
        total: Array = np.sum(list(seconds.values()), axis=0)
        base = self.joined(theta, total)
        slopes = np.zeros((len(self.measured), len(theta)))
        for place in range(len(theta)):
            moved, changed = theta.copy(), total
            moved[place] += step
            if place < len(self.names):
                name = self.names[place]
                only = self.gpus_of_generation.get(name.partition(".")[2]) if name.split(".")[0] in _OF_GENERATIONS else None
                kinds = _TOUCHES.get(name.split(".")[0], KINDS) if only is None else KINDS
                part = self.gpu_seconds(moved, kinds, only)
                touched = np.ones(len(total), bool) if only is None else np.isin(self.gpu_of_row, list(only))
                changed = total + touched * np.sum([part[kind] - seconds[kind] for kind in kinds], axis=0)
            slopes[:, place] = (self.joined(moved, changed) - base) / step
        return base, slopes

    def fit_of(self, theta: Array, gone: Array | None = None) -> Fit:
        """What `gpuwise.evidence` needs to predict with these values. Stacks all of whose rows are `gone` have no factor. A
        version that a source was not measured with gets the product of class and source, under an empty version. An unmeasured
        machine in a class of slow hosts gets the mean of its class, under its source.
        """
        seen = set(self.stack_of_row if gone is None else self.stack_of_row[~gone[: self.step_count]])
        own = zip(self.stacks, self.stack_factors(theta), strict=True)
        factors = {stack: _exp(value) for place, (stack, value) in enumerate(own) if place in seen}
        launch = {machine: float(value) for machine, value in zip(self.machines, self.launch(theta), strict=True)}
        copies = dict(zip(self.machines, map(_exp, theta[self.at["copy"]]), strict=True))
        for stack, value in zip(self.stacks, self.shared_factors(theta), strict=True):
            source, _, how = stack.split("/")
            factors.setdefault(f"{source}//{how}", _exp(value))  # rows without a version have this name already
        for machine, slow in zip(self.machines, self.slow, strict=True):
            source, _, gpu = machine.partition("/")
            if gpu:
                launch[source] = _exp(theta[self.at["host_class"]][slow])
                same = [copies[other] for other in self.machines if other.startswith(f"{source}/")]
                copies[source] = float(np.exp(np.mean(np.log(same))))
        launch[WEB_UI] = _exp(theta[self.at["host_class"]][_host_class(REPORTED[0])])
        return Fit(
            constants=self.constants(theta),
            factors=factors,
            launch_s=launch,
            copy_bytes_per_s=copies,
            call_s=self._calls(theta),
            operator_factor=dict(zip(self.tables, map(_exp, theta[self.at["table"]]), strict=True)),
            operator_start_s=dict(zip(self.tables, map(_exp, theta[self.at["start"]]), strict=True)),
            operator_floor_s=self._floors(gone),
        )

    def _calls(self, theta: Array) -> dict[str, float]:
        """Seconds per call by source, and by kind for programs from other sources."""
        own = dict(zip(self.programs, theta[self.at["program"]], strict=True))
        kinds = {kind: [own[source] for source in own if (source in REPORTED) == (kind == WEB_UI)] for kind in (WEB_UI, SCRIPT)}
        found = own | {kind: float(np.mean(values)) for kind, values in kinds.items() if values}
        return {name: _exp(value) for name, value in found.items()}

    def _floors(self, gone: Array | None) -> dict[str, float]:
        """The minimum time of each operator, as the median over the GPUs that are not `gone`."""
        found: dict[str, list[float]] = defaultdict(list)
        for place, entry in enumerate(self.operators):
            rows = np.flatnonzero(self.set_of_row == place) + self.step_count
            if entry.floor_s and (gone is None or not gone[rows].any()):
                found[floor_key(entry.kind, entry.name)].append(entry.floor_s)
        return {name: float(np.exp(np.median(np.log(values)))) for name, values in found.items()}


def _by_generation(problem: Problem) -> dict[str, frozenset[str]]:
    every = [*(row.question.gpu for row in problem.steps), *(entry.gpu for entry in problem.operators)]
    every += [curve.gpu for curve in problem.curves]
    found: dict[str, set[str]] = {name: set() for name in GENERATIONS}
    for gpu in every:
        found.setdefault(gpu.architecture.generation, set()).add(gpu.name)
    return {name: frozenset(names) for name, names in found.items()}


def _exp(value: float) -> float:
    return float(np.exp(value))


def _pairs(pairs: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    values, sigmas = zip(*pairs, strict=True)
    return np.log(values), np.array(sigmas)
