"""Products and attention of serving engines, timed one kernel at a time on GPUs of four generations.

Complete answers were mostly measured on one GPU per engine. These rows show how its kernels perform on others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuwise.evidence.operators import Batch, batches
from gpuwise.evidence.tables import read_table
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import gpus_of, times
from gpuwise.kernels.types import Constants, Group, Ops
from gpuwise.workload.language.weight_formats import FORMATS

Array = NDArray[np.float64]
_ENGINES = {"vllm": "vllm", "trtllm": "tensorrt-llm"}
_FORMATS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4", "int8_wo": "int8", "int4_wo": "int4"}
_CACHES = 2.0  # weights smaller than this many caches stay cached when a kernel is timed repeatedly, but not in a model
_LEAST_READ, _LEAST_FLOPS = 3e7, 2e10  # for attention; below this, the time is the launch time
_EACH = 3  # rows of one size class


@dataclass(frozen=True)
class KernelSet:
    """Kernels of one kind that an engine ran on one GPU with one family of weight formats."""

    engine: str
    family: str
    gpu: Gpu
    kind: str
    columns: Mapping[str, Array]
    measured_s: Array

    def seconds(self, constants: Constants) -> Array:
        """The prediction for each row."""
        count = len(self.measured_s)
        ops = Ops(count=count, groups=(Group(kind=self.kind, rows=np.arange(count), columns=dict(self.columns)),))
        found: Array = times(ops, gpus_of([self.gpu]), constants).seconds[:, 0]
        return found


def read_kernels(folder: Path) -> list[KernelSet]:
    """A sample of the rows in `gemm_lowp.parquet` and `attention.parquet`."""
    found: list[KernelSet] = []
    for name, sets_of in _TABLES.items():
        table = read_table(folder / name)
        for batch in batches(table)[0]:
            frameworks = np.array([str(table.columns["framework"][row]) for row in batch.rows])
            for framework, engine in _ENGINES.items():
                found += sets_of(batch, engine, np.flatnonzero(frameworks == framework))
    return found


def _products(batch: Batch, engine: str, places: NDArray[np.intp]) -> Iterator[KernelSet]:
    """Matrix products as layers whose weights are read from memory."""
    if batch.name not in _FORMATS or not len(places):
        return
    weights = FORMATS[_FORMATS[batch.name]]
    columns = {name: column[places, 0] for name, column in batch.columns.items()}
    cold = columns["n"] * columns["k"] * weights.bytes_a_weight > _CACHES * (batch.gpu.l2_bytes or 0.0)
    chosen = _spread(columns["m"], np.flatnonzero(cold))
    if not chosen:
        return
    count = len(chosen)
    held = {
        "tokens": columns["m"][chosen],
        "experts": np.ones(count),
        "chosen": np.ones(count),
        "width": np.full(count, weights.bytes_a_weight),
        **{name: columns[name][chosen] for name in ("n", "k", "dtype", "read", "written")},
    }
    yield _kernel_set(batch, engine, weights.family, "linear", held, batch.measured_s[places][chosen])


def _attentions(batch: Batch, engine: str, places: NDArray[np.intp]) -> Iterator[KernelSet]:
    """Attention in 16 bits over keys and values in 16 bits, large enough to take longer than its launch."""
    columns = {name: column[places, 0] for name, column in batch.columns.items()}
    sixteen = columns["read"] >= 4.0 * columns["batch"] * columns["head_dim"] * columns["kv_len"] * columns["kv_heads"]
    large = columns["read"] > _LEAST_READ if batch.name == "generation" else batch.flops[places] > _LEAST_FLOPS
    chosen = _spread(columns["kv_len"], np.flatnonzero(sixteen & large))
    if chosen:
        held = {name: values[chosen] for name, values in columns.items()}
        yield _kernel_set(batch, engine, "plain", "attention", held, batch.measured_s[places][chosen])


def _kernel_set(batch: Batch, engine: str, family: str, kind: str, columns: Mapping[str, Array], measured_s: Array) -> KernelSet:
    shaped = {name: values.reshape(-1, 1) for name, values in columns.items()}
    return KernelSet(engine, family, batch.gpu, kind, shaped, measured_s)


def _spread(size: Array, places: NDArray[np.intp]) -> list[int]:
    """A few of these places for each doubling of the size. The choice is deterministic."""
    classes: dict[int, list[int]] = defaultdict(list)
    for place in np.random.default_rng(0).permutation(places):
        classes[int(np.log2(max(1.0, size[place])))].append(int(place))
    return sorted(place for members in classes.values() for place in members[:_EACH])


_TABLES: Mapping[str, Callable[[Batch, str, NDArray[np.intp]], Iterator[KernelSet]]] = {
    "gemm_lowp.parquet": _products,
    "attention.parquet": _attentions,
}


def of_engine(kernels: Sequence[KernelSet], engine: str) -> tuple[KernelSet, ...]:
    return tuple(one for one in kernels if one.engine == engine)
