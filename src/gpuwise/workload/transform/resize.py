"""Derives a step of a convolutional network for images of any size from the same step at two sizes, one with twice the side.

Every size in such a step is a number of channels, a side, an area or a product of these: between the two steps it either stays
the same or grows by a power of two. The power says how it grows with the side. The result is exact for sides that the network
halves evenly.
"""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import Buffers, Calls, Op, TensorSpec, Workload, ints

__all__ = ["resized"]

_ROUND = 1e-9


def resized(small: Workload, large: Workload, ratio: float) -> Workload:
    """Return the step of `small` at `ratio` times its side; `large` is the same step at twice the side."""
    if not _same_form(small, large):
        raise BadValue(
            f"{small.model} and {large.model} are not the same network", hint="use an image size that the model was captured with"
        )
    tables = _Tables(small, large, ratio)
    ops = [tables.op(*pair) for pair in zip(small.calls.op.tolist(), large.calls.op.tolist(), strict=True)]
    tensors = [tables.tensor(*pair) for pair in zip(small.buffers.tensor.tolist(), large.buffers.tensor.tolist(), strict=True)]
    calls, buffers = small.calls, small.buffers
    return replace(
        small,
        dims=np.array(tables.dims, dtype=np.float64),
        products=tuple(tables.products),
        tensors=tuple(tables.tensors),
        ops=tuple(tables.ops),
        calls=Calls(
            op=ints(ops),
            phase=calls.phase,
            module=calls.module,
            read_count=calls.read_count,
            written_count=calls.written_count,
            refs=calls.refs,
        ),
        buffers=Buffers(tensor=ints(tensors), category=buffers.category, born=buffers.born, died=buffers.died),
    )


def _same_form(small: Workload, large: Workload) -> bool:
    if len(small.calls) != len(large.calls) or len(small.buffers) != len(large.buffers):
        return False
    kinds = [(small.ops[one].name, large.ops[two].name) for one, two in zip(small.calls.op, large.calls.op, strict=True)]
    return all(one == two for one, two in kinds) and bool(np.array_equal(small.calls.refs, large.calls.refs))


class _Tables:
    """The tables of the new step, filled as its calls and buffers need them. Sizes that are equal at both sides share one row."""

    def __init__(self, small: Workload, large: Workload, ratio: float) -> None:
        self._small, self._large, self._ratio = small, large, ratio
        self._values = [
            product_values(one, 1.0)[0] if "batch" in one.symbols else product_values(one)[0] for one in (small, large)
        ]
        self.dims: list[list[float]] = [[float(value) for value in row] for row in small.dims]
        self.products: list[tuple[int, ...]] = []
        self.tensors: list[TensorSpec] = []
        self.ops: list[Op] = []
        self._rows: dict[tuple[str, int, int], int] = {}
        self._factors: dict[float, int] = {}

    def op(self, one: int, two: int) -> int:
        """Return the row for this pair of ops."""
        key = ("op", one, two)
        if key not in self._rows:
            small, large = self._small.ops[one], self._large.ops[two]
            made = replace(
                small,
                sizes=tuple(map(self._product, small.sizes, large.sizes)),
                reads=tuple(map(self.tensor, small.reads, large.reads)),
                writes=tuple(map(self.tensor, small.writes, large.writes)),
            )
            self._rows[key] = len(self.ops)
            self.ops.append(made)
        return self._rows[key]

    def tensor(self, one: int, two: int) -> int:
        """Return the row for this pair of tensors."""
        key = ("tensor", one, two)
        if key not in self._rows:
            small, large = self._small.tensors[one], self._large.tensors[two]
            made = TensorSpec(small.dtype, self._product(small.elements, large.elements))
            self._rows[key] = len(self.tensors)
            self.tensors.append(made)
        return self._rows[key]

    def _product(self, one: int, two: int) -> int:
        key = ("product", one, two)
        if key not in self._rows:
            before, after = (float(values[row]) for values, row in zip(self._values, (one, two), strict=True))
            power = log2(after / before) if before and after else 0.0
            if abs(power - round(power)) > _ROUND:
                raise BadValue(
                    f"a size of {self._small.model} does not grow with the image as a power of its side",
                    hint="use an image size that the model was captured with",
                )
            self._rows[key] = len(self.products)
            self.products.append((*self._small.products[one], *self._factor(round(power))))
        return self._rows[key]

    def _factor(self, power: int) -> tuple[int, ...]:
        """Return the dimension by which a size of this power is multiplied."""
        if not power:
            return ()
        factor = self._ratio**power
        if factor not in self._factors:
            self._factors[factor] = len(self.dims)
            self.dims.append([factor, 0.0, 0.0, 0.0])
        return (self._factors[factor],)
