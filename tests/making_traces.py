"""Synthetic traces: runs with a known shape, written as the profilers write them. No third-party file is copied."""

from __future__ import annotations

import gzip
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GPU = {
    "id": 0,
    "name": "Tesla V100-SXM2-32GB",
    "totalGlobalMem": 34_079_637_504,
    "computeMajor": 7,
    "computeMinor": 0,
    "numSms": 80,
}
SGEMM = "volta_sgemm_128x64_nn"
HGEMM = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)"
ALL_REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"


@dataclass
class Run:
    """A run on one GPU, written down call by call. Times are microseconds; the host and each stream go forwards only."""

    old: bool = False
    begin_us: float = 1_600_000_000_000_000.0
    rank: int | None = None
    world_size: int | None = None
    gpu: dict[str, Any] = field(default_factory=lambda: dict(GPU))
    host_us: float = 0.0
    free_us: dict[int, float] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 100

    def category(self, new: str, old: str) -> str:
        return old if self.old else new

    def span(self, cat: str, name: str, start: float, duration: float, **args: Any) -> None:
        on_device = "stream" in args
        tid: Any = (f"stream {args['stream']}" if self.old else args["stream"]) if on_device else ("77" if self.old else 77)
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 0 if on_device else 77,
                "tid": tid,
                "ts": self.begin_us + start,
                "dur": duration,
                "args": args,
            }
        )

    def think(self, duration: float) -> None:
        """Host time that belongs to nothing."""
        self.host_us += duration

    def load(self, duration: float, workers: bool = True) -> None:
        """A batch from the loader."""
        kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
        name = f"enumerate(DataLoader)#{kind}.__next__"
        self.span(self.category("user_annotation", "Operator"), name, self.host_us, duration)
        self.host_us += duration

    def launch(self, name: str, duration: float, *, stream: int = 7, call: float = 5.0, blocks: float = 8.0) -> float:
        """A kernel; returns when it ends."""
        return self._issue("kernel", "Kernel", name, duration, "cudaLaunchKernel", stream, call, **{"blocks per SM": blocks})

    def copy(
        self, size: int, duration: float, kind: str = "Pageable -> Device", *, stream: int = 7, blocking: bool = True
    ) -> None:
        """A copy to the device."""
        name = f"Memcpy HtoD ({kind})"
        end = self._issue("gpu_memcpy", "Memcpy", name, duration, "cudaMemcpyAsync", stream, 5.0, bytes=size)
        if blocking:
            self.events[-2]["dur"] = end - (self.events[-2]["ts"] - self.begin_us)
            self.host_us = max(self.host_us, end)

    def _issue(
        self, new: str, old: str, name: str, duration: float, call_name: str, stream: int, call: float, **args: Any
    ) -> float:
        self.correlation += 1
        start = max(self.host_us + call + 3.0, self.free_us.get(stream, 0.0))
        runtime = self.category("cuda_runtime", "Runtime")
        self.span(runtime, call_name, self.host_us, call, correlation=self.correlation)
        self.span(self.category(new, old), name, start, duration, device=0, stream=stream, correlation=self.correlation, **args)
        self.free_us[stream] = start + duration
        self.host_us += call
        return start + duration

    def call(self, name: str, duration: float) -> None:
        """A call of the runtime that launches nothing."""
        self.correlation += 1
        runtime = self.category("cuda_runtime", "Runtime")
        self.span(runtime, name, self.host_us, duration, correlation=self.correlation)
        self.host_us += duration

    def sync(self) -> None:
        """Wait for everything on the device."""
        end = max([self.host_us + 2.0, *self.free_us.values()])
        self.call("cudaDeviceSynchronize", end - self.host_us)

    def op(self, name: str, duration: float, dims: list[Any] | None = None, types: list[str] | None = None) -> None:
        """An op of the host around what follows."""
        args: dict[str, Any] = {"External id": 1}
        if dims is not None:
            args |= {"Input Dims": dims, "Input type": types or ["float"] * len(dims)}
        self.span(self.category("cpu_op", "Operator"), name, self.host_us, duration, **args)

    def mark(self, name: str, start: float, end: float) -> None:
        """A mark on the host."""
        self.span(self.category("user_annotation", "Operator"), name, start, end - start)

    def document(self, **extra: Any) -> dict[str, Any]:
        """The file as the profiler would write it."""
        head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [self.gpu]}
        if self.rank is not None:
            head["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.world_size}
        return {**head, **extra, "traceEvents": self.events, "traceName": "made.json"}

    def write(self, path: Path, **extra: Any) -> Path:
        """Into a file, gzip if its name says so."""
        text = json.dumps(self.document(**extra), indent=1).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def fitting(run: Run, name: str, kernel_us: float) -> tuple[int, str]:
    """The edge of a square product that takes about as long on this GPU, and its type."""
    half = name != SGEMM
    flops_per_s = 1.2e13 if not half else 8e13 if run.gpu.get("computeMajor", 7) < 8 else 2.2e14
    edge = (flops_per_s * kernel_us * 1e-6 / 2) ** (1 / 3)
    return max(8, 8 * round(edge / 8)), "c10::Half" if half else "float"


def training(
    run: Run | None = None,
    *,
    steps: int = 5,
    kernels: int = 20,
    kernel_us: float = 500.0,
    name: str = HGEMM,
    load_us: float = 0.0,
    workers: bool = True,
    gap_us: float = 5.0,
    call_us: float = 5.0,
    copy_us: float = 0.0,
    sync: bool = False,
    reduce_us: float = 0.0,
    malloc_us: float = 0.0,
    optimizer_kernels: int = 0,
    marks: bool = True,
    numbers: int = 1,
) -> Run:
    """Steps of a training with a known shape; every option is a way to be slow."""
    run = run or Run()
    edge, kind = fitting(run, name, kernel_us)
    for step in range(steps):
        begin = run.host_us
        if load_us:
            run.load(load_us, workers)
        if copy_us:
            run.copy(50_000_000, copy_us)
        for place in range(kernels):
            run.think(gap_us)
            run.op("aten::mm", call_us, [[edge, edge], [edge, edge]], [kind, kind])
            run.launch(name if place % 4 else RELU, kernel_us, call=call_us)
            if malloc_us:
                run.call("cudaMalloc", malloc_us)
        if reduce_us:
            run.free_us[20] = max(run.free_us.values())
            end = run.launch(ALL_REDUCE, reduce_us, stream=20)
            run.free_us[7] = end
        start = run.host_us
        for _ in range(optimizer_kernels):
            run.think(gap_us)
            run.launch(RELU, 2.0, call=call_us)
        run.mark("Optimizer.step#SGD.step", start, max(run.host_us, start + 1.0))
        if sync:
            run.sync()
            run.think(800.0)
        if not marks:
            continue
        run.host_us = max(run.host_us, max(run.free_us.values()) - 200.0)
        run.mark(f"ProfilerStep#{step + numbers}", begin, run.host_us)
    return run


def varint(number: int) -> bytes:
    """A number as protocol buffers write it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    """A protocol buffer of integers, texts and messages."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(raw)) + raw
    return bytes(out)


def xplane(kernels: int = 10, kernel_us: int = 100, gap_us: int = 50, step: bool = True) -> bytes:
    """A profile of TensorFlow or JAX with one GPU, kernels on one stream, and one step."""
    names = [message((1, 1), (2, message((1, 1), (2, "gemm_fusion")))), message((1, 2), (2, message((1, 2), (2, "MemcpyH2D"))))]
    names.append(message((1, 3), (2, message((1, 3), (2, "0")))))
    stats = [
        message((1, 1), (2, message((1, 1), (2, "core_count")))),
        message((1, 2), (2, message((1, 2), (2, "memcpy_details")))),
    ]
    pace = (kernel_us + gap_us) * 1_000_000
    events = [message((1, 1), (2, place * pace), (3, kernel_us * 1_000_000)) for place in range(kernels)]
    copy = message((1, 2), (2, kernels * pace), (3, 10_000_000), (4, message((1, 2), (5, "size:4096 dest:0"))))
    stream = message((1, 1), (2, "Stream #1(Compute)"), (3, 1_000), *((4, event) for event in [*events, copy]))
    lines = [stream]
    if step:
        lines.append(message((1, 2), (2, "Steps"), (3, 1_000), (4, message((1, 3), (2, 0), (3, kernels * pace)))))
    device = message(
        (2, "/device:GPU:0"),
        *((3, line) for line in lines),
        *((4, name) for name in names),
        *((5, name) for name in stats),
        (6, message((1, 1), (4, 108))),
    )
    host = message((2, "/host:CPU"))
    return message((1, host), (1, device))


def nsys(path: Path, kernels: int = 10) -> Path:
    """An export of Nsight Systems with kernels, copies and calls."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
            gridX INTEGER, gridY INTEGER, gridZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER,
            nameId INTEGER);
        INSERT INTO StringIds VALUES (1, 'volta_sgemm_64x64_nt'), (2, 'cudaLaunchKernel_v7000');
        """
    )
    process = 7 << 24
    for place in range(kernels):
        start = 1_000_000 + place * 200_000
        row = (start, start + 100_000, 0, 7, place, process, 1, 1, 40, 1, 1)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?,?,?,?)", row)
        call = (start - 20_000, start - 10_000, place, process + 3, 2)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)", call)
    end = 1_000_000 + kernels * 200_000
    copy = (end, end + 50_000, 0, 7, kernels, process, 1_000_000, 1, 0, 2)
    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,?,?,?,?,?,?,?,?)", copy)
    database.commit()
    database.close()
    return path


