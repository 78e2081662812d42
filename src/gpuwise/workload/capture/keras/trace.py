"""Turns a Keras model into a flat list of steps at one size, by calling its layers on symbolic tensors.

Every size is traced separately, with integers for batch and sequence, so that code which reads shapes (`ops.shape(x)[0]`) works.
A layer is one step if we know which work a GPU does for it; any other layer (a nested model, attention, the user's own) is
opened by calling its `call` on symbolic tensors. A layer that cannot be opened becomes an unknown step that only moves bytes, and
is reported.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from gpuwise.core.errors import GpuwiseError
from gpuwise.workload.capture.keras.backend import without_weights
from gpuwise.workload.capture.keras.symbolic import symbolic

__all__ = ["Constant", "Program", "Ref", "Spec", "Step", "Tracer", "Weight", "reason_of"]


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the program, by its number."""

    index: int


@dataclass(frozen=True, slots=True)
class Weight:
    """A Keras variable used by itself, by its identity."""

    key: int
    spec: Spec


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that is neither an input nor a result: positions, masks, tables."""

    spec: Spec


@dataclass(slots=True)
class Step:
    """One call. `kind`: leaf (a layer we know), op (a keras.ops operation), block (an opened layer), inline (an opened
    operation), loop (an RNN's cell), unknown (a layer) or unknown-op.
    """

    kind: str
    operation: Any
    args: Any
    kwargs: dict[str, Any]
    outputs: tuple[int, ...]
    specs: tuple[Spec, ...]
    training: bool
    inner: Program | None = None
    frees: tuple[int, ...] = ()


@dataclass(slots=True)
class Program:
    """Steps in order. The first values are the inputs; `results` are the outputs, flat."""

    inputs: int
    specs: tuple[Spec, ...]
    steps: list[Step] = field(default_factory=list)
    results: tuple[Any, ...] = ()
    result_specs: tuple[Spec, ...] = ()


class Tracer:
    """Opens Keras models. `is_leaf(layer)` and `is_op(operation)` say which layers and operations need not be opened; `rewrites`
    replace a layer's `call`.
    """

    def __init__(
        self,
        keras: Any,
        is_leaf: Callable[[Any], bool],
        is_op: Callable[[Any], bool],
        rewrites: dict[str, Callable[..., Any]],
    ) -> None:
        self._keras, self._is_leaf, self._is_op, self._rewrites = keras, is_leaf, is_op, rewrites
        self.notes: list[str] = []

    def trace(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], training: bool) -> Program:
        """The program of `call` on these symbolic arguments; its inputs are their tensors in order."""
        with without_weights(), symbolic(self._keras):
            return self._trace(call, args, kwargs, training)[0]

    def _trace(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], training: bool) -> tuple[Program, list[Any]]:
        fresh = _Fresh(self._keras)
        args, kwargs = self._keras.tree.map_structure(fresh, (args, kwargs))
        if "training" in _parameters(call) and kwargs.get("training") is None:
            kwargs["training"] = training
        results = self._keras.tree.flatten(call(*args, **kwargs))
        inputs = list(fresh.made.values())
        numbers = {id(tensor): index for index, tensor in enumerate(inputs)}
        program = Program(len(inputs), tuple(self._spec(tensor) for tensor in inputs))
        for node in self._ordered(results, set(numbers)):
            step = self._step(node, numbers, training)
            program.steps.append(step)
        program.results = tuple(self._encode(result, numbers) for result in results)
        program.result_specs = tuple(self._spec(result) for result in results)
        return program, list(fresh.outer.values())

    def _ordered(self, results: list[Any], known: set[int]) -> list[Any]:
        """The nodes behind the results, each after those it needs."""
        order: list[Any] = []
        seen: set[int] = set()
        stack = [(self._node(tensor, known), False) for tensor in reversed(results)]
        while stack:
            node, ready = stack.pop()
            if node is None or (not ready and id(node) in seen):
                continue
            if ready:
                order.append(node)
                continue
            seen.add(id(node))
            stack.append((node, True))
            needed = [leaf for leaf in self._keras.tree.flatten(self._arguments(node)) if self._is_symbolic(leaf)]
            stack += [(self._node(tensor, known), False) for tensor in reversed(needed)]
        return order

    def _node(self, tensor: Any, known: set[int]) -> Any:
        history = getattr(tensor, "_keras_history", None)
        if id(tensor) in known or history is None or history.operation is None:
            return None
        node = history.operation._inbound_nodes[history.node_index]
        return None if isinstance(node.operation, self._keras.layers.InputLayer) else node

    def _arguments(self, node: Any) -> tuple[Any, dict[str, Any]]:
        """The call's arguments, with the masks that Keras passes along with the tensors."""
        args, kwargs = node.arguments.args, dict(node.arguments.kwargs)
        if not isinstance(node.operation, self._keras.Layer):
            return args, kwargs
        parameters = _parameters(node.operation.call)
        given = dict(zip(parameters, args, strict=False)) | kwargs
        tensors = {
            name: value
            for name, value in given.items()
            if any(self._is_symbolic(leaf) for leaf in self._keras.tree.flatten(value))
        }
        for name, value in tensors.items():
            wanted = "mask" if len(tensors) == 1 else f"{name}_mask"
            if wanted in parameters and given.get(wanted) is None:
                masks = self._keras.tree.map_structure(lambda leaf: getattr(leaf, "_keras_mask", None), value)
                if any(mask is not None for mask in self._keras.tree.flatten(masks)):
                    kwargs[wanted] = masks
        return args, kwargs

    def _step(self, node: Any, numbers: dict[int, int], training: bool) -> Step:
        args, kwargs = self._arguments(node)
        chosen = kwargs.pop("training", None) if isinstance(node.operation, self._keras.Layer) else None
        training = training if chosen is None else bool(chosen)
        kind, inner, given = self._opened(node.operation, args, kwargs, training)
        structure = (args, kwargs) if inner is None else (given, {})
        encoded_args, encoded_kwargs = self._keras.tree.map_structure(lambda leaf: self._encode(leaf, numbers), structure)
        outputs = tuple(numbers.setdefault(id(tensor), len(numbers)) for tensor in node.outputs)
        specs = tuple(self._spec(tensor) for tensor in node.outputs)
        return Step(kind, node.operation, encoded_args, encoded_kwargs, outputs, specs, training, inner)

    def _opened(self, operation: Any, args: Any, kwargs: dict[str, Any], training: bool) -> tuple[str, Program | None, Any]:
        """Return the kind of a step and, if it can be opened, its own program and that program's inputs."""
        layer = isinstance(operation, self._keras.Layer)
        if (self._is_leaf if layer else self._is_op)(operation):
            return ("leaf" if layer else "op"), None, None
        try:
            if isinstance(operation, self._keras.layers.RNN):
                return "loop", *self._cell(operation, args, kwargs, training)
            rewrite = next(
                (self._rewrites[base.__name__] for base in type(operation).__mro__ if base.__name__ in self._rewrites), None
            )
            call = operation.call if rewrite is None else lambda *a, **k: rewrite(self._keras, operation, *a, **k)
            return "block" if layer else "inline", *self._trace(call, args, kwargs, training)
        except GpuwiseError:
            raise
        except Exception as fault:  # a layer's code may do anything with symbolic tensors
            self._note_unknown(operation, fault)
            return "unknown" if layer else "unknown-op", None, None

    def _cell(self, layer: Any, args: Any, kwargs: dict[str, Any], training: bool) -> tuple[Program, Any]:
        """One time step of an RNN that cuDNN has no kernel for. Inputs: the slice of one step, then the flat states."""
        tree, tensor = self._keras.tree, self._keras.KerasTensor
        sequence = args[0] if args else kwargs["sequences"]
        step = tensor((sequence.shape[0], *sequence.shape[2:]), dtype=sequence.dtype)
        given = kwargs.get("initial_state") or (args[1] if len(args) > 1 else None)
        states = layer.get_initial_state(sequence.shape[0]) if given is None else given
        states = tree.map_structure(lambda state: tensor(tuple(state.shape), dtype=self._name(state.dtype)), states)
        quiet = {name: 0.0 for name in ("dropout", "recurrent_dropout") if getattr(layer.cell, name, 0)}
        with contextlib.ExitStack() as stack:  # dropout masks are drawn once per sequence, outside the cell
            for name, value in quiet.items():
                stack.enter_context(mock.patch.object(layer.cell, name, value))
            program, _ = self._trace(layer.cell.call, (step, states), {}, training)
        self.notes.append(f"layer '{layer.name}' ({type(layer).__name__}) has no cuDNN kernel and runs step by step")
        return program, (sequence, *(tree.flatten(given) if given is not None else ()))

    def _note_unknown(self, operation: Any, fault: Exception) -> None:
        what = "layer" if isinstance(operation, self._keras.Layer) else "operation"
        name = f"{what} '{operation.name}' ({type(operation).__name__})"
        self.notes.append(f"{name} is unknown, so its bytes are counted but its FLOPs are not ({reason_of(fault)})")

    def _encode(self, leaf: Any, numbers: dict[int, int]) -> Any:
        if self._is_symbolic(leaf):
            return Ref(numbers[id(leaf)]) if id(leaf) in numbers else Constant(self._spec(leaf))
        if isinstance(leaf, self._keras.Variable):
            return Weight(id(leaf), self._spec(leaf))
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            return Constant(self._spec(leaf))
        return leaf

    def _spec(self, tensor: Any) -> Spec:
        if not hasattr(tensor, "shape"):
            return Spec((), "float32")
        return Spec(tuple(int(size) if size is not None else -1 for size in tensor.shape), self._name(tensor.dtype))

    def _name(self, dtype: Any) -> str:
        return str(self._keras.backend.standardize_dtype(dtype))

    def _is_symbolic(self, leaf: Any) -> bool:
        return isinstance(leaf, self._keras.KerasTensor)


class _Fresh:
    """Copies of symbolic tensors without their history, and of their masks; the originals in the same order."""

    def __init__(self, keras: Any) -> None:
        self._keras = keras
        self.made: dict[int, Any] = {}
        self.outer: dict[int, Any] = {}

    def __call__(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._keras.KerasTensor):
            return leaf
        if id(leaf) not in self.made:
            copy = self._keras.KerasTensor(leaf.shape, dtype=leaf.dtype)
            self.made[id(leaf)], self.outer[id(leaf)] = copy, leaf
            mask = getattr(leaf, "_keras_mask", None)
            if mask is not None:
                copy._keras_mask = self(mask)
        return self.made[id(leaf)]


def reason_of(fault: BaseException) -> str:
    """Return the line of an error that says what is wrong: Keras wraps it in lines about where."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(fault))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [
        line
        for line in lines
        if not line.startswith(("Exception encountered", "Could not automatically infer", "Arguments received"))
    ]
    return (telling or lines or [type(fault).__name__])[0][:160]


def _parameters(call: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return ()
