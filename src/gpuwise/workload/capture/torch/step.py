"""Runs a model's step on fake tensors at several sizes and records it, from the second step on, when optimizer state exists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.raw import RawCapture
from gpuwise.workload.capture.torch.optimizers import make_optimizer
from gpuwise.workload.capture.torch.overrides import install
from gpuwise.workload.capture.torch.recorder import Recorder
from gpuwise.workload.model.types import Settings

__all__ = ["Subject", "capture"]

_LOW = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}
_NOTES = {"fp8": ("fp8: tensors stay in bf16 between matrix products, as in common recipes; casts to fp8 are not recorded",)}
_AUTOCAST = {"amp": torch.float16, "amp-bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model to capture: how to build it, its inputs at a size, and the step to run on them.

    `forward(model, inputs, training)` returns the loss in training. `batch` and `seq` are the default sizes; `seq` is None for
    models without a sequence. `seqs` are the two lengths on which the symbolic form is fitted and the one on which it is
    verified.
    """

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int, int | None], Any]
    forward: Callable[[torch.nn.Module, Any, bool], Any]
    batch: int = 32
    seq: int | None = None
    seqs: tuple[int, int, int] = (64, 128, 192)
    notes: tuple[str, ...] = ()


def capture(subject: Subject, settings: Settings, points: Sequence[tuple[int, int | None]]) -> tuple[list[RawCapture], int]:
    """One recorded step for each (batch, seq), and the number of parameters."""
    library = install()
    with FakeTensorMode(allow_non_fake_inputs=True):
        with _RealConstants():
            model = subject.build()
        model = _prepared(model, settings)
        optimizer = make_optimizer(model.parameters(), settings) if settings.mode == "train" else None
        captures = []
        for point in points:
            recorded = _Step(subject, settings, model, optimizer, point).recorded()
            recorded.notes += (*subject.notes, *_NOTES.get(settings.precision, ()))
            captures.append(recorded)
        parameters = sum(parameter.numel() for parameter in model.parameters())
    del library
    return captures, parameters


class _RealConstants(TorchFunctionMode):
    """While a model is built, small number sequences stay real, because constructors read values from them (drop-path
    schedules).

    A fake tensor counts as false, so that a loop which redraws weights until they fit ends at once.
    """

    _MAKERS = frozenset((torch.linspace, torch.arange, torch.logspace, torch.tensor))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if func is torch.Tensor.__bool__ and isinstance(args[0], FakeTensor):
            return False
        real = not any(isinstance(tensor, FakeTensor) for tensor in tensors) if tensors else func in self._MAKERS
        with unset_fake_temporarily() if real else contextlib.nullcontext():
            return func(*args, **(kwargs or {}))


