"""Runs a training script without its GPU: fake tensors on an imaginary device, real ones on the host, and a recorder that
pauses.

What a script does with data on the host (reading, shuffling, augmenting) happens for real and is not recorded. Whatever it puts
on "cuda", and every parameter, is a fake CPU tensor whose ops are recorded. `Placement` sees each call to torch's Python
interface, decides whether it belongs to the host or the device, and turns "cuda" into "cpu".
"""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

from gpuwise.workload.capture.script.values import Values
from gpuwise.workload.capture.torch.recorder import Recorder
from gpuwise.workload.capture.torch.stand_ins import is_cuda

__all__ = ["Placement", "ScriptRecorder", "is_host"]

_CPU = torch.device("cpu")
# Number sequences and indices that scripts read back stay real while they are small and on the host.
_SEQUENCES = frozenset(
    (torch.tensor, torch.as_tensor, torch.asarray, torch.arange, torch.linspace, torch.logspace, torch.randperm, torch.randint)
)
_LARGEST_SEQUENCE = 2**22
_FACTORIES = frozenset(_device_constructors())
_TENSOR = torch.Tensor
_HOLDS = {torch.isfinite: True, _TENSOR.isfinite: True} | dict.fromkeys(
    (torch.isnan, torch.isinf, _TENSOR.isnan, _TENSOR.isinf), False
)


