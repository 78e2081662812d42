"""What a table of op sums shows: which ops take the time, and whether the host or the GPU has more to do. Without a timeline,
it cannot show idle time, overlap or dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.diagnose.registry import CODES
from gpuwise.diagnose.types import Abstained
from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.why.file_answer import Discovery, FileAnswer, Listing
from gpuwise.trace.formats import Format
from gpuwise.trace.readers.op_table import OpRow, OpTable, read_op_table

__all__ = ["explain_sums"]

_WAITS = ("synchronize", "cudamemcpy", "hipmemcpy")  # calls in which the host waits rather than works
_HOST_BOUND = 1.5  # times the GPU's total, from which the host is named as the bottleneck; assumed
_LOADER = 0.2  # of the host's time in the loader; assumed
_COPIES = 0.05  # of the GPU's time in pageable copies, as in the check of traces
_MOST_ROWS = 50
_REASON = "a table of totals has no timeline"
_RECORD = "record a trace with `profiler.export_chrome_trace('trace.json.gz')`"


def explain_sums(paths: Sequence[Path]) -> FileAnswer:
    """Return the answer about one table."""
    if len(paths) > 1:
        raise BadValue(
            f"{len(paths)} tables of op totals were given", hint="pass one table at a time, or the traces of all ranks"
        )
    table = read_op_table(paths[0])
    waits = sum(row.self_cpu_s for row in table.rows if any(word in row.name.lower() for word in _WAITS))
    host = max(_host(table) - waits, 0.0)
    device = _device(table)
    pointers = tuple(filter(None, (_loading(table), _copies(table, device))))
    found = {one.code for one in pointers}
    notes = ["time on threads and streams that run in parallel is counted more than once"]
    if table.cpu_total_s is None:
        notes.append("the totals at the end of the table are missing, so the rows are added up instead")
    if table.lost:
        notes.append(f"{table.lost:,} rows could not be read")
    return FileAnswer(
        files=(table.file,),
        format=Format.OP_TABLE.value,
        verdict=_verdict(table, host, device),
        head=(_head(table, host, waits, device),),
        key="ops",
        content={
            "device": table.device or None,
            "host_s": host,
            "host_waits_s": waits,
            "device_s": device if table.device else None,
            "rows": [_content(row, table, device) for row in _order(table)[:_MOST_ROWS]],
        },
        listings=(_listing(table, device),),
        discoveries=pointers,
        abstained=tuple(Abstained(code=code, reason=_REASON, record_next=_RECORD) for code in CODES if code not in found),
        notes=tuple(notes),
    )


def _host(table: OpTable) -> float:
    return table.cpu_total_s if table.cpu_total_s is not None else sum(row.self_cpu_s for row in table.rows)


def _device(table: OpTable) -> float:
    return table.device_total_s if table.device_total_s is not None else sum(row.self_device_s for row in table.rows)


def _order(table: OpTable) -> list[OpRow]:
    """Return the rows by time: of the GPU if there is any, otherwise of the host."""
    return sorted(table.rows, key=lambda row: (-row.self_device_s if table.device else 0.0, -row.self_cpu_s, row.name))


def _verdict(table: OpTable, host: float, device: float) -> str:
    top = _order(table)[0]
    if not table.device or device <= 0:
        share = top.self_cpu_s / host if host else 0.0
        return f"{top.name} takes {min(share, 1.0):.0%} of the host's time; the table contains no GPU time"
    share = min(top.self_device_s / device, 1.0)
    most = f"{top.name} takes {share:.0%} of the GPU's time"
    if host > _HOST_BOUND * device:
        return f"the host works {host / device:.1f} times as long as the GPU, so it is probably the bottleneck; {most}"
    works = f"the host works for {time_text(host)} and the GPU for {time_text(device)}"
    return f"{most}; {works}; only a trace can show whether the GPU waits"


def _head(table: OpTable, host: float, waits: float, device: float) -> str:
    parts = [f"{len(table.rows):,} ops", f"host {time_text(host)} working and {time_text(waits)} waiting"]
    return ", ".join([*parts, f"{table.device} {time_text(device)}" if table.device else "no GPU"])


def _listing(table: OpTable, device: float) -> Listing:
    rows = []
    for row in _order(table)[:_MOST_ROWS]:
        share = row.self_device_s / device if table.device and device else row.self_cpu_s / (_host(table) or 1.0)
        device_s = (time_text(row.self_device_s),) if table.device else ()
        rows.append((row.name, f"{min(share, 1.0):.0%}", *device_s, time_text(row.self_cpu_s), f"{row.calls:,}"))
    columns = ("op", "share", *(("on the GPU",) if table.device else ()), "on the host", "calls")
    return Listing(title="ops, longest first", columns=columns, rows=tuple(rows))


def _content(row: OpRow, table: OpTable, device: float) -> dict[str, Any]:
    return {
        "op": row.name,
        "calls": row.calls,
        "self_cpu_s": row.self_cpu_s,
        "cpu_s": row.cpu_s,
        "self_device_s": row.self_device_s,
        "device_s": row.device_s,
        "share_fraction": min(row.self_device_s / device, 1.0) if table.device and device else None,
    }


def _loading(table: OpTable) -> Discovery | None:
    loading = sum(row.cpu_s for row in table.rows if "enumerate(dataloader)" in row.name.lower())
    share = loading / _host(table) if _host(table) else 0.0
    if share < _LOADER:
        return None
    return Discovery(
        code="input_starved",
        title=f"the host spends {min(share, 1.0):.0%} of its time in the loader",
        severity="moderate",
        share_fraction=min(share, 1.0),
        confidence="low",
        lines=(f"{time_text(loading)} in DataLoader; the table does not show whether the GPU waits in the meantime",),
        remedy="use more loader workers (num_workers near the core count, persistent_workers, pin_memory)",
        verify="record a trace to see whether the GPU is idle while the loader runs",
    )


def _copies(table: OpTable, device: float) -> Discovery | None:
    copied = sum(row.self_device_s for row in table.rows if "pageable" in row.name.lower())
    if not device or copied < _COPIES * device:
        return None
    return Discovery(
        code="pageable_copies",
        title=f"copies from pageable memory take {min(copied / device, 1.0):.0%} of the GPU's time",
        severity="moderate",
        share_fraction=min(copied / device, 1.0),
        confidence="medium",
        lines=(f"{time_text(copied)} in copies from or to pageable memory",),
        remedy="set pin_memory=True in the DataLoader, and copy with non_blocking=True",
        verify="in a new table, the copies should be called Pinned",
    )
