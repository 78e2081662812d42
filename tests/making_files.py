"""Files without a timeline made for tests, with known content, written as the programs write them. No file of anybody else is
copied. Traces are in `making_traces.py`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB = 2**20
INNER = {"filename": "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "line": 125, "name": "forward"}


def frame(filename: str, line: int, name: str) -> list[dict[str, Any]]:
    """A stack as PyTorch records it, innermost first: compiled code, PyTorch itself, then the program."""
    compiled = {"filename": "??", "line": 0, "name": "c10::cuda::allocate"}
    return [compiled, INNER, {"filename": filename, "line": line, "name": name}]


def snapshot(*, history: bool = True, oom: bool = False, stacks: bool = True) -> dict[str, Any]:
    """A memory snapshot with known sums: 100 MiB in use (60 by `model.py:10`, 40 by `train.py:20`), 50 MiB free in pieces, 20 MiB
    in a whole free segment; at the peak another 30 MiB, of `train.py:30`."""
    model, train, loss = (
        frame(file, line, name) if stacks else []
        for file, line, name in (("/src/model.py", 10, "forward"), ("/src/train.py", 20, "step"), ("/src/train.py", 30, "loss"))
    )

    def block(size: int, state: str, frames: list[Any] | None = None) -> dict[str, Any]:
        asked = size * MIB if state == "active_allocated" else 0
        return {"size": size * MIB, "requested_size": asked, "state": state, "frames": frames or []}

    used, free = "active_allocated", "inactive"
    segments = [
        _segment(0x7F00_0000_0000, [block(60, used, model), block(30, free), block(40, used, train), block(20, free)]),
        _segment(0x7F10_0000_0000, [block(20, free)]),
    ]
    events: list[dict[str, Any]] = []
    if history:
        events = [
            {"action": "segment_alloc", "addr": 0x7F20_0000_0000, "size": 64 * MIB, "stream": 0, "frames": []},
            {"action": "alloc", "addr": 0x7F20_0000_0000, "size": 30 * MIB, "stream": 0, "frames": loss},
            {"action": "free_requested", "addr": 0x7F20_0000_0000, "size": 30 * MIB, "stream": 0, "frames": loss},
            {"action": "free_completed", "addr": 0x7F20_0000_0000, "size": 30 * MIB, "stream": 0, "frames": loss},
            {"action": "segment_free", "addr": 0x7F20_0000_0000, "size": 64 * MIB, "stream": 0, "frames": []},
        ]
    if oom:
        events.append({"action": "oom", "addr": 0, "size": 40 * MIB, "device_free": 10 * MIB, "stream": 0, "frames": []})
    return {"segments": segments, "device_traces": [events], "allocator_settings": {"expandable_segments": False}}


def _segment(address: int, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    sizes = {"total_size": sum(block["size"] for block in blocks), "allocated_size": used, "active_size": used}
    return {"device": 0, "address": address, **sizes, "stream": 0, "segment_type": "large", "blocks": blocks}


def pickled(path: Path, value: Any, protocol: int = 4) -> Path:
    """The value in a file, as a pickle."""
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


def collective(sequence: int, name: str = "all_reduce", *, state: str = "completed", **other: Any) -> dict[str, Any]:
    """An entry of the flight recorder."""
    return {
        "frames": frame("/src/train.py", 40 + sequence % 3, "step"),
        "record_id": sequence,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": 1_700_000_000_000_000_000 + sequence * 1_000_000,
        "input_sizes": [[1024, 16]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1024, 16]],
        "output_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": False,
        **other,
    }


def flight(entries: list[dict[str, Any]], ranks: str = "[0, 1, 2]") -> dict[str, Any]:
    """A dump of one rank."""
    group = {"name": "0", "desc": "default_pg", "ranks": ranks}
    return {"version": "2.4", "pg_config": {"0": group}, "pg_status": {"0": {}}, "entries": entries}
