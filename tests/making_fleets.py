"""Several ranks that wait for one another, in one file each or all in one; and a `Host` as Nsight Systems would export it.

This is separate from `making_hosts`, which handles a single host, because collectives need all of them at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from making_hosts import Host
from making_traces import ALL_REDUCE, GPU

_PUSH_POP = 59
_IDS_PER_RANK = 1_000_000


def ranks(world: int, **options: Any) -> list[Host]:
    """Hosts of one run, one for each rank."""
    return [
        Host(
            rank=rank,
            world_size=world,
            process=1000 + rank,
            thread=1000 + rank,
            correlation=100 + rank * _IDS_PER_RANK,
            **options,
        )
        for rank in range(world)
    ]


def all_reduce(hosts: Sequence[Host], us: float, name: str = ALL_REDUCE) -> None:
    """A collective: who comes early waits inside of it, all leave it together, and kernels behind it wait for it."""
    for host in hosts:
        key = host.device * 1000
        host.launch(name, 1.0, stream=20, after=host.free_us.get(key + 7, 0.0))
    end = max(host.free_us[host.device * 1000 + 20] for host in hosts) - 1.0 + us
    for host in hosts:
        start, _ = host.busy[host.device].pop()
        host.events[-1]["dur"] = end - start
        host.busy[host.device].append((start, end))
        host.free_us[host.device * 1000 + 20] = host.free_us[host.device * 1000 + 7] = end


def fleet(world: int, body: Callable[[list[Host], int], None], *, steps: int = 5, made: list[Host] | None = None) -> list[Host]:
    """Ranks that step together; the first step is not marked."""
    hosts = made or ranks(world)
    body(hosts, 0)
    for host in hosts:
        host.blamed.clear()
    for number in range(1, steps + 1):
        begin = [(host.host_us, max(host.host_us, host.until())) for host in hosts]
        body(hosts, number)
        for host, (start, left) in zip(hosts, begin, strict=True):
            host.mark(f"ProfilerStep#{number}", start, host.host_us)
            host.steps.append((start, host.host_us))
            host.finished.append((left, max(host.host_us, host.until())))
    return hosts


def on_own_devices(hosts: Sequence[Host]) -> list[Host]:
    """Each rank on a GPU of its own number, for a file that holds them all."""
    for host in hosts:
        host.device = host.rank or 0
    return list(hosts)


def in_one_file(hosts: Sequence[Host]) -> Host:
    """All ranks of a node in one file, as one profiler of the whole node writes them."""
    whole = hosts[0]
    whole.events = [event for host in hosts for event in host.events]
    whole.busy = {host.device: host.busy[host.device] for host in hosts}
    whole.rank = whole.world_size = None
    whole.extra = {"deviceProperties": [GPU | {"id": host.device} for host in hosts]}
    return whole


def exported(host: Host, path: Path) -> Path:
    """The run as an export of Nsight Systems: annotations become NVTX ranges, Python functions are not there."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER,
            computeMinor INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
            gridX INTEGER, gridY INTEGER, gridZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER,
            nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, globalTid INTEGER,
            text TEXT, textId INTEGER);
        """
    )
    texts: dict[str, int] = {}
    gpu = (
        0,
        host.gpu["name"],
        host.gpu["totalGlobalMem"],
        host.gpu["numSms"],
        host.gpu["computeMajor"],
        host.gpu["computeMinor"],
    )
    database.execute("INSERT INTO TARGET_INFO_GPU VALUES (?,?,?,?,?,?)", gpu)
    for event in host.events:
        start = round((event["ts"] - host.begin_us) * 1000) + 1_000_000
        end, args = start + round(event["dur"] * 1000), event["args"]
        number = texts.setdefault(event["name"], len(texts) + 1)
        if event["cat"] == "kernel":
            row = (start, end, args["device"], args["stream"], args["correlation"], host.process << 24, number, number, 640, 1, 1)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?,?,?,?)", row)
        elif event["cat"] == "cuda_runtime":
            call = (start, end, args["correlation"], (event["pid"] << 24) + event["tid"], number)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)", call)
        elif event["cat"] == "user_annotation":
            mark = (start, end, _PUSH_POP, None, (event["pid"] << 24) + event["tid"], event["name"], None)
            database.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?,?)", mark)
    database.executemany("INSERT INTO StringIds VALUES (?,?)", [(number, text) for text, number in texts.items()])
    database.commit()
    database.close()
    return path
