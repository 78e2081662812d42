"""Eager workloads written by hand, for tests that need a step of exactly these calls."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuwise.workload.model.types import CATEGORIES, PHASES, Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload

ROWS, WIDTH, WIDE = 0, 1, 2  # products: batch·16, 64, batch·16·64
_PRODUCTS = ((0,), (1,), (0, 1), ())
ONE = 3
DTYPES = ("fp32", "fp16")


@dataclass
class Builder:
    """Writes eager workloads by hand, as a recorder would."""

    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    buffers: list[list[int]] = field(default_factory=list)
    tensors: list[TensorSpec] = field(default_factory=list)
    phase: str = "forward"

    def tensor(self, elements: int, dtype: str) -> int:
        spec = TensorSpec(dtype, elements)
        if spec not in self.tensors:
            self.tensors.append(spec)
        return self.tensors.index(spec)

    def buffer(self, elements: int = WIDE, dtype: str = "fp32", category: str = "input", born: int = 0) -> int:
        self.buffers.append([self.tensor(elements, dtype), CATEGORIES.index(category), born, -1])
        return len(self.buffers) - 1

    def call(
        self, kind: str, name: str, reads: list[int], *, out: int = WIDE, dtype: str = "fp32", more: tuple[int, ...] = ()
    ) -> int:
        """Append a call that writes a new buffer (and `more` of these sizes); returns the first."""
        made = [self.buffer(elements, dtype, "temporary", len(self.calls)) for elements in (out, *more)]
        self._append(kind, name, reads, made, dtype)
        return made[0]

    def inplace(self, name: str, reads: list[int]) -> int:
        """Append an elementwise call that writes over the first buffer it reads."""
        self._append("elementwise", name, reads, reads[:1], self.tensors[self.buffers[reads[0]][0]].dtype)
        return reads[0]

    def _append(self, kind: str, name: str, reads: list[int], writes: list[int], dtype: str) -> None:
        sizes = {
            "matmul": (ONE, ROWS, WIDTH, WIDTH),
            "norm": (ROWS, WIDTH),
            "softmax": (ROWS, WIDTH),
            "reduction": (WIDE, self.tensors[self.buffers[writes[0]][0]].elements),
            "optimizer": (WIDE, ONE),
        }.get(kind, (self.tensors[self.buffers[writes[0]][0]].elements,))
        tensors = [[self.buffers[buffer][0] for buffer in buffers] for buffers in (reads, writes)]
        op = Op(kind, name, dtype, sizes, {}, tuple(tensors[0]), tuple(tensors[1]))
        if op not in self.ops:
            self.ops.append(op)
        self.calls.append(Call(self.ops.index(op), PHASES.index(self.phase), 0, tuple(reads), tuple(writes)))

    def workload(self, *, outputs: tuple[int, ...] = (), held: int = 0) -> Workload:
        """The workload; buffers die `held` calls after their last use, outputs and what was there before at the end."""
        end = len(self.calls)
        last = {buffer: index for index, call in enumerate(self.calls) for buffer in (*call.reads, *call.writes)}
        for number, buffer in enumerate(self.buffers):
            lasts = number in outputs or CATEGORIES[buffer[1]] not in ("temporary", "activation")
            buffer[3] = end if lasts else min(end, last[number] + 1 + held)
        return Workload(
            model="hand",
            source="test",
            mode="train",
            precision="fp32",
            batch=8,
            symbols=("batch",),
            parameters=0,
            dims=np.array([[0, 16, 0, 0], [64, 0, 0, 0]], dtype=np.float64),
            products=_PRODUCTS,
            tensors=tuple(self.tensors),
            ops=tuple(self.ops),
            calls=Calls.of(self.calls),
            modules=("",),
            buffers=Buffers.of([Buffer(*buffer) for buffer in self.buffers]),
        )
