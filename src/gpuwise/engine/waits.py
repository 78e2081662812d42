"""What a step waits for beside its own lanes: other GPUs, memory in a slow segment, work that is left to the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

import numpy as np

from gpuwise.engine.needs import Needs
from gpuwise.engine.run import Run
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu
from gpuwise.scale.cluster.shape import Cluster, usual_cluster
from gpuwise.scale.split.data_parallel import all_reduce_s, averaged, exposed_s, gradient_bytes, slowed_fraction, waits_fraction
from gpuwise.scale.split.timeline import gradients_of, timeline_at
from gpuwise.step.time.segments import slow_s
from gpuwise.step.types import Array, Setting, StepTimes
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import DTYPE_BYTES, Workload
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["link_bytes_per_s", "total", "waits_of"]

_USUAL_LINK = "PCIe 3.0 x16"
_STAGE_3 = 1.5  # weights are gathered twice and gradients scattered once: three passes for the two of an all-reduce
_SUMS_A_BLOCK = 2  # of split matrices: after attention and after the MLP
Passes = Sequence[tuple[StepTimes, int]]


def total(parts: Iterable[Array]) -> Array:
    """The sum of arrays of one shape."""
    return reduce(np.add, parts)


def waits_of(
    workload: Workload, gpus: Sequence[Gpu], run: Run, setting: Setting, micro: Sequence[int], passes: Passes, needs: Needs
) -> dict[str, Array]:
    """Seconds beside the lanes by what they wait for, of micro-batches of these sizes. `passes` are the micro-batches of a step,
    the last first, each with how often it runs."""
    found = {}
    if run.gpu_count > 1:
        found["communication"] = _communication_s(workload, gpus, run, setting, micro, passes)
    slow = _slow_s(gpus, micro, passes, needs)
    if slow is not None:
        found["memory"] = slow
    if run.offloaded_bytes:
        seconds = [_offloaded_s(gpu, run) for gpu in gpus]
        found["copy"] = np.broadcast_to(np.array(seconds), (len(micro), len(gpus)))
    return found


def _slow_s(gpus: Sequence[Gpu], micro: Sequence[int], passes: Passes, needs: Needs) -> Array | None:
    """For what lies in a slow segment of memory; None where no GPU has one."""
    places = [place for place, gpu in enumerate(gpus) if gpu.slow_memory_bytes_per_s is not None]
    if not places:
        return None
    found = np.zeros((len(micro), len(gpus)))
    for place in places:
        for point, size in enumerate(micro):
            moved = sum(float(times.moved_bytes[point, 0]) * count for times, count in passes)
            found[point, place] = slow_s(gpus[place], needs.total_bytes(gpus[place], size), moved)
    return found


def _offloaded_s(gpu: Gpu, run: Run) -> float:
    """Gradients to the host, the update there, weights back: one after the other."""
    link = run.setting.link_bytes_per_s or link_bytes_per_s(gpu)
    return run.offloaded_bytes / link + run.host_bytes / run.setting.host.memory_bytes_per_s


def link_bytes_per_s(gpu: Gpu) -> float:
    """What copies between this GPU and its host reach."""
    name = f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes}" if gpu.pcie_generation and gpu.pcie_lanes else _USUAL_LINK
    link = find_link(name)
    return link.bytes_per_s_one_way * link.achieved_fraction


# ---------------------------------------------------------------- several GPUs


@lru_cache(maxsize=1024)
def _joined(gpu: Gpu, count: int, link: str = "") -> Cluster:
    """So many GPUs as they are usually joined, or by this link alone."""
    return usual_cluster(gpu, count, link=link)


def _communication_s(
    workload: Workload, gpus: Sequence[Gpu], run: Run, setting: Setting, micro: Sequence[int], passes: Passes
) -> Array:
    """What messages between GPUs, and waiting for each other, add to a step."""
    if workload.mode != "train":
        return _summed_s(workload, gpus, run, micro)
    if run.zero_stage:
        return _sharded_s(workload, gpus, run, passes)
    last, slowed = passes[0][0], slowed_fraction(setting)
    alone = total(times.seconds * count for times, count in passes)
    found = np.zeros_like(alone, dtype=np.float64)
    for point, size in enumerate(micro):
        gradients = gradients_of(workload, float(size) if "batch" in workload.symbols else None)
        for place, gpu in enumerate(gpus):
            line = timeline_at(workload, last, point, place)
            cluster = run.cluster or _joined(gpu, run.gpu_count, run.gpu_link)
            exposed = averaged(line, gradients, cluster, slowed_fraction=slowed).exposed_s
            found[point, place] = exposed + waits_fraction(run.gpu_count) * (alone[point, place] + exposed)
    return found


def _sharded_s(workload: Workload, gpus: Sequence[Gpu], run: Run, passes: Passes) -> Array:
    """With the optimizer's state divided: averaging while the last micro-batch runs; stage 3 also gathers weights in each."""
    rounds = 1.0
    busy = passes[0][0].lanes["gpu"]
    if run.zero_stage == 3:
        rounds = _STAGE_3 if run.accumulate == 1 else (1.0 + 2.0 * run.accumulate) / 2.0
        busy = total(times.lanes["gpu"] * count for times, count in passes)
    moved = gradient_bytes(workload) * rounds
    return np.array([[exposed_s(moved, gpu, run.gpu_count, float(row[place])) for place, gpu in enumerate(gpus)] for row in busy])


def _summed_s(workload: Workload, gpus: Sequence[Gpu], run: Run, micro: Sequence[int]) -> Array:
    """What the sums of split matrices add to an answer; GPUs that run samples of their own wait for nobody."""
    if not run.splits_matrices:
        return np.zeros((len(micro), len(gpus)))
    blocks = blocks_of(workload)
    handed = [_between_blocks(workload, blocks[-1], size) for size in micro]
    times = _SUMS_A_BLOCK * len(blocks)
    return np.array([[times * all_reduce_s(size, gpu, run.gpu_count) for gpu in gpus] for size in handed])


def _between_blocks(workload: Workload, block: str, micro: int) -> float:
    """Bytes that one block hands to the next."""
    last = [call for call in workload.calls if workload.modules[call.module].startswith(block) and call.writes][-1]
    values = product_values(workload, float(micro) if "batch" in workload.symbols else None)[0]
    spec = workload.tensors[workload.buffers[last.writes[0]].tensor]
    return float(values[spec.elements]) * DTYPE_BYTES[spec.dtype]