def with_graphs(path: Path, graphs: int) -> Path:
    """An export with CUDA graphs of 1 ms that are traced as a whole, one every 1.1 ms behind all else."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # on a busy disk, each wait for it can take seconds
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER)"
    )
    database.execute("INSERT INTO StringIds VALUES (3, 'cudaGraphLaunch_v10000')")
    process = 7 << 24
    for place in range(graphs):
        start, number = 100_000_000 + place * 1_100_000, 1000 + place
        row = (start, start + 1_000_000, 0, 7, number, process, 3, 4)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?,?,?,?,?,?,?,?)", row)
        call = (start - 30_000, start - 10_000, number, process + 3, 3)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)", call)
    if not database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]:
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY")
    database.commit()
    database.close()
    return path


def autograd_profile(steps: int = 4, kernels: int = 10) -> list[dict[str, Any]]:
    """What `torch.autograd.profiler` wrote before PyTorch 1.8: no category, and the host and the GPU as two processes. A kernel
    of 500 µs every 600 µs."""
    events: list[dict[str, Any]] = []
    for place in range(steps * kernels):
        start = 1_000.0 + 600.0 * place
        op = {"name": "mm", "ph": "X", "ts": start, "dur": 20.0, "tid": 1, "pid": "CPU functions", "args": {}}
        arrow = {"name": "mm", "ph": "s", "ts": start, "tid": 1, "pid": "CPU functions", "id": place, "cat": "cpu_to_cuda"}
        kernel = {"name": SGEMM, "ph": "X", "ts": start + 30.0, "dur": 500.0, "tid": "0", "pid": "CUDA functions", "args": {}}
        events += [op, arrow, kernel]
    return events


def execution_trace(nodes: int = 30, *, timed: bool = False) -> dict[str, Any]:
    """What PyTorch's ExecutionTraceObserver writes; `timed`, as it is after linking: a kernel of 400 µs every 500 µs."""
    found: list[dict[str, Any]] = [{"id": 1, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1}]
    for place in range(nodes):
        shapes = {"values": [], "shapes": [[64, 64]], "types": ["Tensor(float)"]}
        op: dict[str, Any] = {"id": 2 * place + 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": shapes, "outputs": shapes}
        kernel: dict[str, Any] = {"id": 2 * place + 3, "name": SGEMM, "ctrl_deps": 2 * place + 2, "cat": "kernel"}
        if timed:
            op |= {"ts": 1_000 + 500 * place, "inclusive_dur": 20.5, "exclusive_dur": 20.5}
            kernel |= {"ts": 1_030 + 500 * place, "dur": 400, "stream": 7}
        found += [op, kernel] if timed else [op]
    return {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "2026-11-17", "start_ts": 1, "nodes": found, "finish_ts": 2}


def chakra(nodes: int = 30, *, timed: bool = True) -> bytes:
    """A `.et` file of Chakra with the same run."""
    out = bytearray()
    for content in (message((1, "0.0.4")), *(one for place in range(nodes) for one in _chakra_pair(place, timed))):
        out += varint(len(content)) + content
    return bytes(out)


def _chakra_pair(place: int, timed: bool) -> list[bytes]:
    host, device = (message((1, "is_cpu_op"), (27, value)) for value in (1, 0))
    times = [((6, 1_000 + 500 * place), (7, 20)), ((6, 1_030 + 500 * place), (7, 400))] if timed else [(), ()]
    shapes = message((2, "[[64,64]]"))
    return [
        message((1, 2 * place + 2), (2, "aten::mm"), (3, 4), *times[0], (8, shapes), (10, host)),
        message((1, 2 * place + 3), (2, SGEMM), (3, 4), *times[1], (10, device)),
    ]
