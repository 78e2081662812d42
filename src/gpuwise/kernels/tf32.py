"""What may run as TF32 and is faster in fp32 runs in fp32: no product is slower for being allowed a faster way.

On GeForce cards both have the same peak, and TF32 reaches less of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuwise.kernels.limits import longer
from gpuwise.kernels.types import Columns, Constants, Cost, Gpus, dtype_code

__all__ = ["or_plain"]

_FP32, _TF32 = dtype_code("fp32"), dtype_code("tf32")
Model = Callable[[Columns, Gpus, Constants], Cost]


def or_plain(model: Model) -> Model:
    """The model of a kernel, with the faster of both for ops that may run as TF32."""

    def priced(op: Columns, gpu: Gpus, k: Constants) -> Cost:
        own = model(op, gpu, k)
        may = op["dtype"][:, 0] == _TF32
        if not may.any():
            return own
        columns = {name: column[may] for name, column in op.items()}
        plain = model({**columns, "dtype": np.full_like(columns["dtype"], _FP32)}, gpu, k)
        shape = np.broadcast_shapes(np.shape(own.compute_s), np.shape(own.memory_s))
        parts = {name: np.array(np.broadcast_to(getattr(own, name), shape)) for name in ("compute_s", "memory_s", "launches")}
        compute, memory = np.broadcast_arrays(plain.compute_s, plain.memory_s)
        before = longer(parts["compute_s"][may], parts["memory_s"][may], k["overlap"])
        better = longer(compute, memory, k["overlap"]) < before
        for name, values in parts.items():
            values[may] = np.where(better, getattr(plain, name), values[may])
        return Cost(**parts)

    return priced
