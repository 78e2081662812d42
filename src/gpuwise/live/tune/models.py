"""Requests one run of a model, or the facts about a device, from a separate process, and reports the outcome."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.text import plain
from gpuwise.live.tune.contained import Ended, in_python, run_contained
from gpuwise.live.tune.types import DeviceFacts, Order, Trial
from gpuwise.workload.capture.failures import Failure, is_lack_of_memory
from gpuwise.workload.capture.process import raised

__all__ = ["facts_of", "run_model"]

_FACTS_S = 120.0
_ROOM_BYTES = 6 * 2**30  # address space that libraries reserve but do not use
_SHARE = 0.8  # of the host's free memory that a run may use
_KILLED = -9
Answer = TypeVar("Answer", Trial, DeviceFacts)


def facts_of(device: str) -> DeviceFacts:
    """Return the device with this name, or the fastest that torch finds."""
    answer, ended = _asked(device, DeviceFacts, {}, _FACTS_S)
    if answer is None:
        raise GpuwiseError(f"torch could not list its devices: {_how(ended)}", hint="check that `python -c 'import torch'` works")
    return answer


def run_model(order: Order, facts: DeviceFacts, *, timeout_s: float, cache: Path) -> Trial:
    """Run a model once. A failure of the run is part of the result, but a model that cannot be built is an error.

    `cache` is where compiled kernels are kept from run to run.
    """
    variables = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    if order.device == "cpu" and facts.memory_bytes:
        variables["GPUWISE_MEMORY_BYTES"] = str(int(_SHARE * facts.memory_bytes + _ROOM_BYTES))
    answer, ended = _asked(order, Trial, variables, timeout_s)
    if answer is not None:
        return answer
    if ended.is_late:
        return Trial(fault=f"no measurement within {timeout_s:g} s", kind="timeout")
    if ended.code == _KILLED or is_lack_of_memory(ended.said):
        return Trial(
            fault=f"the run ended at batch {order.request.batch}, most likely because it ran out of memory", kind="memory"
        )
    return Trial(fault=_how(ended), kind="error")


def _asked(question: str | Order, kind: type[Answer], variables: dict[str, str], timeout_s: float) -> tuple[Answer | None, Ended]:
    with tempfile.TemporaryDirectory(prefix="gpuwise-tune-", ignore_cleanup_errors=True) as folder:
        asked, result = Path(folder) / "question", Path(folder) / "result"
        asked.write_bytes(msgspec.json.encode(question))
        ended = run_contained(in_python("gpuwise.live.tune.worker", str(asked), str(result)), variables, timeout_s=timeout_s)
        data = result.read_bytes() if result.exists() and ended.code in (0, 3) else b""
    if data and ended.code == 3:
        raise raised(msgspec.json.decode(data, type=Failure))
    return msgspec.json.decode(data, type=kind) if data else None, ended


def _how(ended: Ended) -> str:
    """Describe how a process without a result ended, with its last output."""
    if ended.is_late or ended.code is None:
        return "the process did not end in time"
    how = f"the process was killed by signal {-ended.code}" if ended.code < 0 else f"the process exited with code {ended.code}"
    lines = [line for line in ended.said.strip().splitlines() if line.strip()][-1:]
    return how + (f"; its last output: {plain(lines[0].strip()[:200])}" if lines else "")
