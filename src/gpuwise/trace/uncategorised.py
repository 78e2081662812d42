"""Chrome traces whose events have no category, such as those of PyTorch before 1.8. The type of an event follows from the
names of its process and thread ("CUDA functions", "stream 7") and its own name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuwise.trace.types import Kind, Trace

__all__ = ["sort_out"]

_DEVICE = re.compile(r"\b(?:cuda|gpu|hip|device|stream)\b|stream ?#?\d|gpu ?#?\d|cuda:\d", re.IGNORECASE)
_HOST = re.compile(r"\b(?:cpu|host|python|driver|runtime|api)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?:cuda|gpu|hip|device)[ :#]*(\d{1,4})\b", re.IGNORECASE)
_NAMES = (
    (re.compile(r"^memcpy|^copy ?(?:hto|dto)", re.IGNORECASE), Kind.MEMCPY),
    (re.compile(r"^memset", re.IGNORECASE), Kind.MEMSET),
)
_CALL = re.compile(r"^(?:cuda|hip)[A-Z]\w+$|^cu(?:Launch|Mem|Ctx|Stream|Event|Graph)\w+$")
# Marks set by a program: unlike these, names of ops contain neither spaces nor brackets nor the word "step".
_MARK = re.compile(
    r"^ProfilerStep#|^Optimizer\.|^enumerate\(|[#\[]|^(?!.*::).*\s|(?:^|[^a-z])(?:step|iter|iteration)(?![a-z])"
    r"|(?:^|[^a-z])(?:train|training|global|micro|mini)[_-]?batch(?![a-z])|(?:^|[^a-z])batch[_:]?\d",
    re.IGNORECASE,
)


def sort_out(trace: Trace, titles: Mapping[tuple[Any, Any, str], str], threads: Sequence[tuple[Any, Any]]) -> Trace:
    """Give every event its kind and device."""
    processes = {pid: title for (pid, _, kind), title in titles.items() if kind == "process_name"}
    lines = [_line(processes.get(pid) or _word(pid), titles.get((pid, tid, "thread_name")) or _word(tid)) for pid, tid in threads]
    on_device = np.array([index is not None for index in lines], dtype=bool)
    devices = np.array([-1 if index is None else index for index in lines], dtype=np.int32)
    events = trace.events
    if not len(events):
        return trace
    working, host = _of_names(trace.names)
    kind = np.where(on_device[events.thread], working[events.name], host[events.name]).astype(np.uint8)
    sorted_out = replace(events, kind=kind, device=devices[events.thread], stream=events.thread.astype(np.int64))
    return replace(trace, events=sorted_out, format="chrome trace without categories")


def _line(process: str, thread: str) -> int | None:
    """Return the number of the device that a line of the trace represents; None for the host."""
    title = f"{process} {thread}"
    if not _DEVICE.search(title) or _HOST.search(process):
        return None
    number = _NUMBER.search(title)
    return int(number[1]) if number else 0


def _word(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _of_names(names: Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """For each interned name, its kind on a device and its kind on the host."""
    working = [next((int(kind) for pattern, kind in _NAMES if pattern.search(name)), int(Kind.KERNEL)) for name in names]
    host = [int(Kind.RUNTIME if _CALL.search(name) else Kind.MARK if _MARK.search(name) else Kind.OP) for name in names]
    return np.array(working, dtype=np.uint8), np.array(host, dtype=np.uint8)
