"""Turns samples and steps of a watched run into the values that live checks read."""

from __future__ import annotations

import os
from statistics import mean

from gpuwise.diagnose.vitals import Vitals
from gpuwise.live.sample.steps import Pace
from gpuwise.live.sample.types import Run
from gpuwise.questions.common.gpu_vitals import gpu_vitals

__all__ = ["used_gpus", "vitals_of"]

_USED = 0.05
_WITHOUT_STEPS = (
    "gpuwise detects the steps of Python programs that use torch's DataLoader and optimizers, or Keras; "
    "in other programs, mark steps with `for batch in gpuwise.watch(loader):`"
)


def vitals_of(run: Run, pace: Pace | None, expected_s: float | None = None) -> Vitals:
    """Return the values for the run."""
    hosts = [sight.host for sight in run.sights if sight.host is not None]
    cores = [mean(host.core_fractions) for host in hosts if host.core_fractions]
    own = [host.own_cores / len(host.core_fractions) for host in hosts if host.own_cores is not None and host.core_fractions]
    delays = [host.delayed_fraction for host in hosts if host.delayed_fraction is not None]
    return Vitals(
        step_s=pace.mean_s if pace else 0.0,
        wait_s=pace.wait_s if pace else 0.0,
        wait_cpu_s=pace.wait_cpu_s if pace else 0.0,
        cpu_s=pace.cpu_s if pace else 0.0,
        work_low_s=pace.work_low_s if pace else 0.0,
        workers=pace.workers if pace else None,
        expected_s=expected_s,
        core_count=len(hosts[-1].core_fractions) if hosts else os.cpu_count() or 0,
        cores_used_fraction=mean(cores) if cores else None,
        own_cores_fraction=mean(own) if own else None,
        delayed_fraction=mean(delays) if delays else None,
        gpus=tuple(gpu_vitals(tuple(run.of_gpu(index)), run.pids) for index in used_gpus(run)),
        blind=next((fault for fault in run.faults if "GPU" in fault), "the run was too short to observe a GPU"),
        without_steps=_WITHOUT_STEPS,
        faults=run.faults,
    )


def used_gpus(run: Run) -> tuple[int, ...]:
    """Return the GPUs that the run uses: where its processes are listed, else those that were busy, else all."""
    samples = [gpu for sight in run.sights for gpu in sight.gpus]
    listed = {gpu.index for gpu in samples if any(one.pid in run.pids for one in gpu.processes or ())}
    busy = {gpu.index for gpu in samples if (gpu.busy_fraction or 0.0) > _USED}
    return tuple(sorted(listed or busy or {gpu.index for gpu in samples}))