def _refuse_sparse(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise BadValue(
                f"the layer {name or type(module).__name__} has sparse gradients (sparse=True), which a capture does not record",
                hint="capture it with sparse=False, or capture only the forward pass with `--mode infer`",
            )


def _prepared(model: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    model = model.train(settings.mode == "train")
    if settings.mode == "train":
        _refuse_sparse(model)
    low = _LOW.get(settings.precision)
    if low is not None:
        _convert(model, lambda tensor: tensor.to(low) if tensor.is_floating_point() else tensor)
    if settings.channels_last:
        _convert(model, lambda tensor: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor)
    if settings.checkpoint:
        _checkpoint_blocks(model)
    return model


def _convert(model: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every parameter and buffer, tied ones together; `Module.to` cannot, because fake parameters cannot be swapped."""
    done: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the old one is kept, so that its id is not reused
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            fresh = torch.nn.Parameter(change(parameter.detach()), requires_grad=parameter.requires_grad)
            setattr(module, name, done.setdefault(id(parameter), (parameter, fresh))[1])
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, done.setdefault(id(buffer), (buffer, change(buffer)))[1])


def _checkpoint_blocks(model: torch.nn.Module) -> None:
    """Recompute each repeated block: the children of lists and sequences with at least two of one class."""
    for parent in list(model.modules()):
        if not isinstance(parent, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        children = list(parent.children())
        repeated = {kind for kind in map(type, children) if sum(type(child) is kind for child in children) > 1}
        for child in children:
            if type(child) in repeated and any(True for _ in child.children()):
                _checkpoint(child)


def _checkpoint(module: torch.nn.Module) -> None:
    plain = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        return checkpoint(plain, *args, use_reentrant=False, preserve_rng_state=False, determinism_check="none", **kwargs)

    module.forward = forward


@contextlib.contextmanager
def _layers_one_by_one() -> Iterator[None]:
    """Record the products of nn.MultiheadAttention in inference, not the one op that PyTorch wraps around them."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


class _Step:
    """One step at one size."""

    def __init__(self, subject: Subject, settings: Settings, model: Any, optimizer: Any, point: tuple[int, int | None]) -> None:
        self._subject, self._settings, self._model, self._optimizer = subject, settings, model, optimizer
        self._batch, self._seq = point
        self._inputs = self._cast(subject.inputs(*point))
        self._scaler = _Scaler() if settings.precision == "amp" and settings.mode == "train" else None

    def _cast(self, inputs: Any) -> Any:
        dtype = _LOW.get(self._settings.precision)

        def cast(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if dtype is not None and value.is_floating_point():
                value = value.to(dtype)
            if self._settings.channels_last and value.dim() == 4:
                value = value.contiguous(memory_format=torch.channels_last)
            return value

        return tree_map(cast, inputs)

    def recorded(self) -> RawCapture:
        recorder = Recorder()
        recorder.know(self._model.parameters(), "weight")
        recorder.know(self._model.buffers(), "weight")
        recorder.know((leaf for leaf in tree_leaves(self._inputs) if isinstance(leaf, torch.Tensor)), "input")
        with recorder:
            self.run(recorder)
        recorder.close()
        return RawCapture(self._batch, self._seq, recorder.calls, recorder.buffers, recorder.notes)

    def run(self, recorder: Recorder | None) -> None:
        """Forward; in training also backward and optimizer. Gradients are freed at the end, as training loops do."""
        if self._settings.mode == "infer":
            with torch.no_grad(), self._autocast(), _layers_one_by_one():
                self._subject.forward(self._model, self._inputs, False)
            return
        for _ in range(self._settings.accumulate):
            self._forward_backward(recorder)
        if recorder is not None:
            recorder.mark(self._gradients(), "gradient")
            recorder.phase = "optimizer"
            self._know_state(recorder)
        self._update()
        self._model.zero_grad(set_to_none=True)

    def _know_state(self, recorder: Recorder) -> None:
        """The optimizer's state exists from the start of the step. A first step creates it, for weights that have a gradient."""
        if self._optimizer is None:
            return
        if not self._optimizer.state:
            with recorder.paused():
                self._optimizer.step()
        states = tree_leaves([dict(state) for state in self._optimizer.state.values()])
        recorder.know((leaf for leaf in states if isinstance(leaf, torch.Tensor) and leaf.dim()), "optimizer")

    def _forward_backward(self, recorder: Recorder | None) -> None:
        if recorder is not None:
            recorder.phase = "forward"
        with self._autocast():
            loss = self._subject.forward(self._model, self._inputs, True)
        if recorder is not None:
            recorder.mark_alive_as_activation()
            recorder.phase = "backward"
        if self._scaler is not None:
            loss = self._scaler.scale(loss)
        if self._settings.accumulate > 1:
            loss = loss / self._settings.accumulate
        loss.backward()

    def _update(self) -> None:
        gradients = self._gradients()
        if self._scaler is not None:
            self._scaler.unscale(gradients)
        if self._settings.clip:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0, foreach=True)
        if self._optimizer is not None:
            self._optimizer.step()
        if self._scaler is not None:
            self._scaler.update()

    def _gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]

    @contextlib.contextmanager
    def _autocast(self) -> Iterator[None]:
        dtype = _AUTOCAST.get(self._settings.precision)
        if dtype is None:
            yield
        else:
            with torch.autocast("cpu", dtype=dtype):
                yield


class _Scaler:
    """The GPU work of `torch.amp.GradScaler`, which cannot run without a CUDA device."""

    def __init__(self) -> None:
        self._scale = torch.full((1,), 65536.0)
        self._growth = torch.zeros(1, dtype=torch.int32)
        self._infinite = torch.zeros(1)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._scale.squeeze()

    def unscale(self, gradients: list[torch.Tensor]) -> None:
        inverse = self._scale.double().reciprocal().float()
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._infinite, inverse)

    def update(self) -> None:
        torch._amp_update_scale_(self._scale, self._growth, self._infinite, 2.0, 0.5, 2000)
