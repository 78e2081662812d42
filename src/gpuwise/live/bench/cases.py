"""The cases measured on a device, in torch. Each has a kind, its sizes, its work and the function to call."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

__all__ = ["Case", "cases"]

_MATMULS = (
    *((1, edge, edge, edge) for edge in (16, 64, 256, 512, 1024)),
    (1, 32, 512, 512),
    (1, 64, 1024, 256),
    (1, 512, 512, 32),
    (1, 2048, 64, 64),
    (1, 64, 64, 2048),
    (1, 64, 10, 512),
    (32, 64, 64, 32),
)
_CONVOLUTIONS = (
    (16, 3, 32, 3, 32),
    (16, 16, 32, 3, 32),
    (16, 32, 32, 3, 32),
    (16, 64, 64, 3, 16),
    (8, 128, 128, 3, 8),
    (16, 64, 128, 1, 16),
    (16, 32, 64, 5, 16),
)
_SHORT_ROWS = ((64, 10), (2048, 10))
_DEPTHWISE = ((16, 64, 3, 16), (8, 24, 3, 56), (16, 192, 5, 8), (8, 96, 7, 14))
_ELEMENTS = (1_000, 30_000, 1_000_000, 8_000_000)
_ROWS = ((64, 64), (2048, 128), (4096, 512))
_CELLS: dict[str, tuple[int, tuple[tuple[int, int, int, int], ...]]] = {  # gates, and steps, batch, hidden size and layers
    "LSTM": (4, ((16, 16, 32, 1), (32, 16, 64, 1), (32, 32, 128, 1), (32, 32, 256, 1), (32, 16, 64, 2), (32, 32, 128, 2))),
    "GRU": (3, ((16, 16, 32, 1), (32, 16, 64, 1), (32, 32, 128, 1), (32, 32, 256, 1), (32, 16, 64, 2))),
    "RNN": (1, ((16, 16, 32, 1), (32, 16, 64, 1), (32, 32, 128, 1), (32, 32, 256, 1), (32, 16, 64, 2))),
}
_APART_BYTES = 8 * 2**20
_MOST_TURNS = 64
_LARGEST_KEPT_BYTES = 32 * 2**20 - 2**16
_FRESH_BYTES = 16 * 2**20
_OPTIMIZED = ((4, 100), (100, 100), (2, 1_000_000))
_OPTIMIZERS = {"sgd": {}, "momentum": {"momentum": 0.9}, "adam": {}, "adamw": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One piece of work, ready to be called."""

    kind: str
    sizes: tuple[float, ...]
    work: float
    call: Callable[[], Any]
    unit: str = "FLOP"


def cases(device: str) -> Iterator[Case]:
    """Yield every case, starting with those that all predictions need; tensors are created when a case is reached and freed at
    the next one.
    """
    _keep_freed_memory()
    for family in (
        _chain,
        _matmul,
        _elementwise,
        _optimizers,
        _fresh,
        _convolution,
        _rows,
        _images,
        _attention,
        _lookups,
        _recurrent,
    ):
        yield from family(device)


def _keep_freed_memory() -> None:
    """Make the C library reuse the memory of tensors for what is measured next, because fresh memory is measured on its own. It
    keeps up to twice the largest block that it has freed; larger blocks than this one never count.
    """
    import torch

    torch.empty(_LARGEST_KEPT_BYTES, dtype=torch.uint8)


