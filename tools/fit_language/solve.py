"""Fits one engine, and predicts rows that were left out of the fit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwise.evidence.generation import GenerationRow, predicted_s, predicted_value
from gpuwise.kernels.times import load_constants

from .kernels import KernelSet
from .problem import Problem, common_constants, family_constants, stack_maker, touches, touches_kernel

Array = NDArray[np.float64]
_NOISE, _HUBER, _ROUNDS, _LEAST_ROWS = 0.08, 1.5, 12, 3
_STEP = 0.02  # step of a logarithm for numerical derivatives
_NEAR = 0.5  # as a logarithm; while constants move by less than this, the slopes of the whole fit are used
_KERNEL_NOISE = 0.12  # for a kernel timed alone; two engines differ by that much on one shape
_SPLIT_PROMPT = 0.3  # weight of prompts read by several GPUs, whose gain follows rules that no row states


def logs(problem: Problem, theta: Array) -> Array:
    """The logarithms of the predictions, for each row in its own unit, then for each kernel in seconds."""
    values = {name: math.exp(value) for name, value in zip(problem.names, theta, strict=True)}
    seconds = predicted_s(problem.rows, stack_maker(values))
    found = [math.log(predicted_value(row, float(time))) for row, time in zip(problem.rows, seconds, strict=True)]
    return np.concatenate([found, *(np.log(_kernel_s(problem, one, values)) for one in problem.kernels)])


def _kernel_s(problem: Problem, one: KernelSet, values: dict[str, float]) -> Array:
    known = load_constants()
    own = {**common_constants(values, problem.engine, problem.newest, known), **family_constants(values, one.family)}
    return one.seconds({**known, **own})


def measured_logs(problem: Problem) -> Array:
    """The logarithms of the measurements, in the same order."""
    return np.concatenate([[math.log(row.value) for row in problem.rows], *(np.log(one.measured_s) for one in problem.kernels)])


def precisions_of(problem: Problem) -> Array:
    """Rows of one model on one GPU in one format are similar, so their total weight is the square root of their number. The same
    applies to kernels of one kind on one GPU."""
    rows = problem.rows
    groups = [(row.cells["source"], row.gpu.name, row.shape.name, row.cells["mode"], row.format_name) for row in rows]
    counts = Counter(groups)
    several = [_SPLIT_PROMPT if row.gpu_count > 1 and row.cells["mode"] == "prefill" else 1.0 for row in rows]
    own = [factor / math.sqrt(counts[group]) for group, factor in zip(groups, several, strict=True)]
    kernels = [np.full(len(one.measured_s), 1.0 / math.sqrt(len(one.measured_s))) for one in problem.kernels]
    return np.concatenate([own, *kernels])


def _noise_of(problem: Problem) -> Array:
    kernels = sum(len(one.measured_s) for one in problem.kernels)
    return np.concatenate([np.full(len(problem.rows), _NOISE), np.full(kernels, _KERNEL_NOISE)])


def fitted(problem: Problem, start: Array | None = None, rounds: int = _ROUNDS, known: Array | None = None) -> Array:
    """The constants with the smallest loss, found with the Levenberg-Marquardt algorithm. The loss is Huber's loss of the
    logarithms plus the distance from the priors. Slopes that are `known` from a fit nearby are kept in all rounds."""
    theta = problem.middle if start is None else start.copy()
    measured, noise = measured_logs(problem), _noise_of(problem)
    weight, middle, precision = precisions_of(problem), problem.middle, 1.0 / problem.spread**2

    def loss(at: Array, found: Array) -> float:
        far = np.abs(found - measured) / noise
        huber = np.where(far < _HUBER, far**2 / 2, _HUBER * far - _HUBER**2 / 2)
        return float((weight * huber).sum() + 0.5 * (precision * (at - middle) ** 2).sum())

    found = logs(problem, theta)
    best, damping = loss(theta, found), 1.0
    for _ in range(rounds):
        slope = slopes(problem, theta, found) if known is None else known
        far = np.abs(found - measured) / noise
        robust = weight * np.minimum(1.0, _HUBER / np.maximum(far, 1e-9)) / noise**2
        normal = (slope * robust[:, None]).T @ slope
        gradient = (slope * robust[:, None]).T @ (found - measured) + precision * (theta - middle)
        gained = 0.0
        for _ in range(6):
            matrix = normal + np.diag(precision) + damping * np.diag(np.diag(normal) + 1e-6)
            trial = theta + np.clip(-np.linalg.solve(matrix, gradient), -1.0, 1.0)
            there = logs(problem, trial)
            if loss(trial, there) < best:
                gained = best - loss(trial, there)
                theta, found, best, damping = trial, there, loss(trial, there), max(damping / 4, 1e-3)
                break
            damping *= 4
        if gained < 0.05:
            break
    return theta


def slopes(problem: Problem, theta: Array, found: Array) -> Array:
    """How every logarithm changes with every constant, as (logarithms, constants)."""
    return np.stack([_slope(problem, theta, found, place) for place in range(len(theta))], axis=1)


def _slope(problem: Problem, theta: Array, found: Array, place: int) -> Array:
    """How every logarithm changes with one constant. Only the rows that it affects are predicted again."""
    name, step = problem.names[place], theta.copy()
    step[place] += _STEP
    rows = [touches(name, row) for row in problem.rows]
    kernels = [touches_kernel(name, one, problem.newest) for one in problem.kernels]
    where = np.concatenate(
        [rows, *(np.full(len(one.measured_s), yes) for one, yes in zip(problem.kernels, kernels, strict=True))]
    )
    where = where.astype(bool)
    changed = np.zeros(len(found))
    if where.any():
        part = replace(
            problem,
            rows=tuple(row for row, yes in zip(problem.rows, rows, strict=True) if yes),
            kernels=tuple(one for one, yes in zip(problem.kernels, kernels, strict=True) if yes),
        )
        changed[where] = (logs(part, step) - found[where]) / _STEP
    return changed


Key = Callable[[GenerationRow], tuple[str, ...]]


def _gpu(row: GenerationRow) -> tuple[str, ...]:
    return (row.gpu.name,)


def _model(row: GenerationRow) -> tuple[str, ...]:
    return (row.shape.name,)


def _gpu_and_source(row: GenerationRow) -> tuple[str, ...]:
    return (row.gpu.name, row.cells["source"])


FOLDS: dict[str, Key] = {"GPU unseen": _gpu, "model unseen": _model, "GPU and source unseen": _gpu_and_source}


def left_out(problem: Problem, whole: Array, key: Key) -> Array:
    """Predicted over measured for every row, as logarithms. For each row, the engine is fitted without all rows that share a part
    of its key and, if that part is a GPU, without its kernels. If too few rows remain, only the priors are used."""
    rows, found = problem.rows, np.zeros(len(problem.rows))
    slope = slopes(problem, whole, logs(problem, whole))
    groups = defaultdict(list)
    for place, row in enumerate(rows):
        groups[key(row)].append(place)
    known: dict[tuple[object, ...], Array] = {}  # the remaining rows may be the same for different GPUs
    for parts, places in groups.items():
        kept = tuple(row for row in rows if not any(one == other for one, other in zip(parts, key(row), strict=True)))
        kernels = tuple(one for one in problem.kernels if one.gpu.name not in parts)
        enough = len(kept) >= _LEAST_ROWS or kernels
        left = (*(row.row for row in kept), *map(id, kernels))
        if enough and left not in known:
            part = replace(problem, rows=kept, kernels=kernels)
            places_kept = _kept(problem, part)
            theta = fitted(part, start=whole, known=slope[places_kept])
            known[left] = theta if np.abs(theta - whole).max() < _NEAR else fitted(part, start=theta, rounds=3)
        theta = known[left] if enough else problem.middle
        tested = replace(problem, rows=tuple(rows[place] for place in places), kernels=())
        found[places] = logs(tested, theta) - measured_logs(tested)
    return found


def _kept(problem: Problem, part: Problem) -> Array:
    """Which logarithms of a problem those of a part of it are."""
    rows, kernels = set(map(id, part.rows)), set(map(id, part.kernels))
    of_kernels = [np.full(len(one.measured_s), id(one) in kernels) for one in problem.kernels]
    return np.concatenate([np.array([id(row) in rows for row in problem.rows], bool), *of_kernels])


def inside(problem: Problem, theta: Array) -> Array:
    """Predicted over measured for every row, as logarithms, with constants that were fitted to these rows."""
    found: Array = (logs(problem, theta) - measured_logs(problem))[: len(problem.rows)]
    return found
