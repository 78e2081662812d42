"""What a user gives for a plan, checked."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.plan_case import PlanQuery
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import step_options
from gpuwise.scale.cluster.shape import parse_cluster
from gpuwise.scale.plans.rules import AXES, Limits
from gpuwise.scale.plans.types import RECOMPUTE, SCHEDULES

__all__ = ["plan_query"]

_STAGES = range(4)


def plan_query(
    *,
    cluster: str,
    network: str = "",
    link: str = "",
    batch: int | None = None,
    scaling: bool = True,
    on: str = "",
    data: int | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    sequence: int | None = None,
    expert: int | None = None,
    chunks: int | None = None,
    micro_batch: int | None = None,
    zero_stage: int | None = None,
    recompute: str = "",
    schedule: str = "1f1b",
    offload: bool | None = None,
    **asked: Any,
) -> PlanQuery:
    """The question as typed: the options of `predict`, a cluster, and what is fixed of the plan."""
    found, notes = parse_cluster(cluster, network=network, link=link)
    if batch is not None and not 1 <= batch < 2**31:
        raise BadValue(f"a batch of {batch:,} cannot be run", hint="samples of a step on all GPUs together, 1 or more")
    given = {"data": data, "tensor": tensor, "pipeline": pipeline, "sequence": sequence, "expert": expert, "chunks": chunks}
    fixed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in AXES:
        if fixed.get(name, 1) < 1:
            raise BadValue(f"--{name} {fixed[name]} is no number of ranks", hint="1 or more")
    if schedule not in SCHEDULES:
        raise BadValue(f"'{schedule}' is no schedule", looked_in=", ".join(SCHEDULES), hint="`--chunks 2` interleaves 1f1b")
    if schedule == "gpipe" and fixed.setdefault("chunks", 1) > 1:
        raise BadValue("gpipe has one chunk a stage", hint="leave `--chunks` or `--schedule gpipe` out")
    fixed |= _settings(micro_batch, zero_stage, recompute, offload)
    step = step_query(step_options(asked), gpus=[gpu for gpu, _ in found.kinds])
    return PlanQuery(
        step=step,
        cluster=found,
        batch=batch,
        limits=Limits(fixed=fixed),
        schedule=schedule,
        scaling=scaling,
        on=on,
        assumptions=tuple(notes),
    )


def _settings(micro_batch: int | None, zero_stage: int | None, recompute: str, offload: bool | None) -> dict[str, Any]:
    fixed: dict[str, Any] = {}
    if micro_batch is not None:
        if micro_batch < 1:
            raise BadValue(f"--micro-batch {micro_batch} is no number of samples", hint="1 or more")
        fixed["micro_batch"] = micro_batch
    if zero_stage is not None:
        if zero_stage not in _STAGES:
            raise BadValue(f"ZeRO has no stage {zero_stage}", looked_in="0, 1, 2, 3", hint="3 is what FSDP does")
        fixed["zero_stage"] = zero_stage
    if recompute:
        if recompute not in RECOMPUTE:
            raise BadValue(
                f"'{recompute}' is no recomputation", looked_in=", ".join(RECOMPUTE), hint="for example `--recompute full`"
            )
        fixed["recompute"] = recompute
    fixed["offload"] = bool(offload)
    return fixed
