"""Runs a traced Keras program in torch: one torch module for each Keras layer, with the same nesting and names.

Values are freed after their last use, and every result's shape is checked against Keras' own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from gpuwise.core.errors import GpuwiseError
from gpuwise.workload.capture.keras import ops as keras_ops
from gpuwise.workload.capture.keras.layers import leaf_class
from gpuwise.workload.capture.keras.leaf import DTYPES, Leaf, parameter, type_name
from gpuwise.workload.capture.keras.rnn import Loop
from gpuwise.workload.capture.keras.trace import Constant, Program, Ref, Spec, Step, Weight

__all__ = ["Block", "Model", "prepared"]


# ---------------------------------------------------------------- programs made ready to run


def prepared(program: Program) -> Program:
    """Return the program with paddings folded into the ops they feed and with the last use of every value marked."""
    for step in program.steps:
        if step.inner is not None:
            step.inner = prepared(step.inner)
    program.steps = _folded(program)
    needed = {leaf.index for leaf in program.results if isinstance(leaf, Ref)}
    for step in reversed(program.steps):
        used = set(_used(step)) | set(step.outputs)
        step.frees = tuple(sorted(used - needed))
        needed |= used
    return program


def _used(step: Step) -> list[int]:
    return [leaf.index for leaf in tree_leaves((step.args, step.kwargs)) if isinstance(leaf, Ref)]


def _folded(program: Program) -> list[Step]:
    """A symmetric zero padding that only feeds one convolution or pool is done by that op, as cuDNN and XLA do."""
    uses: dict[int, list[Step]] = {}
    for step in program.steps:
        for index in _used(step):
            uses.setdefault(index, []).append(step)
    kept = {leaf.index for leaf in program.results if isinstance(leaf, Ref)}
    dropped: dict[int, tuple[Any, tuple[int, ...]]] = {}
    for step in program.steps:
        amounts = _symmetric(step)
        readers = uses.get(step.outputs[0], [])
        if amounts and step.outputs[0] not in kept and len(readers) == 1 and _takes(readers[0], amounts):
            dropped[step.outputs[0]] = (step.args[0], amounts)
    result = []
    for step in program.steps:
        if step.outputs[0] in dropped:
            continue
        first = step.args[0] if step.kind == "leaf" and step.args else None
        if isinstance(first, Ref) and first.index in dropped:
            source, amounts = dropped[first.index]
            step = replace(step, args=(source,), kwargs=step.kwargs | {"extra": amounts})
        result.append(step)
    return result


def _symmetric(step: Step) -> tuple[int, ...] | None:
    layer = step.operation
    if step.kind != "leaf" or not type_name(layer).startswith("ZeroPadding") or not isinstance(step.args[0], Ref):
        return None
    edges = (layer.padding,) if isinstance(layer.padding[0], int) else layer.padding
    return tuple(before for before, _ in edges) if all(before == after for before, after in edges) else None


def _takes(step: Step, amounts: tuple[int, ...]) -> bool:
    layer, leaf = step.operation, leaf_class(step.operation) if step.kind == "leaf" else None
    if leaf is None or not leaf.takes_padding or layer.padding != "valid" or len(step.args) != 1:
        return False
    sizes = getattr(layer, "pool_size", None)
    return sizes is None or all(amount <= size // 2 for amount, size in zip(amounts, sizes, strict=True))


# ---------------------------------------------------------------- modules


class _Shared:
    """Data that all blocks of one model share: the module of each layer, the tensor of each variable, the float type in use."""

    def __init__(self) -> None:
        self.modules: dict[int, nn.Module] = {}
        self.variables: dict[int, Callable[[], torch.Tensor]] = {}
        self.covered: set[int] = set()
        self.dtype = torch.float32
        self.penalized: list[tuple[nn.Module, str]] = []

    def dtype_of(self, spec: Spec) -> torch.dtype:
        dtype = DTYPES.get(spec.dtype, torch.float32)
        return self.dtype if dtype.is_floating_point else dtype


class Block(nn.Module):
    """An opened model or layer: its parts as children, its own variables as weights."""

    def __init__(self, shared: _Shared, layer: Any = None) -> None:
        super().__init__()
        self._shared = shared
        own = [*getattr(layer, "_trainable_variables", ()), *getattr(layer, "_non_trainable_variables", ())]
        for number, variable in enumerate(own):
            self.own(f"{_clean(self, variable.name)}_{number}", variable)

    def own(self, name: str, variable: Any) -> None:
        """Hold a Keras variable as a weight."""
        if id(variable) in self._shared.covered:
            return
        self._shared.covered.add(id(variable))
        weight = parameter(*variable.shape, trainable=bool(variable.trainable))
        self.register_parameter(name, weight)
        self._shared.variables[id(variable)] = lambda: getattr(self, name)

    def grow(self, program: Program) -> None:
        """Create the modules that a program needs and that no block has yet."""
        for step in program.steps:
            key = id(step.operation)
            if step.kind in ("op", "inline", "unknown-op"):
                self.grow(step.inner or Program(0, ()))
                continue
            if key not in self._shared.modules:
                self._shared.modules[key] = module = self._module(step)
                self.add_module(_clean(self, step.operation.name), module)
            module = self._shared.modules[key]
            if step.inner is not None:
                (module.cell if step.kind == "loop" else module).grow(step.inner)

    def _module(self, step: Step) -> nn.Module:
        layer = step.operation
        if step.kind == "block":
            return Block(self._shared, layer)
        if step.kind == "loop":
            return Loop(layer, Block(self._shared, layer.cell))
        if step.kind == "unknown":
            return _Unknown(self._shared, layer)
        leaf = leaf_class(layer)
        if leaf is None:
            raise GpuwiseError(f"layer '{layer.name}' changed while it was captured", hint="please report this model")
        module = leaf(layer)
        module.check(layer)
        self._shared.covered |= {id(weight) for weight in layer.weights}
        self._shared.variables |= module.exports
        for variable in layer.trainable_weights:
            if getattr(variable, "regularizer", None) is not None:
                size = math.prod(variable.shape)
                names = [name for name, weight in module.named_parameters() if weight.numel() == size]
                self._shared.penalized += [(module, name) for name in names[:1]]
        return module

    def forward(self, program: Program, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._execute(program, inputs)

    def _execute(self, program: Program, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        values: dict[int, torch.Tensor] = dict(enumerate(inputs))
        for step in program.steps:
            results = tree_leaves(self._run(step, values))
            for number, spec, result in zip(step.outputs, step.specs, results, strict=True):
                _check(step, spec, result)
                values[number] = result
            del results
            for number in step.frees:
                values.pop(number, None)
        return tuple(self._fill(leaf, values) for leaf in program.results)

    def _run(self, step: Step, values: dict[int, torch.Tensor]) -> Any:
        args, kwargs = tree_map(lambda leaf: self._fill(leaf, values), (step.args, step.kwargs))
        if step.kind == "op":
            return keras_ops.run(step.operation, args, kwargs, step.specs)
        if step.kind == "inline" and step.inner is not None:
            return self._execute(step.inner, args)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if step.kind == "unknown-op":
            return _opaque(self._shared, step.specs, tensors, [])
        module = self._shared.modules[id(step.operation)]
        if step.kind == "block":
            return module(step.inner, *args)
        if step.kind == "loop":
            return module(step.inner, *args, training=step.training)
        if isinstance(module, _Unknown):
            return module(step.specs, *tensors)
        if not isinstance(module, Leaf) or not module.takes_mask:
            kwargs.pop("mask", None)
        return module(*args, training=step.training, **kwargs)

    def _fill(self, leaf: Any, values: dict[int, torch.Tensor]) -> Any:
        if isinstance(leaf, Ref):
            return values[leaf.index]
        if isinstance(leaf, Weight) and leaf.key in self._shared.variables:
            return self._shared.variables[leaf.key]()
        if isinstance(leaf, (Constant, Weight)):
            return torch.empty(leaf.spec.shape, dtype=self._shared.dtype_of(leaf.spec))
        return leaf


class Model(Block):
    """The root: a whole Keras model, including weights that this program does not use."""

    def __init__(self, keras_model: Any, program: Program) -> None:
        super().__init__(_Shared(), keras_model)
        self.grow(program)
        for number, variable in enumerate(keras_model.weights):
            self.own(f"unused_{number}", variable)

    def forward(self, program: Program, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        floats = (weight.dtype for weight in self.parameters() if weight.is_floating_point())
        self._shared.dtype = next(floats, torch.float32)
        return super().forward(program, *inputs)

    def penalty(self) -> torch.Tensor | None:
        """The penalty that weight regularizers add to the loss."""
        parts = [module.get_parameter(name).square().sum() for module, name in self._shared.penalized]
        return torch.stack(parts).sum() if parts else None


def _clean(module: nn.Module, name: str) -> str:
    """A name that torch accepts for a child of this module."""
    name = name.replace(".", "_").replace("/", "_") or "layer"
    while hasattr(module, name):
        name += "_"
    return name


def _check(step: Step, spec: Spec, result: torch.Tensor) -> None:
    """Check a result against what Keras says about it; -1 is a size that Keras leaves open."""
    if len(spec.shape) == result.dim() and all(want in (-1, have) for want, have in zip(spec.shape, result.shape, strict=True)):
        return
    raise GpuwiseError(
        f"'{step.operation.name}' ({type(step.operation).__name__}) has the shape {tuple(result.shape)}, not {spec.shape}",
        hint="please report this layer and its arguments",
    )


# ---------------------------------------------------------------- layers we do not know


class _Unknown(nn.Module):
    """A layer of which only the bytes are known: it reads its inputs and weights and writes its outputs."""

    def __init__(self, shared: _Shared, layer: Any) -> None:
        super().__init__()
        weights = [variable for variable in getattr(layer, "weights", ()) if id(variable) not in shared.covered]
        shared.covered |= {id(variable) for variable in weights}
        self.weights = nn.ParameterList([parameter(*v.shape, trainable=bool(v.trainable)) for v in weights])
        self._shared = shared

    def forward(self, specs: Sequence[Spec], *inputs: torch.Tensor) -> list[torch.Tensor]:
        return _opaque(self._shared, specs, inputs, list(self.weights))


def _opaque(
    shared: _Shared, specs: Sequence[Spec], inputs: Sequence[torch.Tensor], weights: list[torch.Tensor]
) -> list[torch.Tensor]:
    text = ";".join(f"{','.join(map(str, spec.shape))}:{str(shared.dtype_of(spec))[6:]}" for spec in specs)
    return torch.ops.gpuwise.keras_unknown(list(inputs), weights, text)


@torch.library.custom_op("gpuwise::keras_unknown", mutates_args=())
def _unknown(inputs: list[torch.Tensor], weights: list[torch.Tensor], results: str) -> list[torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_unknown.register_fake
def _unknown_shape(inputs: Any, weights: Any, results: str) -> Any:
    found = []
    for part in results.split(";"):
        sizes, _, dtype = part.partition(":")
        found.append(torch.empty([int(size) for size in sizes.split(",") if size], dtype=getattr(torch, dtype)))
    return found


@torch.library.custom_op("gpuwise::keras_unknown_backward", mutates_args=())
def _unknown_backward(grads: list[torch.Tensor], kept: list[torch.Tensor]) -> list[torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_unknown_backward.register_fake
def _unknown_backward_shape(grads: Any, kept: Any) -> Any:
    return [torch.empty_like(tensor) for tensor in kept]


def _unknown_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.count = len(inputs[0])
    ctx.save_for_backward(*inputs[0], *inputs[1])


def _unknown_grad(ctx: Any, grads: Any) -> Any:
    saved = list(ctx.saved_tensors)
    known = [grad for grad in grads if grad is not None]
    # two kernels, as for a convolution: the gradients of the inputs grow with the batch, those of the weights do not
    return _gradients(known, saved[: ctx.count]), _gradients(known, saved[ctx.count :]), None


def _gradients(grads: list[torch.Tensor], kept: list[torch.Tensor]) -> list[torch.Tensor | None]:
    floats = [tensor for tensor in kept if tensor.is_floating_point()]
    found = iter(torch.ops.gpuwise.keras_unknown_backward(grads, floats) if floats else ())
    return [next(found) if tensor.is_floating_point() else None for tensor in kept]


_unknown.register_autograd(_unknown_grad, setup_context=_unknown_setup)
