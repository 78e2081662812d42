"""How much of its speed a workload keeps when a GPU is held to fewer watts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwise.core.errors import BadValue
from gpuwise.engine.run import Run
from gpuwise.engine.steps import predict_steps
from gpuwise.hardware.types import Gpu
from gpuwise.workload.model.types import Workload

__all__ = ["power_curve"]


def power_curve(
    workload: Workload, gpu: Gpu, run: Run, limits_watts: Sequence[float], batch: int | None = None
) -> tuple[float, ...]:
    """Speed of one step under each limit, against that under the limit the board is sold with; higher limits add nothing."""
    for limit in limits_watts:
        if not 0 < limit < math.inf:
            raise BadValue(
                f"a GPU cannot be held to {limit:g} W", looked_in="the power limits asked for", hint="give watts above 0"
            )
    limits = (*map(float, limits_watts), math.inf)
    size = batch or workload.batch
    steps = predict_steps(workload, [gpu] * len(limits), run, [size], limits_watts=limits, by_kind=False)
    *seconds, sold = steps.step_s[0].tolist()
    return tuple(sold / taken for taken in seconds)
