"""Makes Keras return symbols instead of computing, while a model is traced.

Keras immediately computes whatever does not depend on a symbolic input: positions looked up in a table, a transposed weight. For
a trace, these are work like any other. All changes are undone when the trace ends, and Keras' own shape inference is unaffected.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

__all__ = ["symbolic"]

_OPERATORS = "add radd sub rsub mul rmul truediv rtruediv matmul rmatmul pow rpow neg abs getitem".split()
_MODULES = "numpy nn core math linalg image einops".split()


@contextlib.contextmanager
def symbolic(keras: Any) -> Iterator[None]:
    """Inside, layers called on plain arrays and operations on weights return symbolic tensors."""
    inferring = _inference_test()
    with contextlib.ExitStack() as stack:
        _patch(stack, keras.Layer, "__call__", _layer_call(keras, keras.Layer.__call__, inferring))
        _patch(stack, keras.Layer, "_assert_input_compatibility", _input_check(keras, keras.Layer._assert_input_compatibility))
        _patch(stack, keras.layers.EinsumDense, "compute_output_shape", _einsum_shape)
        _patch(stack, keras.KerasTensor, "__getitem__", _get_item(keras.KerasTensor.__getitem__))
        for name in (f"__{operator}__" for operator in _OPERATORS):
            plain, lifted = getattr(keras.Variable, name, None), getattr(keras.KerasTensor, name, None)
            if plain is not None and lifted is not None:
                _patch(stack, keras.Variable, name, _operator(plain, lifted, inferring))
        for module in (sys.modules.get(f"keras.src.ops.{name}") for name in _MODULES):
            test = getattr(module, "any_symbolic_tensors", None)
            if test is not None:
                _patch(stack, module, "any_symbolic_tensors", _symbolic_test(keras, test, inferring))
        yield


def _patch(stack: contextlib.ExitStack, target: Any, name: str, value: Any) -> None:
    stack.enter_context(mock.patch.object(target, name, value))


def _inference_test() -> Callable[[], bool]:
    """Whether Keras is inferring shapes by running a layer on tensors of its backend."""
    module = sys.modules.get("keras.src.backend.common.symbolic_scope")
    return getattr(module, "in_symbolic_scope", lambda: True)


def _layer_call(keras: Any, plain: Callable[..., Any], inferring: Callable[[], bool]) -> Callable[..., Any]:
    def lift(leaf: Any) -> Any:
        if isinstance(leaf, keras.KerasTensor) or not getattr(leaf, "shape", ()) or not hasattr(leaf, "dtype"):
            return leaf
        return keras.KerasTensor(tuple(leaf.shape), dtype=keras.backend.standardize_dtype(leaf.dtype))

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        leaves = keras.tree.flatten((args, kwargs))
        if not inferring() and not any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            args, kwargs = keras.tree.map_structure(lift, (args, kwargs))
        return plain(layer, *args, **kwargs)

    return call


def _input_check(keras: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A nested model may hold a length invented by shape inference; its layers are still checked."""

    def check(layer: Any, *args: Any) -> Any:
        return None if isinstance(layer, keras.Model) else plain(layer, *args)

    return check


def _operator(plain: Callable[..., Any], lifted: Callable[..., Any], inferring: Callable[[], bool]) -> Callable[..., Any]:
    def apply(variable: Any, *args: Any) -> Any:
        return (plain if inferring() or not _is_weight(variable) else lifted)(variable, *args)

    return apply


def _get_item(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' symbolic tensors take `x[:3,]` but not `x[:3]`."""
    return lambda tensor, key: plain(tensor, (key,) if isinstance(key, slice) else key)


def _symbolic_test(keras: Any, plain: Callable[..., bool], inferring: Callable[[], bool]) -> Callable[..., bool]:
    def test(args: Any = None, kwargs: Any = None) -> bool:
        if plain(args, kwargs) or inferring():
            return plain(args, kwargs)
        return any(isinstance(leaf, keras.Variable) and _is_weight(leaf) for leaf in keras.tree.flatten((args, kwargs)))

    return test


def _is_weight(variable: Any) -> bool:
    """Floats are weights. Integers are counters and states of random generators, which Keras must be able to update."""
    return "float" in str(variable.dtype)


def _einsum_shape(layer: Any, shape: Any) -> tuple[Any, ...]:
    """Return the result's shape from the input's own sizes; Keras returns those for which the layer was built."""
    left, _, result = layer.equation.replace(" ", "").replace("...", "*").partition("->")
    labels, kernel = left.split(",")
    free = len(shape) - len(labels.replace("*", ""))
    before = labels.index("*") if "*" in labels else 0
    sizes: dict[str, tuple[Any, ...]] = {label: (size,) for label, size in zip(kernel, layer.kernel.shape, strict=True)}
    if "*" in labels:
        sizes["*"] = tuple(shape[before : before + free])
        shape = (*shape[:before], *shape[before + free :])
    sizes |= {label: (size,) for label, size in zip(labels.replace("*", ""), shape, strict=True)}
    return tuple(size for label in result for size in sizes[label])
