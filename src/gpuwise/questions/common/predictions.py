"""How fast will a model run on a GPU, and what limits it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either, the
from gpuwise.core.units import format_si
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu, convolves_in_tf32
from gpuwise.prediction import Run, Steps, predict_steps
from gpuwise.prediction.ways import Needs
from gpuwise.questions.common.device_notes import device_notes
from gpuwise.questions.common.fit_command import fit_of
from gpuwise.questions.common.peaks import above_peak, step_peak, tf32_fraction
from gpuwise.questions.common.prediction_types import OpShare, PredictAnswer, Prediction
from gpuwise.questions.common.step import StepQuery, step_query, workload_of
from gpuwise.scale.cluster.collectives import collective_s, gradient_bytes
from gpuwise.scale.cluster.shape import Cluster, usual_cluster
from gpuwise.step.memory.peak import MemorySetting
from gpuwise.step.time.least import LEAST_RESTS_ON
from gpuwise.step.time.setting import as_run
from gpuwise.step.types import BOUNDS
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.types import CATEGORIES, Workload
from gpuwise.workload.store.speech import audio_s

__all__ = [
    "predict",
    "predict_captured",
    "predict_query",
    "prediction_of",
    "sized",
    "tokens_of",
]

predict_query = step_query
_WELL_COVERED = 0.9  # share of the bytes a step moves: if less is known, the range is wide enough for a warning
_NAMED = 3  # unknown ops that the warning names
_AT_LIMIT = (assumed("low end of the range", "the hardware's limit", LEAST_RESTS_ON),)


def predict(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> PredictAnswer:
    """A step of this model on each of these GPUs."""
    return predict_captured(workload_of(query, progress), query)


def sized(workload: Workload, query: StepQuery) -> tuple[Run, dict[str, int]]:
    """Return how the steps are run, and the batch of each GPU: as requested or, for `auto`, the largest power of two that
    fits. A measured step has the batch that its own GPU would get.
    """
    if query.batch == 0 and "batch" not in workload.symbols:
        raise BadValue(f"{workload.model} was captured only at batch {workload.batch}", hint="leave out `--batch auto`")
    needs = Needs(workload, MemorySetting(gpu_count=query.run.gpu_count))

    def size(gpu: Gpu) -> int:
        return needs.power_of_two(gpu) if query.batch == 0 else query.batch or workload.batch

    measured = tuple(replace(one, batch=size(one.gpu)) for one in query.run.measured)
    return replace(query.run, measured=measured), {gpu.name: size(gpu) for gpu in query.gpus}


def predict_captured(workload: Workload, query: StepQuery) -> PredictAnswer:
    """A step of this workload on each GPU of the question."""
    run, batches = sized(workload, query)
    by_gpu = {gpu.name: predict_steps(workload, [gpu], run, [batches[gpu.name]]) for gpu in query.gpus}
    shared = [*query.assumptions, *_shared_notes(workload, query)]
    measured = by_gpu[query.gpus[0].name].correction.notes()
    results = []
    for gpu in query.gpus:
        result = replace(prediction_of(by_gpu[gpu.name]), **_told(workload, query))
        own = (
            *result.assumptions,
            *_own_note(by_gpu[gpu.name]),
            *_sharing_note(workload, query, result),
            *_peak_note(workload, query, result),
        )
        ranged = not by_gpu[gpu.name].is_own[0, 0] and not query.on_this_machine
        own = (*own, *device_notes(gpu, run.setting.stack, result.memory.total_bytes, ranged=ranged))
        results.append(replace(result, assumptions=(*shared, *measured, *own)))
    if query.on_this_machine:
        from gpuwise.questions.common.here import as_measured_here

        results = [as_measured_here(workload, result) for result in results]
    return PredictAnswer(
        model=workload.model,
        results=tuple(results),
        assumptions=(*shared, *measured),
        notes=(*workload.notes, *_coverage_notes(workload), *_fit_note(query, results)),
        data_date=tables.data_date(),
    )


def _told(workload: Workload, query: StepQuery) -> dict[str, Any]:
    """Return what is trained, and the tokens of a sample."""
    tuning = query.tuning
    return {
        "method": tuning.title(workload.precision) if tuning else "",
        "trained_parameters": workload.options.get("trained_parameters"),
        "tokens": tokens_of(workload),
        "audio_s": None if workload.options.get("phase") else audio_s(workload),
        "samples": "images" if workload.options.get("image") else "samples",
    }


def tokens_of(workload: Workload) -> int | None:
    """Return the tokens of one sample that a step processes: its whole sequence, or one when decoding; None if it has no
    tokens.
    """
    inputs = [workload.tensors[buffer.tensor] for buffer in workload.buffers if CATEGORIES[buffer.category] == "input"]
    if workload.seq is None or not any(tensor.dtype == "int64" for tensor in inputs):
        return None
    return 1 if workload.options.get("phase") == "decode" else workload.seq


def _shared_notes(workload: Workload, query: StepQuery) -> list[Assumption]:
    """What is assumed about the model on all GPUs."""
    notes = []
    if query.batch is None:
        effect = "the usual size for this model; `--batch auto` uses the largest power of two that fits"
        notes.append(assumed("batch", str(workload.batch), effect))
    if workload.seq is not None and query.capture.request.seq is None:
        notes.append(assumed("seq", str(workload.seq), "the usual length for this model"))
    rounded = as_run(query.run.setting, workload).tf32_convolutions and any(map(convolves_in_tf32, query.gpus))
    if rounded and any(op.kind == "conv" for op in workload.ops):
        notes.append(
            assumed("convolutions", "TF32 on GPUs that have it", "PyTorch's default in fp32; matrix products stay in fp32")
        )
    return notes


def _fit_note(query: StepQuery, results: Sequence[Prediction]) -> tuple[str, ...]:
    """Return the command to run next if a step does not fit."""
    short = [result.gpu for result in results if not result.fits and not query.on_this_machine]
    if not short:
        return ()
    names = either(the(gpu.name) for gpu in short)
    return (f"the model does not fit on {names}; to see what would make it fit, run `{fit_of(query, short)}`",)


def prediction_of(steps: Steps, place: int = 0) -> Prediction:
    """Return the first of these steps on one of the GPUs, in the form of the answer."""
    workload, gpu, run = steps.workload, steps.gpus[place], steps.run
    seconds, scale = float(steps.step_s[0, place]), float(steps.scale[place])
    memory = steps.memory(0, place)
    rounded = tf32_fraction(workload, steps.setting, gpu)
    peak = step_peak(gpu, workload.precision, rounded)
    return Prediction(
        gpu=gpu,
        gpu_count=run.gpu_count,
        mode=workload.mode,
        precision=workload.precision,
        batch=steps.batches[0],
        seq=workload.seq,
        step_s=seconds,
        step_low_s=float(steps.low_s[0, place]),
        step_high_s=float(steps.high_s[0, place]),
        range_basis="measured" if steps.widths.rows[0, place] else "assumed",
        bound=steps.bound_name(0, place),
        bound_fractions={name: float(steps.bound_fractions[name][0, place]) for name in BOUNDS},
        lanes_s={name: float(lane[0, place]) * scale for name, lane in steps.last.lanes.items()},
        memory=memory,
        fits=memory.total_bytes <= gpu.usable_memory_bytes + gpu.slow_memory_bytes,
        coverage_fraction=coverage(workload).bytes_fraction,
        utilisation_fraction=run.accumulate * float(steps.last.flops[0, 0]) / seconds / peak if peak else None,
        peak_flops_per_s=peak,
        computes_in=f"{workload.precision} with convolutions in TF32" if rounded else workload.precision,
        by_op=_by_op(steps, scale, place),
        assumptions=_AT_LIMIT if steps.at_limit[0, place] else (),
    )


def _sharing_note(workload: Workload, query: StepQuery, result: Prediction) -> tuple[Assumption, ...]:
    """What several GPUs are assumed to do."""
    if result.gpu_count == 1:
        return ()
    if workload.mode != "train":
        return (assumed("gpus", f"{result.gpu_count} independent GPUs", "each GPU processes its own samples"),)
    notes: list[Assumption] = []
    cluster: Cluster = usual_cluster(result.gpu, result.gpu_count, link=query.run.gpu_link, notes=notes)
    seconds = float(collective_s("all_reduce", gradient_bytes(workload), cluster, cluster.gpus_per_node, cluster.node_count))
    waits = result.bound_fractions["communication"]
    effect = (
        f"it adds {waits:.0%} to the step, including time spent waiting for other GPUs; the rest overlaps with the backward pass"
    )
    value = f"{format_si(seconds, 's')} between {result.gpu_count} GPUs over {cluster.gpu_link.name}"
    return (*notes, assumed(f"{result.gpu.name} gradient averaging", value, effect, code="averaging"))


def _peak_note(workload: Workload, query: StepQuery, result: Prediction) -> tuple[Assumption, ...]:
    """Return why a step seems to exceed the peak, if it does."""
    used = result.utilisation_fraction
    if used is None or used <= 1:
        return ()
    effect = above_peak(workload, measured=bool(query.run.measured))
    return (
        assumed(f"{result.gpu.name} utilisation", f"{used:.0%} of its nominal peak", effect, basis="computed", code="above_peak"),
    )


def _own_note(steps: Steps) -> tuple[Assumption, ...]:
    if not steps.is_own[0, 0]:
        return ()
    own_s, effect = float(steps.step_s[0, 0]), "your own measurement; the op times are scaled to match it"
    return (assumed(f"{steps.gpus[0].name} step", format_si(own_s, "s"), effect, basis="measured", code="measured_step"),)


def _coverage_notes(workload: Workload) -> tuple[str, ...]:
    """A warning where the time of much of the model is estimated from its bytes alone."""
    seen = coverage(workload)
    if seen.bytes_fraction >= _WELL_COVERED:
        return ()
    names = list(seen.unknown)
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    share = f"known ops account for only {seen.bytes_fraction:.0%} of the bytes that this step moves"
    return (f"{share}; the time for the other ops ({shown}) is estimated from their bytes alone, so the range is wide",)


def _by_op(steps: Steps, factor: float, place: int) -> tuple[OpShare, ...]:
    """Return all ops of the step: each micro-batch has those of the last one, but the update comes once."""
    rows = []
    for entry in steps.last.classes:
        times = 1 if entry.kind == "optimizer" else steps.run.accumulate
        rows.append(
            OpShare(
                op=entry.kind,
                count=times * entry.count,
                seconds=times * float(entry.seconds[0, place]) * factor,
                bound="compute" if entry.compute_s[0, place] > 0.5 * entry.seconds[0, place] else "memory",
                flops=times * float(np.ravel(entry.flops)[0]),
                moved_bytes=times * float(np.ravel(entry.moved_bytes)[0]),
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))
