"""Synthetic ops: the columns that kernel models read, for products, convolutions, attention, streams and recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuwise.kernels.limits import CLASSES
from gpuwise.kernels.types import DTYPES, Group, Ops


def ops(kind: str, **columns: Any) -> Ops:
    count = max(np.size(value) for value in columns.values())
    shaped = {name: np.broadcast_to(np.asarray(value, float), (count,)).reshape(-1, 1) for name, value in columns.items()}
    return Ops(count=count, groups=(Group(kind=kind, rows=np.arange(count), columns=shaped),))


def product(batch: Any = 1, m: Any = 1, n: Any = 1, k: Any = 1, dtype: str = "fp32") -> Ops:
    batch, m, n, k = (np.asarray(value, float) for value in (batch, m, n, k))
    width = {"fp32": 4, "tf32": 4, "fp64": 8, "fp8": 1, "int8": 1}.get(dtype, 2)
    return ops(
        "matmul",
        batch=batch,
        m=m,
        n=n,
        k=k,
        dtype=DTYPES.index(dtype),
        aligned=(n % 8 == 0) & (k % 8 == 0),
        read=batch * (m * k + k * n) * width,
        written=batch * m * n * width,
    )


def convolution(
    n: float,
    c: float,
    k: float,
    side: float,
    taps: float,
    which: int,
    dtype: str = "fp32",
    groups: float = 1,
    stride: float = 1,
    nhwc: int = 0,
    old: int = 0,
) -> Ops:
    """`side` is that of the output; with a stride the input is so many times as long."""
    width = 4 if dtype == "fp32" else 2
    x, w, y = n * c * (stride * side) ** 2 * width, c * k / groups * taps * width, n * k * side**2 * width
    return ops(
        "conv",
        n=n,
        c_in=c,
        c_out=k,
        kernel=taps,
        out_positions=side**2,
        in_positions=(stride * side) ** 2,
        dtype=DTYPES.index(dtype),
        groups=groups,
        **{"pass": which},
        strided=stride > 1,
        nhwc=nhwc,
        depthwise=groups >= c and groups > 1,
        old=old,
        read=(x + w, y + w, x + y)[which],
        written=(y, x, w)[which],
    )


def attention(
    batch: float = 1,
    heads: float = 8,
    q: float = 128,
    kv: float = 128,
    width: float = 64,
    backward: int = 0,
    unfused: int = 0,
    causal: int = 0,
    masked: int = 0,
    dtype: str = "fp16",
) -> Ops:
    return ops(
        "attention",
        batch=batch,
        heads=heads,
        kv_heads=heads,
        q_len=q,
        kv_len=kv,
        head_dim=width,
        value_dim=width,
        dtype=DTYPES.index(dtype),
        backward=backward,
        causal=causal,
        masked=masked,
        unfused=unfused,
        read=2 * batch * heads * width * (q + 2 * kv),
        written=2 * batch * heads * width * q,
    )


def moved(elements: float, name: str = "elementwise", launches: float = 1, looked: float = 0) -> Ops:
    place, size = CLASSES.index(name), 4 * elements
    return ops("memory_bound", **{"class": place}, read=size, written=size, launches=launches, looked=looked)


def recurrent(steps: float, batch: float, hidden: float, backward: int = 0) -> Ops:
    return ops(
        "rnn",
        steps=steps,
        batch=batch,
        input=hidden,
        hidden=hidden,
        layers=1,
        directions=1,
        dtype=0,
        gates=4,
        backward=backward,
        width=4,
        read=4 * steps * batch * hidden,
        written=4 * steps * batch * hidden,
    )


def held(tokens: Any, n: Any = 4096, k: Any = 4096, width: float = 2.0, experts: float = 1.0, chosen: float = 1.0) -> Ops:
    """A linear layer whose weights take `width` bytes each, one matrix or many to choose from."""
    read = 2.0 * tokens * k + (width * n * k if experts == 1 else 0.0)
    sizes = {"tokens": tokens, "experts": experts, "chosen": chosen, "n": n, "k": k, "width": width}
    return ops("linear", **sizes, dtype=DTYPES.index("fp16"), read=read, written=2.0 * tokens * chosen * n)
