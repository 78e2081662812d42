"""The process that runs a model: builds it on its device, times its step until stable, and writes the result to a file.

Started by `models.py`, one process per run, so that nothing stays allocated and no run warms up the next one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import GpuwiseError, MissingExtra
from gpuwise.core.processes import end_descendants, limit_memory, stand_guard
from gpuwise.live.bench.run import device_here, device_name, waiter
from gpuwise.live.bench.timing import stable_seconds
from gpuwise.live.sample.power_limit import used_joules
from gpuwise.live.tune.types import DeviceFacts, Order, Trial
from gpuwise.workload.capture.failures import describe, is_lack_of_memory

__all__ = ["run"]

_AUTOCAST = {"amp": "float16", "amp-bf16": "bfloat16"}
_FIRST = 3  # steps before timing, in which algorithms are chosen, caches filled, optimizer states created and graphs compiled
_LONG_S = 10.0  # of steps before timing, after which timing begins
_BF16_SINCE, _TF32_SINCE, _TRITON_SINCE = (8, 0), (8, 0), (7, 0)  # compute capabilities
_COMPILERS = ("g++", "clang++", "c++", "cl")


def run(question: str, result: str) -> None:
    """Answer one request file and end the process. The answer is the `DeviceFacts` of a device, or the `Trial` of an `Order`."""
    stand_guard()
    limit_memory()
    asked = msgspec.json.decode(Path(question).read_bytes(), type=str | Order)
    try:
        answer: Any = _facts(asked) if isinstance(asked, str) else _trial(asked)
        code = 0
    except BaseException as error:  # any error in user code is reported to its author
        answer, code = _failure(asked, error)
    Path(result).write_bytes(msgspec.json.encode(answer))
    with contextlib.suppress(ValueError, OSError):
        sys.stdout.flush()
    end_descendants()
    os._exit(code)  # threads and exit handlers of user code must not delay the end


def _failure(asked: str | Order, error: BaseException) -> tuple[Any, int]:
    """Return a failed run as a result; a missing device or model is an error of the request."""
    if isinstance(asked, str) or isinstance(error, GpuwiseError):
        return describe("the device" if isinstance(asked, str) else asked.request.model, error), 3
    if isinstance(error, MemoryError) or is_lack_of_memory(str(error)):
        return Trial(fault=f"out of memory at batch {asked.request.batch}", kind="memory"), 0
    return Trial(fault=describe(asked.request.model, error).message, kind="error"), 0


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="running a model") from None
    return torch


# ---------------------------------------------------------------- the device


def _facts(asked: str) -> DeviceFacts:
    torch = _torch()
    device = device_here(torch, asked)
    kind, capability, uuid = device.partition(":")[0], (0, 0), ""
    if kind == "cuda":
        capability, uuid = torch.cuda.get_device_capability(device), "" if torch.version.hip else _uuid(torch, device)
        memory = float(torch.cuda.mem_get_info(device)[0])
    else:
        memory = _host_memory()
    return DeviceFacts(
        device=device,
        name=device_name(torch, device),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        memory_bytes=memory,
        precisions=_precisions(torch, kind, capability),
        no_compiler=_no_compiler(kind, capability),
        uuid=uuid,
    )


def _precisions(torch: Any, kind: str, capability: tuple[int, int]) -> tuple[str, ...]:
    """Return the precisions that autocast and matrix products support here, without the emulated bf16 of older cards."""
    if kind == "cpu":
        return ("fp32", "amp-bf16")
    if kind == "mps":
        return ("fp32", "amp")
    if torch.version.hip:
        return ("fp32", "amp-bf16", "amp")
    tf32 = ("tf32",) if capability >= _TF32_SINCE else ()
    return ("fp32", *tf32, *(("amp-bf16",) if capability >= _BF16_SINCE else ()), "amp")


def _no_compiler(kind: str, capability: tuple[int, int]) -> str:
    """Return why torch.compile cannot build kernels here; empty if it can."""
    if kind == "mps":
        return "torch.compile does not support mps yet"
    if kind == "cuda":
        if importlib.util.find_spec("triton") is None:
            return "Triton, which torch.compile needs for GPU kernels, is not installed"
        return (
            ""
            if capability >= _TRITON_SINCE
            else f"Triton needs compute capability 7.0, but this GPU has {'.'.join(map(str, capability))}"
        )
    own = os.environ.get("CXX", "")
    if (own and shutil.which(own)) or any(map(shutil.which, _COMPILERS)):
        return ""
    return f"torch.compile needs a C++ compiler on a CPU, but there is none in PATH ({', '.join(_COMPILERS)})"


def _host_memory() -> float:
    """Return the bytes that programs may still use; 0, which stands for no limit, if the system does not report them."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 0.0


# ---------------------------------------------------------------- the run


def _trial(order: Order) -> Trial:
    torch = _torch()
    from gpuwise.workload.capture.torch.real import real

    request = order.request
    torch.manual_seed(0)
    if request.settings.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    subject = real(request, order.device)
    model = torch.compile(subject.model) if order.compiled else subject.model
    step = _step(torch, order, subject, model)
    wait = waiter(torch, order.device)
    begun = time.perf_counter()
    for _ in range(_FIRST):
        step()
        wait()
        if time.perf_counter() - begun > _LONG_S:
            break
    begin_s = time.perf_counter() - begun
    joules, begun = _joules(torch, order.device), time.perf_counter()
    seconds, spread, runs = stable_seconds(step, wait, order.seconds)
    used, took = _joules(torch, order.device), time.perf_counter() - begun
    return Trial(
        batch=request.batch or 1,
        step_s=seconds,
        spread_fraction=spread,
        runs=runs,
        begin_s=begin_s,
        peak_bytes=_peak_bytes(torch, order.device),
        watts=(used - joules) / took if used is not None and joules is not None else 0.0,
    )


def _step(torch: Any, order: Order, subject: Any, model: Any) -> Callable[[], Any]:
    """Return a function that runs one step as in a training loop, or one pass of inference."""
    kind, settings = order.device.partition(":")[0], order.request.settings

    def autocast() -> Any:
        name = _AUTOCAST.get(settings.precision)
        return torch.autocast(kind, dtype=getattr(torch, name)) if name else contextlib.nullcontext()

    if settings.mode == "infer":

        def infer() -> None:
            with torch.inference_mode(), autocast():
                subject.forward(model, subject.inputs, False)

        return infer
    from gpuwise.workload.capture.torch.optimizers import make_optimizer

    optimizer = make_optimizer(subject.model.parameters(), settings)
    scaler = torch.amp.GradScaler(kind) if settings.precision == "amp" else None

    def train() -> None:
        with autocast():
            loss = subject.forward(model, subject.inputs, True)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if optimizer is not None and scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        elif optimizer is not None:
            optimizer.step()
        subject.model.zero_grad(set_to_none=True)

    return train


def _joules(torch: Any, device: str) -> float | None:
    return used_joules(_uuid(torch, device)) if device.startswith("cuda") and not torch.version.hip else None


def _uuid(torch: Any, device: str) -> str:
    """Return the driver's name of a device, which torch reports without its prefix; empty if torch does not report it."""
    own = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    return own if not own or own.startswith("GPU-") else f"GPU-{own}"


def _peak_bytes(torch: Any, device: str) -> float:
    if device.startswith("cuda"):
        return float(torch.cuda.max_memory_reserved(device))
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
