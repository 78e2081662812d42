"""Workload files: versioned JSON, gzipped if the name ends in .gz. Documented in docs/reference/workload-file.md.

Calls and buffers are stored as flat integers, each entry relative to the previous one, so repeated layers become repeated text
and compress to almost nothing.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import msgspec
import numpy as np

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.core.files import check_place, write_whole
from gpuwise.core.text import plain
from gpuwise.workload.model.types import AttrValue, Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload
from gpuwise.workload.store.file_checks import check

__all__ = ["ENDINGS", "VERSION", "check_output", "decode", "encode", "is_workload", "read", "write"]

VERSION = 1
ENDINGS = (".json", ".json.gz")
_FORMAT = "gpuwise-workload"
_HINT = "write one with `gpuwise capture MODEL -o FILE`"
_LARGEST_BYTES = 64 * 2**20  # the largest workload of the zoo takes 1.3 MB


class _OpRow(msgspec.Struct, array_like=True):
    kind: str
    name: str
    dtype: str
    sizes: list[int]
    attrs: dict[str, bool | int | float | str | list[int]]
    reads: list[int]
    writes: list[int]


class _File(msgspec.Struct, kw_only=True):
    format: str
    version: int
    model: str
    source: str
    mode: str
    precision: str
    optimizer: str
    options: dict[str, bool | int | float | str]
    batch: int
    seq: int | None
    symbols: list[str]
    parameters: int
    dims: list[list[float]]
    products: list[list[int]]
    tensors: list[tuple[str, int]]
    ops: list[_OpRow]
    modules: list[str]
    calls: list[list[int]]
    buffers: list[tuple[int, int, int, int]]
    notes: list[str]


def encode(workload: Workload) -> bytes:
    """Return the workload as JSON."""
    return msgspec.json.encode(
        _File(
            format=_FORMAT,
            version=VERSION,
            model=plain(workload.model),
            source=plain(workload.source),
            mode=workload.mode,
            precision=workload.precision,
            optimizer=plain(workload.optimizer),
            options={key: value for key, value in workload.options.items() if not isinstance(value, tuple)},
            batch=workload.batch,
            seq=workload.seq,
            symbols=list(workload.symbols),
            parameters=workload.parameters,
            dims=[[int(c) if float(c).is_integer() else float(c) for c in row] for row in workload.dims],
            products=[list(product) for product in workload.products],
            tensors=[(tensor.dtype, tensor.elements) for tensor in workload.tensors],
            ops=[_op_row(op) for op in workload.ops],
            modules=[plain(name) for name in workload.modules],
            calls=_encode_calls(workload),
            buffers=_encode_buffers(workload.buffers),
            notes=[plain(note) for note in workload.notes],
        )
    )


def _op_row(op: Op) -> _OpRow:
    attrs = {key: list(value) if isinstance(value, tuple) else value for key, value in op.attrs.items()}
    return _OpRow(op.kind, plain(op.name), op.dtype, list(op.sizes), attrs, list(op.reads), list(op.writes))


def _encode_calls(workload: Workload) -> list[list[int]]:
    """[op, phase, module step, reads, buffer distances…]: buffers are counted back from the newest one alive at the call."""
    newest = np.cumsum(np.bincount(workload.buffers.born, minlength=len(workload.calls) + 1))
    rows, module = [], 0
    for index, call in enumerate(workload.calls):
        top = int(newest[index])
        distances = [top - buffer for buffer in (*call.reads, *call.writes)]
        rows.append([call.op, call.phase, call.module - module, len(call.reads), *distances])
        module = call.module
    return rows


def _encode_buffers(buffers: Buffers) -> list[tuple[int, int, int, int]]:
    """(tensor, category, born since the last buffer, calls lived)."""
    rows, born = [], 0
    for buffer in buffers:
        rows.append((buffer.tensor, buffer.category, buffer.born - born, buffer.died - buffer.born))
        born = buffer.born
    return rows


def decode(data: bytes, where: str = "workload") -> Workload:
    """Return the workload in a JSON text, or raise BadFile with the reason if it is not valid."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadFile(f"{where} is not a complete workload file: {fault}", hint=_HINT) from None
    if head.format != _FORMAT:
        raise BadFile(f"{where} is not a gpuwise workload file", hint=_HINT)
    if head.version != VERSION:
        raise BadFile(
            f"{where} has format version {head.version}; this version of gpuwise reads only version {VERSION}", hint=_HINT
        )
    try:
        file = msgspec.json.decode(data, type=_File)
        return _workload(file)
    except (msgspec.DecodeError, ValueError, IndexError, OverflowError, RecursionError) as fault:
        raise BadFile(f"{where} is damaged: {plain(str(fault))}", hint=_HINT) from None


