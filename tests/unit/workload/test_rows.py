"""Calls and buffers kept as columns: the rows they stand for, held against a plain decoding of the zoo's files."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.evaluate import call_counts, peak_memory, product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Buffer, Buffers, Call, Calls, Settings, Workload
from gpuwise.workload.store import zoo

DATA = files("gpuwise.workload") / "data" / "zoo"
MODELS = ("qwen2.5-0.5b", "whisper-small", "sdxl_unet", "resnet50", "mnist_mlp", "dlrm", "mask_rcnn")
CALLS = (Call(0, 0, 0, (0, 1), (2,)), Call(1, 0, 1, (), ()), Call(1, 2, 0, (2,), (3, 0)))
BUFFERS = (Buffer(0, 3, 0, 2), Buffer(1, 0, 0, 2), Buffer(2, 5, 1, 2))


def stored(model: str) -> Workload:
    """The model's fp32 training step as its file has it, no optimizer added."""
    return zoo.load(model, Request(model=model, settings=Settings(mode="train", precision="fp32", optimizer="none")))


# ---------------------------------------------------------------- a plain decoding, one number at a time


def behind_newest(steps: list[int]) -> list[int]:
    values, top = [], 0
    for step in steps:
        values.append(top - step)
        top = max(top, values[-1] + 1)
    return values


class Decoded:
    """Calls, with their modules by name, and buffers of a model's fp32 training graph."""

    def __init__(self, model: str) -> None:
        page = json.loads(gzip.decompress((DATA / f"{model}.json.gz").read_bytes()))
        rows = [(row.mode, row.phase, row.precision) for row in zoo.entry(model).graphs]
        number = rows.index(("train", "", "fp32"))
        self.graph: dict[str, Any] = {name: graphs[number] for name, graphs in page["columns"].items()}
        self.heads = [page["heads"][row] for row in self.graph["op_heads"]]
        tensors = iter(behind_newest(self.graph["op_tensors"]))
        self.tensors = [[next(tensors) for _ in range(reads + writes)] for *_, reads, writes in self.heads]
        self.maker: dict[int, tuple[int, int]] = {}  # buffer -> the call that writes it first, its tensor there
        self.user: dict[int, int] = {}  # buffer -> the last call that uses it
        self.calls = self._calls(page["modules"])
        self.buffers = self._buffers()

    def _calls(self, modules: list[str]) -> list[tuple[Any, ...]]:
        phases = [phase for phase, count in enumerate(self.graph["phases"]) for _ in range(count)]
        named = [modules[row] for row in accumulate(self.graph["call_modules"])]
        ops = behind_newest(self.graph["call_ops"])
        refs, calls = iter(self._refs(ops, phases)), []
        for op, phase, module in zip(ops, phases, named, strict=True):
            reads, writes = self.heads[op][-2:]
            own = tuple(next(refs) for _ in range(reads + writes))
            for place, buffer in enumerate(own):
                self.user[buffer] = len(calls)
                if place >= reads:
                    self.maker.setdefault(buffer, (len(calls), self.tensors[op][place]))
            calls.append((op, phase, module, own[:reads], own[reads:]))
        return calls

    def _refs(self, ops: list[int], phases: list[int]) -> list[int]:
        """Buffers in the order of the calls. The file has them kind by kind, each less what the layers before let expect."""
        number = {name: place for place, name in enumerate(dict.fromkeys(head[1] for head in self.heads))}
        kinds: dict[tuple[int, int, int], list[int]] = {}
        count = 0
        for op, phase in zip(ops, phases, strict=True):
            _, name, _, _, reads, writes = self.heads[op]
            for place in range(reads + writes):
                kind = (phase, number[name], 0 if reads + writes > 16 else place)
                kinds.setdefault(kind, []).append(count)
                count += 1
        changes, found = iter(self.graph["refs"]), [0] * count
        for kind, lag in zip(sorted(kinds), self.graph["lags"], strict=True):
            values: list[int] = []
            for at, slot in enumerate(kinds[kind]):
                if at < lag:
                    expected = values[-1] if at else 0
                elif at < 2 * lag:
                    expected = values[at - lag]
                else:
                    expected = 2 * values[at - lag] - values[at - 2 * lag]
                values.append(expected + next(changes))
                found[slot] = values[-1]
        return found

    def _buffers(self) -> list[Buffer]:
        graph, end, forward, tensor, found = self.graph, len(self.calls), self.graph["phases"][0], 0, []
        columns = (graph[f"buffer_{name}"] for name in ("tensors", "categories", "born", "died"))
        for number, (change, category, later, late) in enumerate(zip(*columns, strict=True)):
            first, made = self.maker.get(number, (0, -1))
            born = first + later
            died = max(self.user.get(number, -1), born) + late - 1 if late else end
            expected = CATEGORIES.index("activation" if born < forward < died else "temporary")
            tensor += (change - 1) // 2 if change else 0
            found.append(Buffer(tensor if change else made, expected if category < 0 else category, born, died))
        return found


