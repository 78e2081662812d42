"""The precision in which GPUs are compared: the same on all of them if they support it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwise.core.text import both, the
from gpuwise.hardware.types import Gpu, has_matrix_cores, supported
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.common.tuning import usual_low
from gpuwise.questions.compare.types import Pair

__all__ = ["describe_precision", "shared_precision"]


def shared_precision(gpus: Sequence[Gpu], mode: str, method: str = "", phase: str = "") -> str:
    """The precision to use on all of these GPUs; empty where each keeps the usual one, as `predict` does.

    GPUs without matrix cores usually run fp32. They run 16 bit here if all GPUs can and lose nothing by it, as Apple's do: fp32
    on one side and 16 bit on the other would compare precisions, not GPUs. Decoding reads weights and computes little, so people
    keep them in 16 bits on every GPU that can store them.
    """
    if method:
        return usual_low(gpus)
    if phase == "decode" and all("fp16" in supported(gpu) for gpu in gpus):
        return "fp16"
    is_trained = mode == "train"
    if any("fp16" not in supported(gpu) for gpu in gpus):
        alike = all("bf16" in supported(gpu) for gpu in gpus)
        return ("amp-bf16" if is_trained else "bf16") if alike else ""
    if all(map(has_matrix_cores, gpus)) or not all(map(_runs_16_bit, gpus)):
        return ""
    return "amp" if is_trained else "fp16"


def _runs_16_bit(gpu: Gpu) -> bool:
    """Whether 16 bit costs no speed here: with matrix cores, or at a vector rate that is at least that of fp32. NVIDIA's
    libraries do not train at that rate: mixed precision is slow on a GTX 16."""
    vector = gpu.peak_flops_per_s.get("vector", {})
    return has_matrix_cores(gpu) or (gpu.vendor != "NVIDIA" and vector.get("fp16", 0.0) >= vector.get("fp32", 0.0) > 0.0)


def describe_precision(rigs: Iterable[Rig], pairs: Sequence[Pair]) -> list[str]:
    """Why the precision differs between GPUs, where it does, and where it does not."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}
    slow = [gpu for gpu in gpus.values() if not has_matrix_cores(gpu) and "fp32" in supported(gpu)]
    if not slow or not any(" against " in pair.precision for pair in pairs):
        return []
    without = [gpu for gpu in slow if "fp16" not in supported(gpu)]
    names = both(the(gpu.name) for gpu in slow)
    run, they, do, them = ("run", "they", "do", "them") if len(slow) > 1 else ("runs", "it", "does", "it")
    lacks = f"{they} {do} not support 16-bit arithmetic"
    if not without:
        reason = f"16-bit arithmetic is no faster on {them}"
    else:
        reason = lacks if len(without) == len(slow) else f"{lacks} or are no faster with it"
    said = f"{names} {run} in fp32, because {reason}"
    if any(pair.precision == "fp32" for pair in pairs):
        return [said, "for a like-for-like comparison, see the workloads in fp32"]
    return [said, "for a like-for-like comparison, use `--precision fp32`"] if _all_run_fp32(gpus.values()) else [said]


def _all_run_fp32(gpus: Iterable[Gpu]) -> bool:
    return all("fp32" in supported(gpu) for gpu in gpus)
