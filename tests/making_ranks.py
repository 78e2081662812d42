"""Synthetic runs on several GPUs: ranks that meet in collectives, each with a known reason to be late.

A collective begins on each rank when that rank reaches it and ends on all of them together, as in NCCL. The ranks can be written
as one file each, or as several GPUs in one file in any of the formats.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from making_traces import ALL_REDUCE, GPU, HGEMM, RELU, Run, message

STREAM, COLLECTIVE_STREAM = 7, 20


@dataclass(frozen=True, kw_only=True)
class Delay:
    """What a rank does more than the others before the first collective of a step, in microseconds."""

    load_us: float = 0.0
    think_us: float = 0.0
    slower: float = 1.0
    more_kernels: int = 0


def meet(runs: Sequence[Run], transfer_us: float, name: str = ALL_REDUCE, **args: Any) -> None:
    """One collective of these ranks: it waits for the last, takes as long as the transfer, and ends on all of them together."""
    starts = []
    for run in runs:
        run.free_us[COLLECTIVE_STREAM] = max(run.free_us.values(), default=0.0)
        starts.append(max(run.host_us + 8.0, run.free_us[COLLECTIVE_STREAM]))
    end = max(starts) + transfer_us
    for run, start in zip(runs, starts, strict=True):
        run.launch(name, end - start, stream=COLLECTIVE_STREAM)
        run.events[-1]["args"] |= args
        run.free_us[STREAM] = end


def lockstep(
    world: int,
    delays: dict[int, Delay],
    *,
    steps: int = 5,
    kernels: int = 20,
    kernel_us: float = 500.0,
    transfer_us: float = 300.0,
    offsets_us: Sequence[float] = (),
) -> list[Run]:
    """Steps of equal work on every rank, one collective at the end; `delays` names what single ranks do more, `offsets_us` by how
    much the clocks of their hosts are off."""
    runs = [
        Run(rank=rank, world_size=world, begin_us=Run.begin_us + (offsets_us[rank] if offsets_us else 0.0))
        for rank in range(world)
    ]
    for step in range(steps):
        begins = [run.host_us for run in runs]
        for rank, run in enumerate(runs):
            compute(run, delays.get(rank, Delay()), kernels, kernel_us)
        meet(runs, transfer_us)
        for run, begin in zip(runs, begins, strict=True):
            run.host_us = max(run.free_us.values())
            run.mark(f"ProfilerStep#{step + 1}", begin, run.host_us)
    return runs


def compute(run: Run, delay: Delay, kernels: int, kernel_us: float) -> None:
    """The work of one rank before a collective."""
    if delay.load_us:
        run.load(delay.load_us)
    run.think(delay.think_us)
    for place in range(kernels + delay.more_kernels):
        run.launch(RELU if place % 4 == 0 else HGEMM, kernel_us * delay.slower)


def write_each(runs: Sequence[Run], folder: Path) -> list[str]:
    """One file a rank."""
    return [str(run.write(folder / f"rank{number}.json")) for number, run in enumerate(runs)]


def chrome_of_one_process(runs: Sequence[Run], path: Path) -> Path:
    """All GPUs in one Chrome trace: a thread of one process drives each."""
    events = []
    for index, run in enumerate(runs):
        for event in run.events:
            args = dict(event["args"])
            if "correlation" in args:
                args["correlation"] += index * 1_000_000
            on_device = "stream" in args
            if on_device:
                args["device"] = index
            where = {"pid": index if on_device else 77, "tid": event["tid"] if on_device else 77 + index}
            events.append({**event, **where, "args": args})
    properties = [{**GPU, "id": index} for index in range(len(runs))]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}), encoding="utf-8")
    return path


def nsys_of_processes(runs: Sequence[Run], path: Path) -> Path:
    """All GPUs in one export of Nsight Systems, each driven by a process of its own; marks are NVTX ranges."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER,
            computeMinor INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER,
            nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT);
        """
    )
    names: dict[str, int] = {}
    for index, run in enumerate(runs):
        process = (index + 7) << 24
        database.execute(
            "INSERT INTO TARGET_INFO_GPU VALUES (?,?,?,?,?,?)", (index, GPU["name"], GPU["totalGlobalMem"], 80, 7, 0)
        )
        for event in run.events:
            name = names.setdefault(event["name"], len(names) + 1)
            start = round((event["ts"] - run.begin_us) * 1000) + 1_000_000
            end, args = start + round(event["dur"] * 1000), event["args"]
            if "stream" in args:
                row: tuple[Any, ...] = (start, end, index, args["stream"], args["correlation"], process, name, 640)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?)", row)
            elif "correlation" in args:
                row = (start, end, args["correlation"], process + 3, name)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)", row)
            else:
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?)", (start, end, process + 3, event["name"]))
    database.executemany("INSERT INTO StringIds VALUES (?,?)", [(number, name) for name, number in names.items()])
    database.commit()
    database.close()
    return path


def xplane_of(runs: Sequence[Run], path: Path) -> Path:
    """All GPUs in one profile of TensorFlow or JAX: a plane each, with its streams and its steps."""
    planes = [message((2, "/host:CPU"))]
    for index, run in enumerate(runs):
        names: dict[str, int] = {}
        lines: dict[str, list[bytes]] = {}
        for event in run.events:
            stream = event["args"].get("stream")
            line = f"Stream #{stream}(Compute)" if stream else "Steps" if event["name"].startswith("ProfilerStep") else ""
            if line:
                number = names.setdefault(event["name"], len(names) + 1)
                offset = round((event["ts"] - run.begin_us) * 1e6)
                lines.setdefault(line, []).append(message((1, number), (2, offset), (3, round(event["dur"] * 1e6))))
        planes.append(
            message(
                (2, f"/device:GPU:{index}"),
                *(
                    (3, message((1, at), (2, line), (3, 1_000), *((4, one) for one in found)))
                    for at, (line, found) in enumerate(lines.items())
                ),
                *((4, message((1, number), (2, message((1, number), (2, name))))) for name, number in names.items()),
            )
        )
    path.write_bytes(message(*((1, plane) for plane in planes)))
    return path