def _turns(make: Callable[[], Any], size_bytes: float) -> Callable[[], Any]:
    """Alternate between operands, so that they do not always come from the nearest cache, as in real training."""
    count = int(min(max(_APART_BYTES // max(size_bytes, 1.0), 1), _MOST_TURNS))
    return cycle([make() for _ in range(count)]).__next__


def _matmul(device: str) -> Iterator[Case]:
    import torch

    types = {"fp32": torch.float32, "bf16": torch.bfloat16} | ({} if device == "cpu" else {"fp16": torch.float16})
    for name, dtype in types.items():
        for batch, m, n, k in _MATMULS if name == "fp32" else _MATMULS[3:5]:

            def pair(b: int = batch, m: int = m, n: int = n, k: int = k, d: Any = dtype) -> Any:
                left, right = torch.randn(b, m, k, device=device).to(d), torch.randn(b, n, k, device=device).to(d)
                return (left[0], right[0].T) if b == 1 else (left, right.transpose(1, 2))

            operands = _turns(pair, 4.0 * batch * k * (m + n))
            work = 2.0 * batch * m * n * k
            yield Case(kind=f"matmul.{name}", sizes=(batch, m, n, k), work=work, call=lambda p=operands: torch.matmul(*p()))  # type: ignore[misc]


def _convolution(device: str) -> Iterator[Case]:
    for n, c_in, c_out, edge, pixels in _CONVOLUTIONS:
        yield from _one_convolution(device, "conv", (n, c_in, c_out, edge, pixels))
        if edge > 1 and c_in > 3:
            yield from _one_convolution(device, "strided", (n, c_in, c_out, edge, pixels), stride=2)
    for n, channels, edge, pixels in _DEPTHWISE:
        shape = n, channels, channels, edge, pixels
        yield from _one_convolution(device, "depthwise", shape, groups=channels)
        yield from _one_convolution(device, "depthwise_strided", shape, stride=2, groups=channels)


def _one_convolution(
    device: str, kind: str, shape: tuple[int, int, int, int, int], *, stride: int = 1, groups: int = 1
) -> Iterator[Case]:
    """Yield the forward pass, and the backward passes for the data and for the weights."""
    import torch

    n, c_in, c_out, edge, pixels = shape
    image = torch.randn(n, c_in, pixels, pixels, device=device)
    weight = torch.randn(c_out, c_in // groups, edge, edge, device=device)
    pad, step = [edge // 2, edge // 2], [stride, stride]

    def forward() -> Any:
        return torch.nn.functional.conv2d(image, weight, padding=tuple(pad), stride=tuple(step), groups=groups)

    out = torch.randn_like(forward())

    def backward(mask: list[bool]) -> Any:
        return torch.ops.aten.convolution_backward(out, image, weight, None, step, pad, [1, 1], False, [0, 0], groups, mask)

    positions = out.shape[-1] ** 2
    work = 2.0 * n * c_out * (c_in // groups) * edge * edge * positions
    sizes = (n, c_in // groups, c_out, edge * edge, positions)
    yield Case(kind=f"{kind}.forward", sizes=sizes, work=work, call=forward)
    yield Case(kind=f"{kind}.data", sizes=sizes, work=work, call=lambda: backward([True, False, False]))
    yield Case(kind=f"{kind}.weight", sizes=sizes, work=work, call=lambda: backward([False, True, False]))


def _both(
    kind: str, sizes: tuple[float, ...], work: tuple[float, float], run: Callable[[], Any], inputs: Any, unit: str
) -> Iterator[Case]:
    """Yield a function's forward pass, and its backward pass through a graph that is kept."""
    import torch

    out = run()
    seed = torch.ones_like(out)
    yield Case(kind=f"{kind}.forward", sizes=sizes, work=work[0], call=run, unit=unit)
    yield Case(
        kind=f"{kind}.backward",
        sizes=sizes,
        work=work[1],
        call=lambda: torch.autograd.grad(out, inputs, seed, retain_graph=True),
        unit=unit,
    )


def _attention(device: str) -> Iterator[Case]:
    import torch

    for batch, heads, length, width in ((16, 4, 64, 32), (4, 8, 256, 64)):
        inputs = [torch.randn(batch, heads, length, width, device=device, requires_grad=True) for _ in range(3)]
        work = 4.0 * batch * heads * length * length * width
        sizes = (batch, heads, length, width)
        yield from _both(
            "attention",
            sizes,
            (work, 2.5 * work),
            lambda i=inputs: torch.nn.functional.scaled_dot_product_attention(*i),  # type: ignore[misc]
            inputs,
            "FLOP",
        )


def _recurrent(device: str) -> Iterator[Case]:
    """Yield every cell, because frameworks run them in different ways, and layers on top of each other."""
    import torch

    for cell, (gates, shapes) in _CELLS.items():
        for steps, batch, hidden, layers in shapes:
            layer = getattr(torch.nn, cell)(hidden, hidden, layers, device=device)
            batch_in = torch.randn(steps, batch, hidden, device=device, requires_grad=True)
            work = 4.0 * gates * layers * steps * batch * hidden * hidden
            inputs = [batch_in, *layer.parameters()]
            run = lambda l=layer, b=batch_in: l(b)[0]  # noqa: E731, E741
            yield from _both(cell.lower(), (steps, batch, hidden, layers), (work, 2 * work), run, inputs, "FLOP")


def _elementwise(device: str) -> Iterator[Case]:
    import torch

    functions = torch.nn.functional
    kinds: dict[str, tuple[float, Callable[[Any], Any]]] = {
        "curve": (8.0, functions.gelu),
        "tanh": (8.0, torch.tanh),
        "reduction": (4.0, torch.sum),
        "random": (4.0, lambda x: torch.bernoulli(x, 0.5)),
        "dropout": (9.0, functions.dropout),
    }
    for count in _ELEMENTS:
        pair = _turns(lambda c=count: (torch.randn(c, device=device), torch.randn(c, device=device)), 8.0 * count)  # type: ignore[misc]
        yield Case(kind="elementwise", sizes=(count,), work=12.0 * count, unit="B", call=lambda p=pair: torch.add(*p()))  # type: ignore[misc]
        single = _turns(lambda c=count: torch.randn(c, device=device), 4.0 * count)  # type: ignore[misc]
        for kind, (width, run) in kinds.items():
            yield Case(kind=kind, sizes=(count,), work=width * count, unit="B", call=lambda r=run, x=single: r(x()))  # type: ignore[misc]
    for rows, columns in _ROWS:
        size = 4.0 * rows * columns
        matrix = _turns(lambda r=rows, c=columns: torch.randn(r, c, device=device), size)  # type: ignore[misc]
        yield Case(kind="columns", sizes=(rows, columns), work=size, unit="B", call=lambda x=matrix: x().sum(0))  # type: ignore[misc]
        yield Case(kind="copy", sizes=(rows, columns), work=2 * size, unit="B", call=lambda x=matrix: x().T.contiguous())  # type: ignore[misc]


def _rows(device: str) -> Iterator[Case]:
    import torch

    functions = torch.nn.functional
    for rows, columns in (*_ROWS, *_SHORT_ROWS):
        x = torch.randn(rows, columns, device=device, requires_grad=True)
        gain = torch.ones(columns, device=device, requires_grad=True)
        size = 4.0 * rows * columns
        softmax = (lambda x=x: functions.softmax(x, dim=-1), [x])
        kinds: dict[str, tuple[Callable[[], Any], Any]] = {
            "row_norm": (lambda x=x, g=gain: functions.layer_norm(x, g.shape, g, g), [x, gain]),  # type: ignore[misc]
            "softmax": softmax,
        }
        if (rows, columns) in _SHORT_ROWS:
            kinds = {"short_softmax": softmax}
        for kind, (run, inputs) in kinds.items():
            yield from _both(kind, (rows, columns), (2 * size, 3 * size), run, inputs, "B")


def _images(device: str) -> Iterator[Case]:
    import torch

    for channels, pixels in ((16, 16), (32, 32), (64, 56)):
        image = torch.randn(16, channels, pixels, pixels, device=device, requires_grad=True)
        norm, pool = torch.nn.BatchNorm2d(channels, device=device), torch.nn.MaxPool2d(2)
        size = 4.0 * image.numel()
        sizes = (channels, pixels)
        inputs = [image, *norm.parameters()]
        yield from _both("batch_norm", sizes, (2 * size, 3 * size), lambda n=norm, i=image: n(i), inputs, "B")  # type: ignore[misc]
        yield from _both("pool", sizes, (1.75 * size, 1.75 * size), lambda p=pool, i=image: p(i), [image], "B")  # type: ignore[misc]


def _lookups(device: str) -> Iterator[Case]:
    import torch

    for count, width, table in ((256, 64, 1000), (4096, 256, 10_000)):
        weight = torch.randn(table, width, device=device, requires_grad=True)
        places = torch.randint(0, table, (count,), device=device)
        run = lambda p=places, w=weight: torch.nn.functional.embedding(p, w)  # noqa: E731
        size = 4.0 * count * width
        yield from _both("embedding", (count, width), (2 * size, 2 * size + 4.0 * table * width), run, [weight], "B")


def _optimizers(device: str) -> Iterator[Case]:
    import torch

    makers = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    for name, more in _OPTIMIZERS.items():
        for tensors, elements in _OPTIMIZED:
            weights = [torch.nn.Parameter(torch.randn(elements, device=device)) for _ in range(tensors)]
            for weight in weights:
                weight.grad = torch.randn_like(weight)
            optimizer: Any = makers[name](weights, lr=1e-6, **more)
            sizes = (tensors, tensors * elements)
            yield Case(kind=f"optimizer.{name}", sizes=sizes, work=tensors * elements, unit="elements", call=optimizer.step)


def _fresh(device: str) -> Iterator[Case]:
    """Yield the writing of memory that was written before, and of memory that is fresh from the system."""
    import torch

    if device != "cpu" or not _returns_memory():
        return
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

    def tensor() -> Any:
        return torch.frombuffer(mmap.mmap(-1, _FRESH_BYTES, flags=private), dtype=torch.float32)

    known = tensor()
    cases: dict[str, Callable[[], Any]] = {"known": lambda: known.fill_(1.0), "fresh": lambda: tensor().fill_(1.0)}
    for kind, call in cases.items():
        yield Case(kind=f"write.{kind}", sizes=(_FRESH_BYTES,), work=_FRESH_BYTES, unit="B", call=call)


def _returns_memory() -> bool:
    """Return whether tensors come from the heap of the GNU C library, whose rules `step.memory.heap` knows."""
    replaced = any(name in os.environ.get("LD_PRELOAD", "") for name in ("jemalloc", "tcmalloc", "mimalloc"))
    return platform.libc_ver()[0] == "glibc" and not replaced


def _chain(device: str) -> Iterator[Case]:
    """A chain of small layers, which shows the framework's own time per call."""
    import torch

    layers = [torch.nn.Linear(16, 16, device=device) if place % 2 == 0 else torch.nn.ReLU() for place in range(100)]
    model = torch.nn.Sequential(*layers)
    batch = torch.randn(16, 16, device=device)
    yield Case(kind="chain.forward", sizes=(50, 50), work=100, unit="calls", call=lambda: model(batch))
    yield Case(kind="chain.step", sizes=(50, 50), work=300, unit="calls", call=lambda: model(batch).sum().backward())
