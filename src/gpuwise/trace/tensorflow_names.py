"""How TensorFlow and JAX name planes, lines and events: which of them run on a device, and which are steps, copies or host
waits.

Shared by the `xplane.pb` and `trace.json.gz` files of the same profiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuwise.trace.types import Kind, Trace

__all__ = ["device_index", "event_kind", "is_tensorflow", "line_kind", "sort_out"]

_DEVICE = re.compile(r"/device:(?:GPU|TPU|CUSTOM):?\S*?(\d+)", re.IGNORECASE)
_STREAM = re.compile(r"stream", re.IGNORECASE)
_COPY = re.compile(r"memcpy|memset", re.IGNORECASE)


def device_index(title: str) -> int | None:
    """Return the number of the device that a plane or process represents; None for the host."""
    found = _DEVICE.search(title)
    return int(found[1]) if found else None


def line_kind(title: str) -> Kind | None:
    """Return the kind of events in a device's line; None for lines that repeat the content of others (modules, ops, scopes)."""
    if title == "Steps":
        return Kind.STEP
    if _STREAM.search(title):
        return Kind.KERNEL
    if title == "XLA Ops" or title == "Async XLA Ops":
        return Kind.DEVICE_MARK
    return None


def event_kind(name: str, line: Kind) -> Kind:
    """Return the kind of a copy or fill among the kernels of a stream."""
    if line is Kind.KERNEL and _COPY.match(name):
        return Kind.MEMSET if name.lower().startswith("memset") else Kind.MEMCPY
    return line


def is_tensorflow(titles: Mapping[tuple[Any, Any, str], str]) -> bool:
    """Return whether a Chrome trace names its processes as TensorFlow and JAX do."""
    return any(kind == "process_name" and device_index(title) is not None for (_, _, kind), title in titles.items())


def sort_out(trace: Trace, titles: Mapping[tuple[Any, Any, str], str], threads: Sequence[tuple[Any, Any]]) -> Trace:
    """Give the events of a TensorFlow Chrome trace, which have no category, their kind and device."""
    device_of = {pid: device_index(title) for (pid, _, kind), title in titles.items() if kind == "process_name"}
    line_of = {(pid, tid): title for (pid, tid, kind), title in titles.items() if kind == "thread_name"}
    kinds = np.full(len(threads), int(Kind.OP), dtype=np.uint8)
    devices = np.full(len(threads), -1, dtype=np.int32)
    for number, (pid, tid) in enumerate(threads):
        index = device_of.get(pid)
        if index is not None:
            devices[number] = index
            kind_of_line = line_kind(line_of.get((pid, tid), ""))
            kinds[number] = int(Kind.OTHER if kind_of_line is None else kind_of_line)
    events = trace.events
    kind = kinds[events.thread] if len(events) else events.kind
    copies = np.array([_COPY.match(name) is not None for name in trace.names], dtype=bool)
    fills = np.array([name.lower().startswith("memset") for name in trace.names], dtype=bool)
    on_stream = kind == Kind.KERNEL
    if len(events):
        kind = np.where(on_stream & copies[events.name], np.uint8(Kind.MEMCPY), kind)
        kind = np.where(on_stream & fills[events.name], np.uint8(Kind.MEMSET), kind).astype(np.uint8)
    sorted_out = replace(
        events,
        kind=kind,
        device=devices[events.thread] if len(events) else events.device,
        stream=events.thread.astype(np.int64),
    )
    return replace(trace, events=sorted_out, framework="TensorFlow or JAX", format="chrome trace of TensorFlow or JAX")
