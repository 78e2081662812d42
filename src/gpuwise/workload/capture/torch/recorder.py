"""Records every kernel of a step on fake tensors: its kind, module and buffers, and when each buffer is freed.

A dispatch mode sees every aten op below autograd and autocast. Buffers are storages; a finalizer on each reports when it is
freed, so lifetimes are those of the real program.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpuwise.workload.capture.raw import RawBuffer, RawCall, RawTensor
from gpuwise.workload.capture.torch.aten import Kernel, kernels_of
from gpuwise.workload.capture.torch.modules import ModuleNames
from gpuwise.workload.capture.torch.shapes import Memo

__all__ = ["Recorder", "dtype_name"]

_DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
}
_DEVICE = torch.ops.prim.device.default


def dtype_name(dtype: torch.dtype) -> str:
    """Return our name for a torch dtype; unnamed ones count as four bytes."""
    return _DTYPES.get(dtype, "fp32")


class Recorder(TorchDispatchMode):
    """While entered, appends to `calls` and `buffers`. Set `phase` from outside; pass known storages first."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RawCall] = []
        self.buffers: list[RawBuffer] = []
        self.phase = "forward"
        self.notes: list[str] = []
        self._ids: dict[int, int] = {}
        self._finalizers: list[weakref.finalize[Any, Any]] = []
        self._modules = ModuleNames()
        self._memo = Memo()
        self._paused = False
        self._collects = True

    def __enter__(self) -> Recorder:
        self._modules.__enter__()
        self._collects = gc.isenabled()
        gc.disable()  # lifetimes must not depend on when cycles happen to be collected
        super().__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        if self._collects:
            gc.enable()
        self._modules.__exit__(*problem)

    def close(self) -> None:
        """Let all buffers that are still alive outlive the step."""
        for finalizer in self._finalizers:
            finalizer.detach()
        for buffer in self.buffers:
            if buffer.died < 0:
                buffer.died = len(self.calls)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not record what runs inside."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def know(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Give tensors that exist before the step their category."""
        for tensor in tensors:
            self._buffer(tensor, category)

    def mark(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Change the category of buffers recorded so far, such as gradients once they are known."""
        for tensor in tensors:
            number = self._ids.get(tensor.untyped_storage()._cdata)
            if number is not None:
                self.buffers[number].category = category

    def mark_alive_as_activation(self) -> None:
        """Mark what the forward pass created and the backward pass still needs."""
        for buffer in self.buffers:
            if buffer.category == "temporary" and buffer.died < 0:
                buffer.category = "activation"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # called more often than all ops together
        kwargs = kwargs or {}
        out = self._memo.run(func, args, kwargs)
        if self._paused:
            return out
        namespace = func.namespace
        if namespace in ("prim", "profiler", "prims") or func.is_view:
            return out
        reads = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        writes = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        if func._schema.is_mutable and not writes:
            writes = self._mutated(func, args)
        name = func._opname if namespace == "aten" else f"{namespace}::{func._opname}"
        self._record(name, func, args, kwargs, reads, writes)
        return out

    @staticmethod
    def _mutated(func: Any, args: Any) -> list[torch.Tensor]:
        """Some in-place ops (`_foreach_add_`) return nothing; they write the arguments given by their schema."""
        found: list[torch.Tensor] = []
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        return found

    def _record(self, name: str, func: Any, args: Any, kwargs: Any, reads: list[Any], writes: list[Any]) -> None:
        for tensor in reads:
            self._buffer(tensor, "input")
        kernels = kernels_of(name, func, args, kwargs, reads, writes)
        for tensor in writes:
            self._buffer(tensor, "temporary", born=len(self.calls))
        for kernel in kernels:
            if any(tensor.numel() for tensor in (*kernel.reads, *kernel.writes)):
                for tensor in kernel.writes:  # a copy that a kernel makes for itself
                    self._buffer(tensor, "temporary", born=len(self.calls))
                self._append(name, kernel)

    def _append(self, name: str, kernel: Kernel) -> None:
        tensors = kernel.writes or kernel.reads
        dtype = kernel.dtype if kernel.dtype is not None else tensors[0].dtype
        self.calls.append(
            RawCall(
                kind=kernel.kind,
                name=name + kernel.suffix,
                dtype=dtype_name(dtype),
                sizes=kernel.sizes,
                attrs=kernel.attrs,
                reads=_read(kernel),
                writes=tuple(_touched(tensor) for tensor in kernel.writes),
                phase=self.phase,
                module=self._modules.current(),
                read_buffers=tuple(self._buffer(tensor, "input") for tensor in kernel.reads),
                written_buffers=tuple(self._buffer(tensor, "temporary") for tensor in kernel.writes),
            )
        )

    def _buffer(self, tensor: torch.Tensor, category: str, born: int = 0) -> int:
        storage = tensor.untyped_storage()
        key = storage._cdata
        number = self._ids.get(key)
        if number is None:
            number = len(self.buffers)
            self._ids[key] = number
            self.buffers.append(RawBuffer(_stored(tensor, storage.nbytes()), category, born, -1))
            self._finalizers.append(weakref.finalize(storage, self._freed, key, number))
        return number

    def _freed(self, key: int, number: int) -> None:
        self._ids.pop(key, None)
        self.buffers[number].died = len(self.calls)


def _read(kernel: Kernel) -> tuple[RawTensor, ...]:
    touched = [_touched(tensor) for tensor in kernel.reads]
    if kernel.looked_up is not None:
        touched[0] = RawTensor(touched[0].dtype, kernel.looked_up)
    return tuple(touched)


def _touched(tensor: torch.Tensor) -> RawTensor:
    """Return the part of this tensor that a kernel moves: broadcast dimensions (stride 0) are read once."""
    shape = tuple(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 1)
    return RawTensor(dtype_name(tensor.dtype), shape)


def _stored(tensor: torch.Tensor, nbytes: int) -> RawTensor:
    """The whole storage behind a tensor."""
    whole = RawTensor(dtype_name(tensor.dtype), tuple(tensor.shape))
    return whole if tensor.numel() * tensor.element_size() == nbytes else RawTensor("uint8", (nbytes,))