@pytest.mark.parametrize("model", MODELS)
def test_a_loaded_workload_is_what_its_file_says(model: str) -> None:
    workload, plain = stored(model), Decoded(model)
    named = [(call.op, call.phase, workload.modules[call.module], call.reads, call.writes) for call in workload.calls]
    assert named == plain.calls
    assert list(workload.buffers) == plain.buffers
    assert [(*op.reads, *op.writes) for op in workload.ops] == [tuple(row) for row in plain.tensors]


@pytest.mark.parametrize("model", MODELS)
def test_sums_over_columns_are_sums_over_rows(model: str) -> None:
    workload = stored(model)
    counts = np.zeros((3, len(workload.ops)))
    for call in workload.calls:
        counts[call.phase, call.op] += 1
    assert np.array_equal(call_counts(workload), counts)
    values, peak = product_values(workload)[0], peak_memory(workload)
    size = [values[tensor.elements] * DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors]
    alive = [size[buffer.tensor] for buffer in workload.buffers if buffer.born <= peak.call < buffer.died]
    assert peak.total_bytes == pytest.approx(sum(alive))


# ---------------------------------------------------------------- the sequence


def test_rows_come_back_from_columns_as_they_went_in() -> None:
    assert Calls.of(CALLS) == CALLS
    assert Buffers.of(BUFFERS) == BUFFERS
    assert Calls.of(()) == ()
    assert (len(Calls.of(CALLS)), len(Buffers.of(BUFFERS)), bool(Calls.of(()))) == (3, 3, False)
    assert Calls.of(CALLS)[-1] is not CALLS[-1]
    assert Calls.of(CALLS)[1:] == CALLS[1:]
    assert Calls.of(CALLS) != CALLS[1:]
    assert Calls.of(CALLS) != 3


def test_a_changed_column_changes_its_rows_only() -> None:
    calls = Calls.of(CALLS)
    assert calls[0].phase == 0
    moved = replace(calls, phase=calls.phase + 1)
    assert [call.phase for call in moved] == [1, 1, 3]
    assert [call.phase for call in calls] == [0, 0, 2]


def test_numbers_of_rows_are_plain() -> None:
    assert {type(value) for value in (*Calls.of(CALLS)[0].reads, Calls.of(CALLS)[0].op, Buffers.of(BUFFERS)[0].died)} == {int}


def test_sums_make_no_row() -> None:
    loaded = zoo.load("resnet50")
    workload = replace(loaded, calls=replace(loaded.calls), buffers=replace(loaded.buffers))
    peak_memory(workload)
    coverage(workload)
    assert not {"_rows"} & {*vars(workload.calls), *vars(workload.buffers)}
    assert workload.calls[0].op == 0
    assert "_rows" in vars(workload.calls)
