"""Synthetic files without a timeline, with known content, written as the real programs write them. No third-party file is
copied. Traces are in `making_traces.py`.
"""

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


def dmon(rows: int = 20, *, busy: int = 98, thermal: int = 0, clock: int = 1380, power: int = 245) -> str:
    """What `nvidia-smi dmon -s pucvm -o T` prints for two GPUs; the first reading of each lacks its memory's heat."""
    head = (
        "#Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk  pviol  tviol     fb   bar1\n"
        "#HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz      %   bool     MB     MB\n"
    )
    lines = []
    for place in range(rows):
        for gpu in range(2):
            hot = thermal if gpu else 0
            lines.append(
                f" 12:00:{place:02d}      {gpu}    {power}     {88 if hot else 70}      -    {busy}     40      0      0"
                f"    877   {clock - 300 * hot}      0      {hot}  12000      5"
            )
    return head + "\n".join(lines[: len(lines) // 2]) + "\n" + head + "\n".join(lines[len(lines) // 2 :]) + "\n"


def dcgmi(rows: int = 20, *, violation_us: int = 0) -> str:
    """What `dcgmi dmon -e 203,155,150,100,252,241` prints; the time of thermal violations grows by so much a reading."""
    lines = ["#Entity   GPUTL  POWER    TMPTR  SMCLK  FBUSD  TVIOL", "ID                W        C      MHz    MB     us"]
    for place in range(rows):
        lines.append(f"GPU 0     97     240.512  84     1200   30000  {5_000 + place * violation_us}")
        lines.append("GPU 1     96     241.000  60     1380   30000  N/A")
    return "\n".join(lines) + "\n"


def wandb(rows: int = 20) -> str:
    """System metrics of Weights & Biases as CSV: one GPU that is busy for 30% of the time, with 97% of its memory in use."""
    head = "_runtime,system.cpu,system.gpu.0.gpu,system.gpu.0.memoryAllocated,system.gpu.0.powerWatts,system.gpu.0.temp"
    return "\n".join([head, *(f"{15 * place},55.0,30,97,90.5,55" for place in range(rows))]) + "\n"


def query(rows: int = 20) -> str:
    """What `nvidia-smi --query-gpu=… --format=csv -l 1` prints: a T4 that heat holds at 60% of its clock."""
    head = (
        "timestamp, index, name, utilization.gpu [%], clocks.current.sm [MHz], clocks.max.sm [MHz], power.draw [W], "
        "power.limit [W], power.default_limit [W], memory.used [MiB], memory.total [MiB], clocks_throttle_reasons.active"
    )
    row = "2026/11/17 12:00:{:02d}.000, 0, Tesla T4, 99 %, 954 MHz, 1590 MHz, 50.11 W, 70.00 W, 70.00 W, 9000 MiB, 15360 MiB, {}"
    return "\n".join([head, *(row.format(place, "0x0000000000000020") for place in range(rows))]) + "\n"


def op_table(rows: list[tuple[str, float, float, int]], *, cuda: bool = True, sums: bool = True) -> str:
    """What `key_averages().table()` prints for rows of a name, milliseconds of its own on the host and on the GPU, and calls."""
    cpu, gpu = sum(row[1] for row in rows), sum(row[2] for row in rows)
    titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    titles += ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"] if cuda else []
    table = [[*titles, "# of Calls"]]
    for name, own, device, calls in rows:
        cells = [name, f"{own / cpu:.2%}", f"{own:.3f}ms", f"{own / cpu:.2%}", f"{own:.3f}ms", f"{own / calls * 1e3:.3f}us"]
        if cuda:
            cells += [f"{device:.3f}ms", f"{device / (gpu or 1):.2%}", f"{device:.3f}ms", f"{device / calls * 1e3:.3f}us"]
        table.append([*cells, str(calls)])
    widths = [max(len(row[place]) for row in table) + 2 for place in range(len(table[0]))]
    dashes = "  ".join("-" * width for width in widths) + "  "
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "  " for row in table]
    text = "\n".join([dashes, lines[0], dashes, *lines[1:], dashes])
    return text + (
        f"\nSelf CPU time total: {cpu:.3f}ms\n" + (f"Self CUDA time total: {gpu:.3f}ms\n" if cuda else "") if sums else "\n"
    )
