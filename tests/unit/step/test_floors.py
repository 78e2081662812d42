"""No op is predicted faster than its GPU can be: a guard over models of all families, GPUs of all ages, and precisions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpuwise.engine.ways import as_computed
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu, supported
from gpuwise.step.time.setting import as_run, stacks
from gpuwise.step.time.simulate import cold_bytes, priced_ops, simulate
from gpuwise.step.types import Array, Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.evaluate import call_counts, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Op, Settings, Workload
from gpuwise.workload.store import zoo

GPUS = (
    "GTX 1080 Ti",
    "RTX 2080 Ti",
    "T4",
    "V100 SXM 16GB",
    "RTX 3090",
    "A100 SXM 80GB",
    "RTX 4090",
    "L40S",
    "H100 SXM 80GB",
    "B200",
    "RX 7900 XTX",
    "MI300X",
)
MODELS = (
    ("resnet50", "train", ""),
    ("vit_base", "train", ""),
    ("efficientnet_b0", "train", ""),
    ("bert-base-uncased", "train", ""),
    ("gpt2", "train", ""),
    ("mask_rcnn", "train", ""),
    ("sd15_unet", "infer", ""),
    ("word_lstm", "train", ""),
    ("dlrm", "train", ""),
    ("convnext_base", "train", ""),
    ("swin_tiny", "train", ""),
    ("densenet121", "train", ""),
    ("mobilenet_v3_large", "infer", ""),
    ("yolov8s", "train", ""),
    ("unet", "train", ""),
    ("ssd300", "train", ""),
    ("t5-small", "train", ""),
    ("whisper-small", "train", ""),
    ("transformer_big", "train", ""),
    ("tacotron2", "train", ""),
    ("mixtral-8x7b", "infer", "decode"),
    ("llama-3-8b", "infer", "decode"),
    ("llama-3-8b", "infer", "prefill"),
)
PRECISIONS = ("fp32", "tf32", "amp", "bf16", "fp8")
ROUNDING = 1e-6


@cache
def gpus() -> list[Gpu]:
    return [load_catalog().find(name).gpu for name in GPUS]


@cache
def load(model: str, mode: str, phase: str, precision: str) -> Workload | None:
    """The step in this precision; language models are stored for inference in 16 bits only."""
    if phase and precision not in ("bf16", "fp8"):
        return None
    settings = Settings(mode=mode, precision=precision, optimizer="adamw" if mode == "train" else "none")
    return as_computed(zoo.load(model, Request(model=model, phase=phase, settings=settings)))


def setting(workload: Workload, factor: float | None = None) -> Setting:
    stack = min(stacks(), key=lambda stack: stack.factor)  # the software that is fastest on the same kernels
    stack = replace(stack, factor=stack.factor if factor is None else factor, fused_attention=True)
    return as_run(Setting(stack=stack, host=find_host("desktop")), workload)


def peak(gpu: Gpu, op: Op, tf32: bool) -> float:
    """The highest rated FLOP/s of any engine that this op may run on."""
    types = {"fp32": ("fp32", "tf32") if tf32 else ("fp32",), "fp8": ("fp8",)}.get(op.dtype, (op.dtype, "fp32"))
    engines = gpu.peak_flops_per_s
    rates = [engines.get(engine, {}).get(dtype, 0.0) for engine in ("matrix", "vector") for dtype in types]
    return max(*rates, engines["vector"].get("fp32", 0.0))


def needed(op: Op) -> float:
    """The share of the counted FLOPs that no library saves."""
    if op.kind == "attention":
        return (0.5 if op.attrs["causal"] else 1.0) * (0.8 if op.attrs["pass"] == "backward" else 1.0)
    return float(op.kind == "matmul")  # convolutions may run as Winograd or FFT


def limits(workload: Workload, chosen: Setting) -> Array:
    """Seconds of each op on each GPU by the data sheets alone, written apart from the code that is tested."""
    values = product_values(workload)
    read, written = (part[0] for part in op_bytes(workload, values))
    flops = op_flops(workload, values)[0]
    found = np.zeros((len(workload.ops), len(gpus())))
    for column, gpu in enumerate(gpus()):
        cache_bytes = (gpu.l2_bytes or gpu.sm_count * 64 * 1024) + (gpu.l3_bytes or 0.0)
        for row, op in enumerate(workload.ops):
            computing = flops[row] * needed(op) / peak(gpu, op, chosen.tf32)
            moving = max(0.0, read[row] + written[row] - cache_bytes) / gpu.memory_bytes_per_s
            found[row, column] = max(computing, moving)
    return found


@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_op_is_faster_than_its_physical_limit(precision: str) -> None:
    worst: list[tuple[float, str]] = []
    for model, mode, phase in MODELS:
        workload = load(model, mode, phase, precision)
        if workload is None:
            continue
        chosen = setting(workload)
        allowed = np.array([precision in supported(gpu) for gpu in gpus()])
        shares = limits(workload, chosen) / priced_ops(workload, gpus(), chosen).seconds * allowed
        for row, column in zip(*np.nonzero(shares > 1 + ROUNDING), strict=True):
            op = workload.ops[row]
            worst.append((float(shares[row, column]), f"{model} {phase} on {GPUS[column]}: {op.kind} {op.name} in {op.dtype}"))
    told = "\n".join(f"{share:.2f} times too fast: {what}" for share, what in sorted(worst, reverse=True)[:10])
    assert not worst, f"{len(worst)} ops beat their GPU, the worst of them\n{told}"


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_weights_are_not_read_faster_than_memory_gives_them(precision: str) -> None:
    """A token of one sequence reads every weight once, and no cache holds them until the next."""
    workload = load("llama-3-8b", "infer", "decode", precision)
    assert workload is not None
    compiled = fused(workload)
    weights = sum(
        float(product_values(compiled)[0][compiled.tensors[buffer.tensor].elements])
        * DTYPE_BYTES[compiled.tensors[buffer.tensor].dtype]
        for buffer in compiled.buffers
        if CATEGORIES[buffer.category] == "weight"
    )
    table = 128_256 * 4096 * 2  # embeddings: one row of them is read
    steps = simulate(compiled, gpus(), setting(compiled), batch=np.array([1.0]), seq=np.array([64.0]))
    for gpu, seconds in zip(gpus(), steps.lanes["gpu"][0], strict=True):
        assert (weights - table) / seconds <= gpu.memory_bytes_per_s * (1 + ROUNDING), gpu.name


def test_a_large_product_stays_below_the_rated_peak() -> None:
    workload = load("llama-3-8b", "infer", "prefill", "bf16")
    assert workload is not None
    (a100,) = [gpu for gpu in gpus() if gpu.name.startswith("A100")]
    steps = simulate(workload, [a100], setting(workload), batch=np.array([8.0]), seq=np.array([4096.0]))
    (products,) = (share for share in steps.classes if share.kind == "matmul")
    assert float(np.ravel(products.flops)[0]) / products.seconds[0, 0] <= 312.1e12


def test_slow_software_is_as_slow_as_its_factor_says() -> None:
    workload = load("resnet50", "train", "", "amp")
    assert workload is not None
    one, two = (simulate(workload, gpus(), setting(workload, factor)).lanes["gpu"] for factor in (2.0, 4.0))
    assert np.allclose(two, 2.0 * one)


def test_only_weights_that_are_read_once_are_surely_not_in_a_cache() -> None:
    """The recurrent weights of Tacotron 2 are read anew by every step of its decoder: a cache may hold them."""
    assert not cold_bytes(zoo.load("tacotron2")).any()
    decode = load("llama-3-8b", "infer", "decode", "bf16")
    assert decode is not None
    table = 128_256 * 4096  # embeddings: one row of them is read
    assert cold_bytes(decode) @ call_counts(decode).sum(axis=0) == pytest.approx(2.0 * (decode.parameters - table), rel=0.001)