def is_host(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the host: a real one, or a fake one created there. Trained tensors are on the device."""
    if not isinstance(tensor, FakeTensor):
        return True
    return getattr(tensor, "_gpuwise_host", False) and not (tensor.requires_grad or isinstance(tensor, torch.nn.Parameter))


class ScriptRecorder(Recorder):
    """A recorder that is active for the whole script: it records between `start` and `stop`, except while `quiet`."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values
        self.active = False
        self.quiet = 0

    def __enter__(self) -> ScriptRecorder:
        super().__enter__()
        gc.enable()  # until the step to record, which may come late in a script
        return self

    def start(self) -> None:
        """Begin a step, discarding an earlier one."""
        self.close()
        gc.collect()
        gc.disable()
        self.calls, self.buffers = [], []
        self._ids, self._finalizers = {}, []
        self.phase, self.active = "forward", True

    def stop(self) -> None:
        """End the step."""
        self.active = False
        self.close()
        gc.enable()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Exclude everything inside this context from the GPU's work."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if is_cuda(kwargs.get("device")):  # called from inside a backward pass, where no function mode is active
            kwargs["device"] = _CPU
        try:
            return self._run(func, args, kwargs)
        except DataDependentOutputException:
            if func._opname != "_local_scalar_dense":
                raise
            return self.values.scalar(args[0].dtype)
        except DynamicOutputShapeException:
            out = self.values.selection(func, args, kwargs, self._run)
            if out is NotImplemented:
                raise
            return out

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if self.active and not self.quiet:
            return super().__torch_dispatch__(func, (), args, kwargs)
        return func(*args, **kwargs)


class Placement(TorchFunctionMode):
    """Assigns the calls to torch's Python interface to host or device."""

    def __init__(self, recorder: ScriptRecorder) -> None:
        super().__init__()
        self.uses_cuda = False
        self._recorder = recorder
        self._on_host = 0
        self._handling = False
        self._special: dict[Any, Callable[..., Any]] = {
            _TENSOR.to: self._to,
            _TENSOR.cuda: lambda x, device=None, non_blocking=False, **rest: self._to(x, "cuda", **rest),
            _TENSOR.cpu: lambda x, **rest: self._to(x, "cpu", **rest),
            _TENSOR.pin_memory: lambda x, *rest, **more: x,
            _TENSOR.get_device: lambda x: 0 if self.uses_cuda and not is_host(x) else -1,
            _TENSOR.numpy: self._numpy,
            _TENSOR.__array__: self._array,
            _TENSOR.tolist: lambda x: self._numpy(x).tolist() if isinstance(x, FakeTensor) else NotImplemented,
            _TENSOR.__format__: self._format,
            _TENSOR.__deepcopy__: self._deepcopy,
        }

    @contextlib.contextmanager
    def host(self) -> Iterator[None]:
        """Inside, as in a data loader, new tensors are real and nothing is recorded."""
        self._on_host += 1
        try:
            with self._recorder.silent():
                yield
        finally:
            self._on_host -= 1

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Reactivate the mode where user code runs within one of torch's functions, such as a checkpointed block in the backward
        pass.
        """
        if not self._handling:
            yield
            return
        self._handling = False
        try:
            with self:
                yield
        finally:
            self._handling = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, self._handling = self._handling, True
        try:
            return self._handle(func, args, kwargs)
        finally:
            self._handling = before

    def _handle(self, func: Any, args: Any, kwargs: Any) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        special = self._special.get(func)
        if special is not None and (answer := special(*args, **kwargs)) is not NotImplemented:
            return answer
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.is_meta and not isinstance(tensor, FakeTensor) for tensor in tensors):
            return func(*args, **kwargs)
        out = self._placed(func, tensors, args, kwargs)
        return self._constant(out, _HOLDS[func]) if func in _HOLDS and isinstance(out, FakeTensor) else out

    def _placed(self, func: Any, tensors: list[torch.Tensor], args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a call on the host or the device, whichever it belongs to."""
        device = self._device(func, kwargs)
        if device == "other":
            return func(*args, **kwargs)
        if tensors:
            host = device == "host" and all(is_host(tensor) for tensor in tensors)
            real = host and not any(isinstance(tensor, FakeTensor) for tensor in tensors)
        else:
            host = device == "host"
            real = host and (self._on_host > 0 or _is_sequence(func, args, kwargs))
        if not host:
            return func(*args, **kwargs)
        # If a script never names a GPU, everything except plain data is treated as being on one.
        is_apart = real or self.uses_cuda or self._on_host > 0
        quiet = self._recorder.silent() if is_apart else contextlib.nullcontext()
        with quiet, unset_fake_temporarily() if real else contextlib.nullcontext():
            return _marked(func(*args, **kwargs))

    def _device(self, func: Any, kwargs: dict[str, Any]) -> str:
        """Return where the caller wants the result: device, host or other (such as meta). The argument becomes a CPU device."""
        asked = kwargs.get("device")
        if asked is None:
            if func not in _FACTORIES or not is_cuda(torch.get_default_device()):
                return "host"
        elif isinstance(asked, torch.device) and asked.type == "cpu":
            # The device of some tensor: on an imaginary GPU, all of them say "cpu", whereas people write "cpu" as text.
            return "device" if self.uses_cuda and not self._on_host else "host"
        elif not is_cuda(asked):
            return "host" if asked == "cpu" else "other"
        kwargs["device"], self.uses_cuda = _CPU, True
        return "device"

    def _to(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        target, form = _destination(args, kwargs)
        if isinstance(target, torch.Tensor):
            target = "cuda" if self.uses_cuda and not is_host(target) else None
        if is_cuda(target):
            self.uses_cuda = True
        elif isinstance(target, torch.device) and target.type == "cpu" and self.uses_cuda and not self._on_host:
            target = "cuda"  # see `_device`
        elif target is not None and torch.device(target).type != "cpu":
            return x.to(target, **form)
        if target is None or not self.uses_cuda or is_cuda(target) != is_host(x):  # it stays where it is
            return self._placed(_TENSOR.to, [x], (x,), form) if form else x
        with self._recorder.silent():  # a new buffer, but no kernel
            out = x.to(**(form | {"dtype": form.get("dtype", x.dtype), "copy": True}))
        if not is_cuda(target):
            return _marked(out)
        if self._recorder.active:
            self._recorder.know([out], "input")
        return out

    def _numpy(self, x: torch.Tensor, **_: Any) -> Any:
        return self._recorder.values.array(x) if isinstance(x, FakeTensor) else NotImplemented

    def _array(self, x: torch.Tensor, dtype: Any = None, **_: Any) -> Any:
        array = self._numpy(x)
        return array if dtype is None or array is NotImplemented else array.astype(dtype)

    def _format(self, x: torch.Tensor, spec: str) -> str:
        if not isinstance(x, FakeTensor) or x.dim() or not spec:
            return NotImplemented
        return format(self._recorder.values.scalar(x.dtype), spec)

    def _deepcopy(self, x: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not isinstance(x, FakeTensor):
            return NotImplemented
        if id(x) not in memo:
            with torch.no_grad(), self._recorder.silent():
                twin = x.detach().clone().requires_grad_(x.requires_grad)
            memo[id(x)] = torch.nn.Parameter(twin, x.requires_grad) if isinstance(x, torch.nn.Parameter) else twin
        result: torch.Tensor = memo[id(x)]
        return result

    @staticmethod
    def _constant(out: torch.Tensor, value: bool) -> torch.Tensor:
        """Return a real tensor with that one value in the form of a fake one, so that `if torch.isnan(loss)` works."""
        with unset_fake_temporarily():
            return torch.full((), value).expand(out.shape)


def _is_sequence(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    if func in _SEQUENCES:
        return func is not torch.randint or _numel(args, kwargs) <= _LARGEST_SEQUENCE
    return func in (torch.rand, torch.randn) and not kwargs.get("requires_grad") and _numel(args, kwargs) == 1


def _numel(args: Any, kwargs: dict[str, Any]) -> int:
    size = kwargs.get("size") or next((value for value in args if isinstance(value, (tuple, list))), args)
    return math.prod(value for value in size if isinstance(value, int))


def _destination(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return where `Tensor.to` with these arguments moves a tensor, and in which form (dtype, copy, memory_format)."""
    target = kwargs.get("device", kwargs.get("other"))
    form = {key: kwargs[key] for key in ("dtype", "copy", "memory_format") if kwargs.get(key) is not None}
    for position, value in enumerate(args):
        if isinstance(value, torch.dtype):
            form["dtype"] = value
        elif isinstance(value, torch.Tensor):
            target, form["dtype"] = value, value.dtype
        elif position == 0 and value is not None:
            target = value
        elif isinstance(value, bool) and position == len(args) - 1 and position >= 2 and value:
            form["copy"] = True
    return target, form


def _marked(out: Any) -> Any:
    """Return the result with its fake tensors marked as being on the host."""
    for leaf in tree_leaves(out):
        if isinstance(leaf, FakeTensor):
            leaf._gpuwise_host = True
    return out
