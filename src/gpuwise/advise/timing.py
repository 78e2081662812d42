"""How long a step takes in one way of running, with all that is not a kernel: micro-batches, links, other GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuwise.advise.ways import Way
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu
from gpuwise.scale.cluster import usual_cluster
from gpuwise.scale.data_parallel import all_reduce_s, exposed_s, gradient_bytes, sharing_s
from gpuwise.step.cpu import cpu_setting, not_hidden_s
from gpuwise.step.segments import slow_s
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run, default_stack, find_stack
from gpuwise.step.types import Setting
from gpuwise.workload.evaluate import product_values
from gpuwise.workload.rewrite_checkpoint import blocks_of
from gpuwise.workload.rewrite_share import without_update
from gpuwise.workload.types import DTYPE_BYTES, Workload

__all__ = ["Bench", "link_bytes_per_s"]

_USUAL_LINK = "PCIe 3.0 x16"
_STAGE_3 = 1.5  # weights are gathered twice and gradients scattered once: three passes for the two of an all-reduce
_SUMS_A_BLOCK = 2  # of split matrices: after attention and after the MLP


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What times depend on beside the way of running: the software and host, a power limit, the user's own measurement."""

    setting: Setting
    power_limit_watts: float | None = None
    factor: float = 1.0

    def step_s(self, way: Way, gpu: Gpu, batch: int, held_bytes: float = 0.0) -> float:
        """Seconds of one step of `batch` samples on each GPU, which holds so many bytes."""
        parts = way.choices.accumulate
        micro = -(-batch // parts)
        seconds, busy = self._simulated(way.workload, way, gpu, micro, held_bytes)
        if parts > 1:
            more, busy_before = self._simulated(without_update(way.workload), way, gpu, micro, held_bytes)
            seconds += (parts - 1) * more
            busy += (parts - 1) * busy_before if way.choices.zero_stage == 3 else 0.0
        waits = self._sharing_s(way, gpu, seconds, busy, micro) + self._offload_s(way, gpu)
        return (seconds + waits) * self.factor

    def _simulated(self, workload: Workload, way: Way, gpu: Gpu, batch: int, held_bytes: float) -> tuple[float, float]:
        """The step alone, and how long the GPU is busy in it."""
        size = np.array([float(batch)]) if "batch" in workload.symbols else None
        seq = np.array([float(workload.seq)]) if "seq" in workload.symbols and workload.seq is not None else None
        setting = as_run(self._setting_of(way), workload)
        if gpu.is_cpu:
            setting = cpu_setting(setting)
        steps = simulate(workload, [gpu], setting, batch=size, seq=seq, power_limit_watts=self.power_limit_watts)
        waits = not_hidden_s(steps) if gpu.is_cpu else 0.0
        waits += slow_s(gpu, held_bytes, sum(float(np.ravel(entry.moved_bytes)[0]) for entry in steps.classes))
        return float(steps.seconds[0, 0]) + waits, float(steps.lanes["gpu"][0, 0])

    def _setting_of(self, way: Way) -> Setting:
        """The software that this way of running asks for."""
        setting, choices = self.setting, way.choices
        if choices.fused_attention and not setting.stack.fused_attention:
            return replace(setting, stack=default_stack(compiled=choices.compiled))
        if choices.compiled and setting.stack.how == "eager":
            if setting.stack.framework == "torch" and not setting.stack.fused_attention:  # before 2.0, which brought compiling
                return replace(setting, stack=default_stack(compiled=True))
            return replace(setting, stack=find_stack(setting.stack.name, compiled=True)[0])
        return setting

    def _sharing_s(self, way: Way, gpu: Gpu, alone_s: float, busy_s: float, micro: int) -> float:
        """What messages between GPUs add to a step; gradients are averaged while the last part is under way."""
        choices, workload = way.choices, way.workload
        if choices.gpu_count == 1:
            return 0.0
        if workload.mode != "train":
            return _split_s(way, gpu, micro)
        if choices.zero_stage:
            passes = 1.0
            if choices.zero_stage == 3:
                passes = _STAGE_3 if choices.accumulate == 1 else (1.0 + 2.0 * choices.accumulate) / 2.0
            return exposed_s(gradient_bytes(workload) * passes, gpu, choices.gpu_count, busy_s)
        size = float(micro) if "batch" in workload.symbols else None
        cluster = usual_cluster(gpu, choices.gpu_count)
        limit = self.power_limit_watts
        return sharing_s(workload, cluster, self._setting_of(way), alone_s, batch=size, power_limit_watts=limit)

    def _offload_s(self, way: Way, gpu: Gpu) -> float:
        """Gradients to the host, the update there, weights back: one after the other."""
        if not way.link_bytes:
            return 0.0
        link = self.setting.link_bytes_per_s or link_bytes_per_s(gpu)
        return way.link_bytes / link + way.host_bytes / self.setting.host.memory_bytes_per_s


def link_bytes_per_s(gpu: Gpu) -> float:
    """What copies between this GPU and its host reach."""
    name = f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes}" if gpu.pcie_generation and gpu.pcie_lanes else _USUAL_LINK
    link = find_link(name)
    return link.bytes_per_s_one_way * link.achieved_fraction


def _split_s(way: Way, gpu: Gpu, micro: int) -> float:
    """What the sums of split matrices add to an answer."""
    if way.choices.split != "matrices":
        return 0.0
    blocks = blocks_of(way.workload)
    handed = _between_blocks(way.workload, blocks[-1], micro)
    return _SUMS_A_BLOCK * len(blocks) * all_reduce_s(handed, gpu, way.choices.gpu_count)


def _between_blocks(workload: Workload, block: str, micro: int) -> float:
    """Bytes that one block hands to the next."""
    last = [call for call in workload.calls if workload.modules[call.module].startswith(block) and call.writes][-1]
    values = product_values(workload, float(micro) if "batch" in workload.symbols else None)[0]
    spec = workload.tensors[workload.buffers[last.writes[0]].tensor]
    return float(values[spec.elements]) * DTYPE_BYTES[spec.dtype]
