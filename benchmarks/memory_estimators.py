"""How far are memory estimates from measured peaks? Compares gpuwise with accelerate, DeepSpeed and MemTracker on the same rows.

    GPUWISE_CACHE=… python benchmarks/memory_estimators.py ../shared/evidence/memory.csv [MODELS]

The rows come from GPUMemNet (device memory of timm models in training), from families that no constant in gpuwise was fitted to.
MODELS of them are used (default 4), spread over sizes, at their smallest and largest batch. timm and torch must be installed.

- accelerate: `accelerate estimate-memory` prints four times the fp32 weights for training with Adam (weights, gradients, two
  moments); https://huggingface.co/docs/accelerate/usage_guides/model_size_estimator
- DeepSpeed: `estimate_zero2_model_states_mem_needs` on one GPU without offload: 4 + 16 bytes per parameter;
  https://deepspeed.readthedocs.io/en/latest/memory.html
- MemTracker: `torch.distributed._tools.mem_tracker` around two steps on fake tensors. It includes tensors, but not the allocator
  or the context, and takes up to a minute per row.

Twelve models (24 rows): median error 95.9% (accelerate), 94.9% (DeepSpeed), 51.1% (MemTracker), 2.0% (gpuwise).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from peer_memory import by_tracker

from gpuwise.evidence.memory import MemoryQuestion, fitted_half, memory_questions, predicted_bytes
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Table

MODELS = 4


def main(path: Path, models: int) -> None:
    """Choose rows, run all tools, and print errors and the time per answer."""
    asked = chosen(path, models)
    estimators: dict[str, Callable[[MemoryQuestion], float]] = {
        "accelerate (4 x fp32 weights)": lambda entry: 16.0 * _parameters(entry),
        "DeepSpeed (20 B a parameter)": lambda entry: 20.0 * _parameters(entry),
        "torch MemTracker": tracked,
        "gpuwise": predicted_bytes,
    }
    print(f"{len(asked)} rows of {len({entry.cells['model'] for entry in asked})} models: {', '.join(_names(asked))}\n")
    print(f"{'':32}{'median':>9}{'worst':>9}{'bias':>9}{'s a row':>9}")
    for name, estimate in estimators.items():
        started = time.perf_counter()
        errors = np.array([estimate(entry) / entry.measured_bytes - 1 for entry in asked])
        spent = (time.perf_counter() - started) / len(asked)
        figures = (np.median(np.abs(errors)), np.max(np.abs(errors)), np.median(errors))
        print(f"{name:32}" + "".join(f"{100 * value:8.1f}%" for value in figures) + f"{spent:9.2f}")


def chosen(path: Path, models: int) -> list[MemoryQuestion]:
    """The smallest and largest batch for models spread over the range of parameter counts."""
    table = read_table(path)
    wanted = [
        number
        for number in range(table.count)
        if table.row(number)["source"] == "gpumemnet" and not fitted_half(str(table.row(number)["family"]))
    ]
    columns = {name: tuple(values[number] for number in wanted) for name, values in table.columns.items()}
    asked, _ = memory_questions(Table(kind=table.kind, columns=columns))
    names = sorted({entry.cells["model"] for entry in asked}, key=lambda name: _size(asked, name))
    picked = {names[int(place)] for place in np.linspace(0, len(names) - 1, min(models, len(names)))}
    found = []
    for name in sorted(picked):
        rows = sorted((entry for entry in asked if entry.cells["model"] == name), key=lambda entry: entry.batch)
        found += [rows[0], rows[-1]] if len(rows) > 1 else rows
    return found


def _size(asked: Sequence[MemoryQuestion], name: str) -> int:
    return next(int(_parameters(entry)) for entry in asked if entry.cells["model"] == name)


def _names(asked: Sequence[MemoryQuestion]) -> list[str]:
    return list(dict.fromkeys(entry.cells["model"] for entry in asked))


def _parameters(entry: MemoryQuestion) -> float:
    assert entry.workload is not None  # noqa: S101
    return float(entry.workload.parameters)


def tracked(entry: MemoryQuestion) -> float:
    """The peak that MemTracker sees."""
    from gpuwise.workload.capture.torch.torchvision import import_torchvision

    import_torchvision()  # timm imports it, and its compiled operators may not match the installed torch
    import timm

    return by_tracker(timm.create_model(entry.cells["model"]).train(), int(entry.batch))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else MODELS)