class _Head(msgspec.Struct):
    format: str = ""
    version: int = -1


def _workload(file: _File) -> Workload:
    if any(len(row) != 4 for row in file.dims):
        raise ValueError("a dimension does not have four coefficients")
    calls, buffers = _decode_calls(file), _decode_buffers(file.buffers)
    workload = Workload(
        model=plain(file.model),
        source=plain(file.source),
        mode=file.mode,
        precision=file.precision,
        optimizer=plain(file.optimizer),
        options=dict(file.options),
        batch=file.batch,
        seq=file.seq,
        symbols=tuple(file.symbols),
        parameters=file.parameters,
        dims=np.array(file.dims, dtype=np.float64).reshape(-1, 4),
        products=tuple(tuple(product) for product in file.products),
        tensors=tuple(TensorSpec(dtype, elements) for dtype, elements in file.tensors),
        ops=tuple(_op(row) for row in file.ops),
        calls=calls,
        modules=tuple(plain(name) for name in file.modules),
        buffers=buffers,
        notes=tuple(plain(note) for note in file.notes),
    )
    check(workload)
    return workload


def _op(row: _OpRow) -> Op:
    attrs: dict[str, AttrValue] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.attrs.items()}
    return Op(row.kind, plain(row.name), row.dtype, tuple(row.sizes), attrs, tuple(row.reads), tuple(row.writes))


def _decode_calls(file: _File) -> Calls:
    births, born = [0] * (len(file.calls) + 1), 0
    for _, _, step, _ in file.buffers:
        born += step
        if not 0 <= born < len(births):
            raise ValueError("a buffer is created outside the step")
        births[born] += 1
    newest = np.cumsum(births)
    calls, module = [], 0
    for index, (op, phase, step, reads, *distances) in enumerate(file.calls):
        module += step
        if not 0 <= reads <= len(distances):
            raise ValueError(f"a call reads {reads} of {len(distances)} buffers")
        ids = tuple(int(newest[index]) - distance for distance in distances)
        calls.append(Call(op, phase, module, ids[:reads], ids[reads:]))
    return Calls.of(calls)


def _decode_buffers(rows: list[tuple[int, int, int, int]]) -> Buffers:
    buffers, born = [], 0
    for tensor, category, step, lived in rows:
        born += step
        buffers.append(Buffer(tensor, category, born, born + lived))
    return Buffers.of(buffers)


def write(workload: Workload, path: Path) -> None:
    """Write the file atomically."""
    data = encode(workload)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    write_whole(path, data)


def check_output(path: Path) -> None:
    """Check that a workload can be written here, before a long capture rather than after it."""
    if not path.name.endswith(ENDINGS):
        raise BadValue(
            f"{path} does not have a supported workload file extension",
            known=", ".join(ENDINGS),
            hint=f"try `-o {path.stem or 'model'}.json.gz`",
        )
    check_place(path, "model.json")


def read(path: Path) -> Workload:
    """Return the workload in a file, plain or gzipped."""
    return decode(_content(path), str(path))


def is_workload(path: Path) -> bool:
    """Return whether this is a workload file, complete or not; a model's config.json is not."""
    data = _content(path)
    try:
        return msgspec.json.decode(data, type=_Claim).format == _FORMAT
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f'"{_FORMAT}"'.encode() in data


class _Claim(msgspec.Struct):
    format: object = None


def _content(path: Path) -> bytes:
    """Return the decompressed text of a file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadFile(f"{path} is not a regular file", hint=_HINT)  # reading a pipe may never end
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            data = gzip.GzipFile(fileobj=file).read(_LARGEST_BYTES + 1) if packed else file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        hint = "write a workload file with `gpuwise capture MODEL -o FILE`, or pass the path of a model's config.json"
        raise BadFile(f"file {path} not found", looked_in=str(path.parent.absolute()), hint=hint) from None
    except (OSError, EOFError, zlib.error, ValueError) as fault:
        raise BadFile(f"{path} cannot be read: {fault}", hint=_HINT) from None
    if len(data) > _LARGEST_BYTES:
        raise BadFile(f"{path} is larger than {_LARGEST_BYTES // 2**20} MB", hint=_HINT)
    return data
