"""No op is predicted faster than its GPU can be: a guard over models of all families, GPUs of all ages, and precisions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu, supported
from gpuwise.kernels.registry import KINDS
from gpuwise.prediction.ways import as_computed
from gpuwise.step.time.setting import as_run, default_stack, stacks
from gpuwise.step.time.simulate import cold_bytes, priced_ops, simulate
from gpuwise.step.types import Array, Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.evaluate import call_counts, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Op, Settings, Workload
from gpuwise.workload.store import zoo

GPUS = (
    *("GTX 960", "GTX 1060 6GB", "GTX 1080", "GTX 1080 Ti", "P100 PCIe 16GB", "Titan V", "V100 SXM 16GB"),
    *("GTX 1650", "GTX 1660 Ti", "RTX 2060", "RTX 2080 Ti", "Quadro RTX 8000", "T4"),
    *("RTX 3050 8GB", "RTX 3060 12GB", "RTX 3070", "RTX 3080 10GB", "RTX 3090", "RTX A4000", "RTX A6000", "A10", "A40"),
    *("A100 PCIe 40GB", "A100 SXM 80GB", "RTX 4060", "RTX 4070", "RTX 4090", "L4", "L40S", "RTX 6000 Ada"),
    *("H100 PCIe 80GB", "H100 SXM 80GB", "H200", "B200", "RTX 5070", "RTX 5090"),
    *("RX 6800", "RX 7900 XTX", "MI300X", "Arc A770 16GB", "M1 Max 32-core", "M2 Ultra 76-core"),
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
SLOWEST = 30.0  # times its limit: beyond that a prediction is a fault of the model, not of a kernel
SHORT_S = 2e-4  # shorter ops may be all launch


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


@cache
def peak(gpu: Gpu, dtype: str, tf32: bool) -> float:
    """The highest rated FLOP/s of any engine that an op in this type may run on."""
    wide = ("fp32", "tf32") if tf32 and gpu.vendor == "NVIDIA" else ("fp32",)  # others run it only where it is asked for
    types = {"fp32": wide, "fp8": ("fp8",)}.get(dtype, (dtype, "fp32"))
    engines = gpu.peak_flops_per_s
    rates = [engines.get(engine, {}).get(name, 0.0) for engine in ("matrix", "vector") for name in types]
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
    share = np.array([needed(op) for op in workload.ops])
    found = np.zeros((len(workload.ops), len(gpus())))
    for column, gpu in enumerate(gpus()):
        cache_bytes = (gpu.l2_bytes or gpu.sm_count * 64 * 1024) + (gpu.l3_bytes or 0.0)
        computing = flops * share / np.array([peak(gpu, op.dtype, chosen.tf32) for op in workload.ops])
        moving = np.maximum(0.0, read + written - cache_bytes) / gpu.memory_bytes_per_s
        found[:, column] = np.maximum(computing, moving)
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


def crawls(op: Op, gpu: Gpu) -> bool:
    """Depthwise convolutions in fp16 run on vector lanes, which GTX 10 cards have at a 64th of their rate."""
    lanes = gpu.peak_flops_per_s["vector"]
    return (
        op.kind == "conv" and op.dtype == "fp16" and op.attrs["groups"] != 1 and lanes.get("fp16", lanes["fp32"]) < lanes["fp32"]
    )


def input_channels(workload: Workload, values: Array) -> Array:
    """Of convolutions; infinite for other ops."""
    place = KINDS["conv"].sizes.index("c_in")
    return np.array([values[0][op.sizes[place]] if op.kind == "conv" else np.inf for op in workload.ops])


def usable(gpu: Gpu, op: Op, channels: float, tf32: bool) -> float:
    """FLOP/s that an op can reach: fewer than eight channels do not fill an operand of the matrix engine."""
    return gpu.peak_flops_per_s["vector"]["fp32"] if channels < 8 else peak(gpu, op.dtype, tf32)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_op_is_much_slower_than_its_bytes_and_flops(precision: str) -> None:
    """Recurrent layers are left out: what they take is a wait of the whole grid at every step."""
    worst: list[tuple[float, str]] = []
    for model, mode, phase in MODELS:
        workload = load(model, mode, phase, precision)
        if workload is None:
            continue
        chosen = as_run(Setting(stack=default_stack(), host=find_host("desktop")), workload)
        values = product_values(workload)
        moved, flops = sum(part[0] for part in op_bytes(workload, values)), op_flops(workload, values)[0]
        seconds = priced_ops(workload, gpus(), chosen).seconds
        widths = input_channels(workload, values)
        for column, gpu in enumerate(gpus()):
            rates = np.array([usable(gpu, op, float(width), chosen.tf32) for op, width in zip(workload.ops, widths, strict=True)])
            times = seconds[:, column] / np.maximum(flops / rates, moved / gpu.memory_bytes_per_s)
            for row in np.flatnonzero((times > SLOWEST) & (seconds[:, column] > SHORT_S)):
                op = workload.ops[row]
                if precision in supported(gpu) and op.kind != "rnn" and not crawls(op, gpu):
                    worst.append((float(times[row]), f"{model} {phase} on {gpu.name}: {op.kind} {op.name} in {op.dtype}"))
    told = "\n".join(f"{share:.0f} times its limit: {what}" for share, what in sorted(worst, reverse=True)[:10])
    assert not worst, f"{len(worst)} ops are far slower than their GPU, the worst of them\n{told}"


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
    (a100,) = [gpu for gpu in gpus() if gpu.name.startswith("A100 SXM")]
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
