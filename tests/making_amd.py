"""Synthetic traces of AMD's profilers: a kernel of 400 µs every 500 µs, launched 50 µs before it begins."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

KERNEL = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_SN"


def rocprof(path: Path, kernels: int = 30) -> Path:
    """The JSON of rocprofv3."""
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [_tool(kernels)]}), encoding="utf-8")
    return path


def _tool(kernels: int) -> dict[str, Any]:
    dispatches, calls = [], []
    for place in range(kernels):
        start = 1_000_000_000 + place * 500_000
        who = {"thread_id": 77, "correlation_id": {"internal": place + 1, "external": 0}}
        info = {
            "agent_id": {"handle": 9},
            "queue_id": {"handle": 3},
            "kernel_id": 5,
            "dispatch_id": place,
            "workgroup_size": {"x": 256, "y": 1, "z": 1},
            "grid_size": {"x": 25_600, "y": 2, "z": 1},
        }
        times = {"start_timestamp": start, "end_timestamp": start + 400_000}
        dispatches.append({"size": 1, "kind": 11, "operation": 1, **who, **times, "dispatch_info": info})
        times = {"start_timestamp": start - 50_000, "end_timestamp": start - 40_000}
        calls.append({"size": 1, "kind": 1, "operation": 2, **who, **times})
    end = 1_000_000_000 + kernels * 500_000
    copy = {
        "kind": 2,
        "operation": 1,
        "correlation_id": {"internal": 9_000},
        "start_timestamp": end,
        "end_timestamp": end + 10_000,
        "src_agent_id": {"handle": 8},
        "dst_agent_id": {"handle": 9},
        "bytes": 4096,
    }
    mark = {
        "kind": 3,
        "operation": 1,
        "thread_id": 77,
        "correlation_id": {"internal": 9_001},
        "start_timestamp": end - 5_000,
        "end_timestamp": end,
    }
    operations = [
        {"kind": "NONE", "operations": []},
        {"kind": "HIP_RUNTIME_API", "operations": ["", "hipMalloc", "hipLaunchKernel"]},
    ]
    return {
        "metadata": {"pid": 77},
        "agents": [
            {"id": {"handle": 8}, "type": 1, "name": "AMD EPYC"},
            {"id": {"handle": 9}, "type": 2, "name": "gfx90a", "product_name": "AMD Instinct MI210", "cu_count": 104},
        ],
        "kernel_symbols": [{"kernel_id": 5, "kernel_name": "mangled", "formatted_kernel_name": KERNEL}],
        "strings": {"buffer_records": operations, "marker_api": [{"key": 9_001, "value": "optimizer"}]},
        "buffer_records": {"kernel_dispatch": dispatches, "hip_api": calls, "memory_copy": [copy], "marker_api": [mark]},
    }


def rpd(path: Path, kernels: int = 30) -> Path:
    """The database of rocmProfileData."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.executescript(
        """
        CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER, start INTEGER,
            end INTEGER, description_id INTEGER, opType_id INTEGER);
        CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER,
            apiName_id INTEGER, args_id INTEGER);
        CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
        INSERT INTO rocpd_string VALUES (2, 'KernelExecution'), (3, 'hipLaunchKernel'), (4, ''), (5, 'CopyHostToDevice'),
            (6, 'UserMarker'), (7, 'optimizer'), (8, 'Barrier');
        """
    )
    database.execute("INSERT INTO rocpd_string VALUES (1, ?)", (KERNEL,))
    for place in range(kernels):
        start = 1_000_000_000 + place * 500_000
        database.execute("INSERT INTO rocpd_op VALUES (?,0,3,?,?,?,1,2)", (place + 1, place, start, start + 400_000))
        call = (place + 101, start - 50_000, start - 40_000)
        database.execute("INSERT INTO rocpd_api VALUES (?,77,78,?,?,3,4)", call)
        database.execute("INSERT INTO rocpd_api_ops VALUES (?,?,?)", (place + 1, place + 101, place + 1))
    end = 1_000_000_000 + kernels * 500_000
    database.execute("INSERT INTO rocpd_op VALUES (9000,0,3,1,?,?,4,5)", (end, end + 10_000))
    database.execute("INSERT INTO rocpd_op VALUES (9001,0,3,1,?,?,4,8)", (end, end + 90_000))
    database.execute("INSERT INTO rocpd_api VALUES (9002,77,78,?,?,6,7)", (end - 5_000, end))
    database.commit()
    database.close()
    return path


def rocpd(path: Path, kernels: int = 30, ending: str = "_0000aaaa") -> Path:
    """The database that rocprofv3 writes by default since ROCm 7."""

    def of(text: str) -> str:
        return text.replace("!", ending)

    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.executescript(
        of("""
        CREATE TABLE rocpd_string! (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
        CREATE TABLE rocpd_event! (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER,
            parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB DEFAULT "{}");
        CREATE TABLE rocpd_info_agent! (id INTEGER PRIMARY KEY, guid TEXT, type TEXT, type_index INTEGER, name TEXT,
            product_name TEXT, extdata JSONB DEFAULT "{}");
        CREATE TABLE rocpd_info_kernel_symbol! (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT);
        CREATE TABLE rocpd_kernel_dispatch! (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER,
            kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, end BIGINT,
            workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER,
            grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER);
        CREATE TABLE rocpd_memory_copy! (id INTEGER PRIMARY KEY, start BIGINT, end BIGINT, name_id INTEGER, dst_agent_id INTEGER,
            src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
        CREATE TABLE rocpd_region! (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT,
            name_id INTEGER, event_id INTEGER);
        INSERT INTO rocpd_string! VALUES (1, '', 'hipLaunchKernel'), (2, '', 'roctxThreadRangeA'), (3, '', 'MEMORY_COPY');
        INSERT INTO rocpd_info_agent! VALUES (8, '', 'CPU', 0, 'AMD EPYC', '', '{}'),
            (9, '', 'GPU', 0, 'gfx90a', 'AMD Instinct MI210', '{"cu_count": 104}');
        INSERT INTO rocpd_event! VALUES (9000, '', 3, 9000, 0, 0, '{}'), (9001, '', 2, 9001, 0, 0, '{"message": "optimizer"}');
        """)
    )
    database.execute(of("INSERT INTO rocpd_info_kernel_symbol! VALUES (5, '', 'mangled', ?)"), (KERNEL,))
    for place in range(kernels):
        start, number = 1_000_000_000 + place * 500_000, place + 1
        for event in (2 * number, 2 * number + 1):  # of the call, and of the kernel that it launches
            database.execute(of("INSERT INTO rocpd_event! VALUES (?, '', 1, ?, 0, 0, '{}')"), (event, number))
        kernel = (number, place, start, start + 400_000, 2 * number + 1)
        database.execute(of("INSERT INTO rocpd_kernel_dispatch! VALUES (?,1,1,9,5,?,3,1,?,?,256,1,1,25600,2,1,?)"), kernel)
        call = (number, start - 50_000, start - 40_000, 2 * number)
        database.execute(of("INSERT INTO rocpd_region! VALUES (?,1,1,?,?,1,?)"), call)
    end = 1_000_000_000 + kernels * 500_000
    database.execute(of("INSERT INTO rocpd_memory_copy! VALUES (1,?,?,3,9,8,4096,3,1,9000)"), (end, end + 10_000))
    database.execute(of("INSERT INTO rocpd_region! VALUES (9000,1,1,?,?,2,9001)"), (end - 5_000, end))
    database.commit()
    database.close()
    return path
