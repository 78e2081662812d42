"""Caches the results of ops for given shapes, so that a model with eighty equal layers computes them once.

The first call of an op with certain shapes, strides, dtypes and constants runs on fake tensors; later calls with the same ones
get new fake tensors (or views of the same argument) of the same form. This saves most of a capture's time. Ops whose results
cannot be determined from the shapes alone (constants, tensors that are not fake, sparse or complex ones) always run.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["Memo"]

_LARGEST = 20_000  # ops remembered
_LIST_OPS = ("_foreach_", "_amp_foreach_", "_fused_")
_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Unknown(Exception):
    """An argument or output that is not fully determined by its form."""


@dataclass(frozen=True, slots=True)
class _Output:
    """How to create one output: `same` is an argument that is returned, `base` one of which it is a view; otherwise it is new."""

    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    dtype: torch.dtype = torch.float32
    device: torch.device | None = None
    same: int = -1
    base: int = -1


_Recipe = tuple[type | None, tuple[_Output, ...]]  # list, tuple or None (a single output); an op without output has none


class Memo:
    """Runs ops, or answers from earlier runs; all captures in a process share the cache."""

    _known: ClassVar[dict[Any, _Recipe]] = {}

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of `func(*args, **kwargs)`."""
        tensors: list[Any] = []
        try:
            key = _key(func, args, kwargs, tensors)
        except _Unknown:
            return func(*args, **kwargs)
        found = self._known.get(key)
        if found is not None:
            return _made(found, tensors)
        out = func(*args, **kwargs)
        with contextlib.suppress(_Unknown):
            recipe = _recipe(func, out, tensors)
            if len(self._known) >= _LARGEST:
                self._known.clear()
            self._known[key] = recipe
        return out


def _key(func: Any, args: Any, kwargs: dict[str, Any], tensors: list[Any]) -> tuple[Any, ...]:
    """Return the op and the form of its arguments; collects the tensors among them."""
    key: list[Any] = [func]
    factors = func._opname.startswith(_LIST_OPS)  # factors that vary per tensor and per step: no shape depends on them
    for value in args:
        _describe(len(value) if factors and _is_numbers(value) else value, key, tensors)
    for name, value in kwargs.items():
        key.append(name)
        _describe(value, key, tensors)
    if not tensors:
        raise _Unknown
    return tuple(key)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], float)


def _describe(value: Any, key: list[Any], tensors: list[Any]) -> None:
    """Add to the key everything the op's result can depend on, with a type for each number, because 1, 1.0 and True are equal."""
    if isinstance(value, FakeTensor):
        if value.constant is not None or value.layout is not torch.strided or value.dtype.is_complex:
            raise _Unknown
        key += (value.shape, value.stride(), value.storage_offset(), value.dtype, value.fake_device)
        tensors.append(value)
    elif isinstance(value, (list, tuple)):
        key += ("list", len(value))
        for item in value:
            _describe(item, key, tensors)
    elif isinstance(value, _PLAIN):
        key += (type(value), value)
    else:
        raise _Unknown


def _recipe(func: Any, out: Any, tensors: list[Any]) -> _Recipe:
    if out is None and func._opname.startswith(_LIST_OPS):
        return None, ()  # works in place on lists of tensors, whose forms do not change
    storages: dict[int, int] = {}
    for position, tensor in enumerate(tensors):
        storages.setdefault(tensor.untyped_storage()._cdata, position)
    if isinstance(out, FakeTensor):
        return None, (_output(func, out, tensors, storages),)
    if isinstance(out, (list, tuple)):
        return type(out), tuple(_output(func, item, tensors, storages) for item in out)
    raise _Unknown


def _output(func: Any, out: Any, tensors: list[Any], storages: dict[int, int]) -> _Output:
    if not isinstance(out, FakeTensor) or out.constant is not None or out.layout is not torch.strided or out.dtype.is_complex:
        raise _Unknown
    storage = out.untyped_storage()
    form = (tuple(out.shape), tuple(out.stride()), out.storage_offset(), out.dtype, out.fake_device)
    base = storages.get(storage._cdata)
    if base is not None:
        if base >= 0 and out is tensors[base]:
            return _Output(same=base)
        if base >= 0 and (func.is_view or func is _UNSAFE_VIEW):
            return _Output(*form, base=base)
        raise _Unknown
    span = 1 + sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True)) if out.numel() else 0
    if out.storage_offset() or span * out.element_size() != storage.nbytes():
        raise _Unknown
    storages[storage._cdata] = -1  # no two outputs may share what is new
    return _Output(*form)


def _made(recipe: _Recipe, tensors: list[Any]) -> Any:
    kind, outputs = recipe
    if kind is None:
        return _make(outputs[0], tensors) if outputs else None
    made = [_make(output, tensors) for output in outputs]
    return made if kind is list else tuple(made)


def _make(output: _Output, tensors: list[Any]) -> Any:
    if output.same >= 0:
        return tensors[output.same]
    with torch._C._DisableTorchDispatch():
        plain = torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device="meta")
        if output.base >= 0:
            plain.set_(tensors[output.base].untyped_storage(), output.offset, output.shape, output.stride)
    return FakeTensor(tensors[0].fake_mode, plain, output.device)
