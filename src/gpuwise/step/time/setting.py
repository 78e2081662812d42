"""The environment of a step's kernels: software stacks by name, the host that loads images, memory in two segments, and CPUs used
in place of GPUs.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.core.errors import BadValue
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu, Host, Loader
from gpuwise.step.types import Setting, Stack
from gpuwise.workload.model.types import Workload

__all__ = [
    "CPU_FACTOR",
    "CPU_LAUNCH",
    "CPU_RANGE",
    "as_run",
    "default_stack",
    "fast_part",
    "find_stack",
    "images_per_s",
    "seconds_per_image",
    "slow_s",
    "spilled_bytes",
    "stacks",
    "workers_for",
]

# ---------------------------------------------------------------- software
# Software stacks by name: a framework, its version, eager or compiled, and the factor measured for it.
#
# `tools/fit` writes `data/stacks.json`. A version that was not measured uses the nearest one that was, with a remark.

_NAMES = {"torch": "torch", "pytorch": "torch", "tf": "tf", "tensorflow": "tf", "keras": "tf", "torch7": "torch7"}
_TF32_SINCE = (1, 7)
_FUSED_SINCE = (2, 0)  # the first PyTorch with scaled_dot_product_attention
_WAYS = ("eager", "compile", "graph", "xla")
# The time that the host needs per op, compared with eager PyTorch. TensorFlow issues graphs from C++ (assumed: 2.9 us on a
# server). torch.compile is not listed: it leaves fewer ops, but its wrapper issues each of them from Python. In the times that
# Hugging Face published for PyTorch 2.0 (docs/accuracy-published.md), an op of a compiled step costs the host about as much as an
# op of an eager one.
_HOST_FACTORS = {"graph": 0.08, "xla": 0.08}
_NEWEST = (10**6, 0)
Version = tuple[int, int]


class _Row(msgspec.Struct):
    framework: str
    version: str | float
    how: str
    factor: float
    rows: int


@cache
def stacks() -> tuple[Stack, ...]:
    """Return every measured stack, oldest first within a framework."""
    data = (files("gpuwise.step") / "data" / "stacks.json").read_bytes()
    rows = msgspec.json.decode(data, type=list[_Row])
    return tuple(sorted(map(_stack, rows), key=lambda stack: (stack.framework, stack.version)))


def _stack(row: _Row) -> Stack:
    version = _version(str(row.version))
    shown = ".".join(map(str, version)) if row.framework != "torch7" else str(version[0])
    return Stack(
        name=f"{row.framework}-{shown}" + ("" if row.how == "eager" else f" {row.how}"),
        framework=row.framework,
        version=version,
        how=row.how,
        factor=row.factor,
        rows=row.rows,
        fused_attention=_is_fused(row.framework, version),
        host_factor=_HOST_FACTORS.get(row.how, 1.0),
    )


def _version(text: str) -> Version:
    """Return a version as numbers: `1.12` comes after `1.4`."""
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def as_run(setting: Setting, workload: Workload) -> Setting:
    """Return which ops may run as TF32: all fp32 products if requested or under autocast; convolutions in PyTorch since 1.7
    (`torch.backends.cudnn.allow_tf32`).
    """
    stack = setting.stack
    return replace(
        setting,
        tf32=workload.precision in ("tf32", "amp", "amp-bf16"),
        tf32_convolutions=workload.precision == "fp32" and stack.framework == "torch" and stack.version >= _TF32_SINCE,
    )


def default_stack(compiled: bool = False) -> Stack:
    """Return the most common stack: the newest PyTorch that was measured."""
    return _nearest("torch", _NEWEST, "compile" if compiled else "eager")


def find_stack(text: str, compiled: bool = False) -> tuple[Stack, str]:
    """Return the stack for `torch-2.4`, `pytorch 1.12` or `tf-2.15`, and a remark if that version was not measured.

    >>> find_stack("torch-2.4")[0].name
    'torch-2.4'
    """
    found = re.fullmatch(
        r"\s*([a-z]+7?)[\s=_-]*v?(\d{1,4}(?:\.\d{1,4})?)?(?:\.\S*)?\s*(eager|compile|graph|xla)?\s*", text.lower()
    )
    framework = _NAMES.get(found[1]) if found else None
    if found is None or framework is None:
        known = ", ".join(dict.fromkeys(stack.name for stack in stacks()))
        raise BadValue(f"unknown software stack '{text}'", known=known, hint="try `--stack torch-2.4`")
    version = _version(found[2]) if found[2] else _NEWEST
    ways = {stack.how for stack in stacks() if stack.framework == framework}
    how = found[3] or (
        "compile" if compiled and "compile" in ways else "xla" if compiled else "eager" if "eager" in ways else "graph"
    )
    nearest = _nearest(framework, version, how)
    remark = (
        ""
        if nearest.version == version or not found[2]
        else f"{framework} {found[2]} was not measured, so the nearest measured version, {nearest.name}, is used"
    )
    return nearest, remark


def _nearest(framework: str, version: Version, how: str) -> Stack:
    """Return the measured stack nearest in version, preferring the same major version and, if two are equally near, the older
    one. It never runs attention in a different way.
    """
    same = [stack for stack in stacks() if stack.framework == framework and stack.how == how]
    if not same:
        raise BadValue(f"{framework} was not measured in {how} mode", known=", ".join(_WAYS), hint=f"leave out '{how}'")
    alike = [stack for stack in same if stack.fused_attention == _is_fused(framework, version)]
    if not alike:
        known = ", ".join(stack.name for stack in same)
        raise BadValue(
            f"no version close to {framework} {'.'.join(map(str, version))} was measured in {how} mode",
            known=known,
            hint=f"try `--stack {same[0].framework}-{'.'.join(map(str, same[0].version))}`",
        )
    era = [stack for stack in alike if stack.version[0] == version[0]] or alike
    return min(era, key=lambda stack: (abs(_number(stack.version) - _number(version)), stack.version))


def _is_fused(framework: str, version: Version) -> bool:
    return framework == "torch" and version >= _FUSED_SINCE


def _number(version: Version) -> int:
    """Return versions on one scale, on which no minor version reaches the next major one."""
    major, minor = version
    return major * 10_000 + minor


# ---------------------------------------------------------------- images
# How fast a host loads images: its cores decode and transform them, and the training process collects them.


def seconds_per_image(loader: Loader, host: Host) -> float:
    """Return the time that one core of this host spends on an image. Hosts are assumed to differ as they do in the time to
    launch ops.
    """
    return (loader.decode_s + loader.transform_s) * _slowness(loader, host)


def images_per_s(loader: Loader, host: Host, workers: float) -> float:
    """Return the images per second for one training process with this many workers, each with its own core."""
    return 1.0 / (seconds_per_image(loader, host) / workers + loader.handover_s * _slowness(loader, host))


def workers_for(loader: Loader, host: Host, rate: float) -> float:
    """Return the number of workers, each with a core, that load this many images per second; infinite if one process cannot
    collect them.
    """
    left = 1.0 / rate - loader.handover_s * _slowness(loader, host)
    return math.ceil(seconds_per_image(loader, host) / left) if left > 0 else math.inf


def _slowness(loader: Loader, host: Host) -> float:
    return host.launch_s / find_host(loader.host).launch_s


# ---------------------------------------------------------------- two segments
# Memory in two segments: the slow one is read through a narrow path (the GTX 970's last half gigabyte).
#
# The two paths cannot be used at the same time, so the fast segment has the remaining bandwidth. Drivers fill it first.


def fast_part(gpu: Gpu) -> Gpu:
    """Return the GPU with the bandwidth of its fast segment only."""
    if gpu.slow_memory_bytes_per_s is None:
        return gpu
    return replace(gpu, memory_bytes_per_s=gpu.memory_bytes_per_s - gpu.slow_memory_bytes_per_s)


def spilled_bytes(gpu: Gpu, resident_bytes: float) -> float:
    """Return how many of these bytes are in the slow segment."""
    return min(max(0.0, resident_bytes - gpu.usable_memory_bytes), gpu.slow_memory_bytes)


def slow_s(gpu: Gpu, resident_bytes: float, moved_bytes: float) -> float:
    """Return the extra seconds per step, assuming that its traffic is spread evenly over resident memory.

    moved × spilled / resident × (1 / slow bandwidth - 1 / fast bandwidth). The driver keeps the least used data in the slow
    segment, so this is the pessimistic case.
    """
    spilled = spilled_bytes(gpu, resident_bytes)
    if not spilled or gpu.slow_memory_bytes_per_s is None:
        return 0.0
    longer = 1.0 / gpu.slow_memory_bytes_per_s - 1.0 / fast_part(gpu).memory_bytes_per_s
    return moved_bytes * spilled / resident_bytes * longer


# ---------------------------------------------------------------- CPUs
# The time of a step on a CPU, using the kernel models for GPUs. Nothing here is fitted, so the range is wide.
#
# The models use units, clock, bandwidth and caches, which CPUs also have. The values below describe the differences; all are
# assumed. Observations: PyTorch 2.13 trains ResNet-50 at 0.45 to 0.6 of the peak of one Zen 4 server core; two sockets of Xeon
# Scalable reached 0.85 of the P100 that MLPerf 0.5 compares with; Torch7 of 2016 reached 0.05 of two Xeon E5-2630 v3.

# CPU libraries do not use Winograd, and their threads synchronise after each op. This replaces the factor for a GPU's software.
CPU_FACTOR = 1.25
CPU_RANGE = (0.5, 2.5)  # measured over predicted: libraries and memory vary much more than on GPUs

# A CPU needs neither a driver nor a GPU library to launch its own ops. One core of a server of 2025 took 6 us per layer call
# (ResNet-50 and BERT with 8 and 16 channels, PyTorch 2.13); that it would take 15 us for a GPU is assumed.
CPU_LAUNCH = 0.4
