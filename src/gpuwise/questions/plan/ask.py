"""Turns the options of `plan` into its question."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.common.plan_case import PlanQuery
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.plan.options import PlanOptions
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.rules import AXES, Limits
from gpuwise.scale.plans.types import RECOMPUTE, SCHEDULES

__all__ = ["ask"]

_ZERO_STAGES = range(4)
_WHOLE = ("tensor", "expert")  # axes that divide matrices


def ask(options: PlanOptions) -> PlanQuery:
    """Return one model on one cluster, checked, with the parts of the plan that the user fixed."""
    cluster, notes = parse_cluster(options.cluster, network=options.network, link=options.link)
    if options.batch is not None and not 1 <= options.batch < 2**31:
        raise BadValue(
            f"invalid batch size {options.batch:,}", hint="give the number of samples per step across all GPUs (1 or more)"
        )
    fixed = _fixed_axes(options) | _fixed_settings(options)
    if options.method.strip().lower() in METHODS:
        fixed |= _with_adapters(options)
    return PlanQuery(
        step=_step(options, cluster),
        cluster=cluster,
        batch=options.batch,
        limits=Limits(fixed=fixed),
        schedule=options.schedule,
        scaling=options.scaling,
        on=options.on,
        assumptions=tuple(notes),
    )


def _step(options: PlanOptions, cluster: Cluster) -> StepQuery:
    """The step on one GPU of each kind; the plan chooses its batch."""
    step = StepOptions(
        options.model,
        seq=options.seq,
        image=options.image,
        precision=options.precision,
        optimizer=options.optimizer,
        method=options.method,
        rank=options.rank,
        targets=options.targets,
        mode=options.mode,
        compile=options.compile,
        channels_last=options.channels_last,
        stack=options.stack,
        cpu=options.cpu,
        power_limit=options.power_limit,
        measured=options.measured,
        input=options.input,
        timeout=options.timeout,
    )
    return step_query(step, gpus=[gpu for gpu, _ in cluster.kinds])


def _fixed_axes(options: PlanOptions) -> dict[str, Any]:
    """Return the ranks of each axis that the user fixed, and the chunks that the schedule allows."""
    given = {
        "data": options.data,
        "tensor": options.tensor,
        "pipeline": options.pipeline,
        "sequence": options.sequence,
        "expert": options.expert,
        "chunks": options.chunks,
    }
    fixed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in AXES:
        if fixed.get(name, 1) < 1:
            raise BadValue(f"invalid --{name} {fixed[name]}", hint="give a number of ranks (1 or more)")
    if options.schedule not in SCHEDULES:
        raise BadValue(
            f"unknown schedule '{options.schedule}'",
            known=", ".join(SCHEDULES),
            hint="for an interleaved pipeline, use 1f1b with `--chunks 2`",
        )
    if options.schedule == "gpipe" and fixed.setdefault("chunks", 1) > 1:
        raise BadValue(
            "the gpipe schedule allows only one chunk per stage", hint="leave out either `--chunks` or `--schedule gpipe`"
        )
    return fixed


def _with_adapters(options: PlanOptions) -> dict[str, Any]:
    """Return the axes that are not divided with adapters: PEFT and bitsandbytes keep matrices whole."""
    for axis in _WHOLE:
        if (getattr(options, axis) or 1) > 1:
            raise BadValue(
                f"`--{axis} {getattr(options, axis)}` divides matrices, which `--method {options.method}` keeps whole",
                hint=f"leave out `--{axis}`; use `--zero 3` (FSDP) to divide the frozen weights among the GPUs",
            )
    return dict.fromkeys(_WHOLE, 1)


def _fixed_settings(options: PlanOptions) -> dict[str, Any]:
    """Micro-batch, ZeRO stage, recomputation and offload where the user fixed them."""
    fixed: dict[str, Any] = {}
    if options.micro_batch is not None:
        if options.micro_batch < 1:
            raise BadValue(f"invalid --micro-batch {options.micro_batch}", hint="give a number of samples (1 or more)")
        fixed["micro_batch"] = options.micro_batch
    if options.zero is not None:
        if options.zero not in _ZERO_STAGES:
            raise BadValue(
                f"unknown ZeRO stage {options.zero}",
                known="0, 1, 2, 3",
                hint="use one of these stages; FSDP corresponds to `--zero 3`",
            )
        fixed["zero_stage"] = options.zero
    if options.recompute:
        if options.recompute not in RECOMPUTE:
            raise BadValue(
                f"unknown recomputation mode '{options.recompute}'",
                known=", ".join(RECOMPUTE),
                hint="try `--recompute full`",
            )
        fixed["recompute"] = options.recompute
    fixed["offload"] = options.offload
    return fixed
