"""The formats of trace files: how each is recognised from the beginning of its content, and which reader reads it. The name
decides only for reports that only their own tool can open.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.trace.plain_pickle import is_pickle
from gpuwise.trace.protobuf import Cut, fields
from gpuwise.trace.source import ByteSource, as_utf8, ends_early

__all__ = ["FILE_HINT", "READERS", "SUFFIXES", "TIMELINES", "Format", "format_of"]

_HEAD_BYTES = 1 << 16
FILE_HINT = (
    "pass a Chrome trace from torch.profiler, an xplane.pb from TensorFlow or JAX, an SQLite export from Nsight Systems, or "
    "another file that `gpuwise why --help` lists"
)


class Format(Enum):
    """A kind of file; the value is its name in messages."""

    CHROME = "Chrome trace"
    XPLANE = "xplane profile"
    SQLITE = "SQLite database"
    NSYS_REPORT = "Nsight Systems report"
    ROCPROF = "rocprofv3 trace"
    EXECUTION = "execution trace"
    CHAKRA = "Chakra execution trace"
    MEMORY = "PyTorch memory snapshot"
    FLIGHT = "NCCL flight recorder dump"
    TELEMETRY = "table of GPU readings"
    OP_TABLE = "table of op totals"


# The readers of files with a timeline. They are imported when a file needs them: a reader may cost more to import than another
# file takes to read.
READERS = {
    Format.CHROME: ("readers.chrome", "read_chrome"),
    Format.XPLANE: ("readers.xplane", "read_xplane"),
    Format.SQLITE: ("database", "read_database"),
    Format.ROCPROF: ("readers.rocprof", "read_rocprof"),
    Format.EXECUTION: ("readers.execution_trace", "read_execution_trace"),
    Format.CHAKRA: ("readers.execution_trace", "read_chakra"),
    Format.NSYS_REPORT: ("readers.nsys_report", "read_nsys_report"),
}
TIMELINES = frozenset(READERS)
# What to look for in a folder.
SUFFIXES = (".json", ".json.gz", ".pb", ".pb.gz", ".sqlite", ".db", ".gz", ".rpd", ".nsys-rep", ".et", ".pickle", ".pkl")

_REPORT_ENDINGS = (".nsys-rep", ".qdrep")
# Kineto writes its process groups before its events, and they may be longer than the part that is read here.
_EVENTS = re.compile(rb'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo)"\s*:')
_JSON_KEYS = (
    (re.compile(rb'"rocprofiler-sdk-tool"\s*:'), Format.ROCPROF),
    (re.compile(rb'"(?:pg_config|pg_status|nccl_comm_state|collective_seq_id)"\s*:'), Format.FLIGHT),
    (re.compile(rb'"(?:segments|device_traces)"\s*:'), Format.MEMORY),
    (re.compile(rb'"nodes"\s*:\s*\['), Format.EXECUTION),
)
_PICKLE_KEYS = re.compile(rb"(segments|device_traces|total_size)|(pg_config|pg_status|nccl_comm_state|collective_seq_id|entries)")
_OP_TABLE = re.compile(rb"Self CPU.*(?:# of|Number of) Calls")
_DMON = re.compile(rb"^#\s*(?:Date\s+)?(?:Time\s+)?(?:gpu|Entity)\b", re.MULTILINE | re.IGNORECASE)
_CSV = re.compile(rb"gpu\.\d+\.\w+|utilization\.gpu|power\.draw|clocks\.(?:current\.)?sm|temperature\.gpu", re.IGNORECASE)
_VERSION = re.compile(rb"\d+\.\d+[\w.\-+]*\Z")


def format_of(path: Path) -> Format:
    """Return the format of a file, or raise an error if gpuwise does not know it."""
    if not path.exists():
        raise BadFile(f"file '{path}' not found", looked_in=str(path.parent), hint="check the path")
    if not path.is_file():
        raise BadFile(f"'{path}' is not a regular file", hint=FILE_HINT)
    with ByteSource(path) as source:
        if source.size_bytes == 0:
            raise BadFile(f"'{path.name}' is empty", hint="check whether the profiler was stopped before it wrote the file")
        head = source.read(_HEAD_BYTES)
        cut = source.cut
    found = _of_head(head) or (Format.NSYS_REPORT if path.name.lower().endswith(_REPORT_ENDINGS) else None)
    if found is not None:
        return found
    if cut:
        raise ends_early(path.name, cut, "it contains no trace data", f"the {len(head):,} bytes that could be decompressed")
    raise BadFile(f"'{path.name}' is not a profiler trace", looked_in=f"its first {len(head):,} bytes", hint=FILE_HINT)


def _of_head(head: bytes) -> Format | None:
    if head.startswith(b"SQLite format 3\0"):
        return Format.SQLITE
    if is_pickle(head):
        found = _PICKLE_KEYS.search(head)
        return (Format.MEMORY if found[1] else Format.FLIGHT) if found else None
    text = as_utf8(head).lstrip(b" \t\r\n")
    if text[:1] in (b"{", b"["):
        return _of_json(text)
    if _is_chakra(head):
        return Format.CHAKRA
    if _is_text(text) and (found_text := _of_text(text)) is not None:
        return found_text
    from gpuwise.trace.readers.xplane import looks_like_xplane

    return Format.XPLANE if looks_like_xplane(head) else None


def _of_json(text: bytes) -> Format:
    """Recognise JSON. A list, an object that names its events, and anything without a distinguishing key is a Chrome trace."""
    if text[:1] == b"{" and not _EVENTS.search(text):
        for pattern, found in _JSON_KEYS:
            if pattern.search(text):
                return found
    return Format.CHROME


def _is_text(text: bytes) -> bool:
    return b"\0" not in text and sum(byte < 9 for byte in text[:4096]) == 0


def _of_text(text: bytes) -> Format | None:
    if _OP_TABLE.search(text):
        return Format.OP_TABLE
    if _DMON.search(text):
        return Format.TELEMETRY
    first = text.partition(b"\n")[0]
    return Format.TELEMETRY if b"," in first and _CSV.search(first) else None


def _is_chakra(head: bytes) -> bool:
    """Return whether a file begins, as Chakra's do, with a length and a message of that length whose first field is a version."""
    if not head or not 2 < head[0] < 128 or head[1:2] != b"\x0a":
        return False
    try:
        number, value = next(fields(memoryview(head[1 : 1 + head[0]])))
    except (Cut, StopIteration):
        return False
    return number == 1 and not isinstance(value, int) and _VERSION.match(bytes(value)) is not None
