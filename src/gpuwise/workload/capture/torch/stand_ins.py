"""Stand-ins for public names of torch that need a GPU, a compiler or the network, for user code that runs without them.

They are active while user code runs, in the capturing process only. Each does what one GPU would do, as far as the code can tell.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gpuwise.core.errors import BadValue

__all__ = ["Note", "OnCpu", "StandIn", "always", "gpu_names", "is_cuda", "swapped"]

Note = Callable[[str], None]
StandIn = tuple[Any, str, Any]
_MISSING = object()
_SEQUENCES = frozenset((torch.linspace, torch.arange, torch.logspace, torch.tensor))
_SILENT = (
    "synchronize empty_cache set_device ipc_collect reset_peak_memory_stats reset_max_memory_allocated manual_seed "
    "manual_seed_all seed seed_all init set_rng_state set_rng_state_all set_stream set_per_process_memory_fraction "
    "set_sync_debug_mode"
).split()
_ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved current_device utilization initial_seed".split()
)
_CONSTANTS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "is_bf16_supported": True,
    "device_count": 1,
    "get_device_name": "GPU",
    "get_device_capability": (8, 0),
    "get_arch_list": ["sm_80"],
    "mem_get_info": (80 * 10**9, 80 * 10**9),
    "memory_summary": "",
}


def is_cuda(device: Any) -> bool:
    """Whether this names a CUDA device: "cuda", "cuda:1", torch.device("cuda") or a number."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


@contextlib.contextmanager
def swapped(stand_ins: Sequence[StandIn]) -> Iterator[None]:
    """Replace torch's own values with these (owner, name, value) inside this context."""
    kept: list[StandIn] = []
    try:
        for owner, name, value in stand_ins:
            kept.append((owner, name, vars(owner).get(name, _MISSING)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, original in reversed(kept):
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def gpu_names(note: Note) -> list[StandIn]:
    """Return the replacements that let a model or script see one GPU."""
    lazy = [(kind, "__new__", _refuse_lazy) for kind in (UninitializedParameter, UninitializedBuffer)]
    return [*_cuda(), *_autocast(), *_loading(note), *lazy, (torch.nn.Module, "_apply", _apply)]


def _refuse_lazy(*args: Any, **kwargs: Any) -> Any:
    raise BadValue(
        "the model has lazy layers (such as nn.LazyLinear), whose sizes are known only after a real forward pass",
        hint="replace them with layers of fixed size, such as nn.Linear(in_features, out_features)",
    )


def always(value: Any) -> Callable[..., Any]:
    """Return a function that always returns this value."""
    return lambda *args, **kwargs: value


class OnCpu(TorchFunctionMode):
    """Turns every CUDA device that user code names into the CPU, where the fake tensors are.

    With `real_constants`, number sequences stay real while a model is built, because constructors read values from them.
    """

    def __init__(self, real_constants: bool = False) -> None:
        super().__init__()
        self._real_constants = real_constants

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and is_cuda(args[1]):
            args = (args[0], "cpu", *args[2:])
        with unset_fake_temporarily() if self._is_real(func, args, kwargs) else contextlib.nullcontext():
            return func(*args, **kwargs)

    def _is_real(self, func: Any, args: Any, kwargs: Any) -> bool:
        if not self._real_constants:
            return False
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        return not any(isinstance(tensor, FakeTensor) for tensor in tensors) if tensors else func in _SEQUENCES


def _apply(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
    """`Module.to` and related methods for fake tensors, which torch refuses to swap: parameters keep their identity."""
    if recurse:
        for child in self.children():
            child._apply(fn)
    for name, parameter in self._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            applied = fn(parameter)
        if isinstance(parameter, FakeTensor) == isinstance(applied, FakeTensor):
            parameter.data = applied
        else:
            self._parameters[name] = torch.nn.Parameter(applied, parameter.requires_grad)
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = fn(buffer)
    return self


# ---------------------------------------------------------------- torch.cuda


class _Marker:
    """A CUDA event or stream, with nothing to wait for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Marker:
        return self

    def __exit__(self, *problem: Any) -> None:
        pass

    def elapsed_time(self, end: Any) -> float:
        return 1.0

    def query(self) -> bool:
        return True

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    record = synchronize = wait = wait_event = wait_stream = record_event = _nothing


def _cuda() -> list[StandIn]:
    properties = SimpleNamespace(name="GPU", major=8, minor=0, total_memory=80 * 10**9, multi_processor_count=108)
    found: list[StandIn] = [(torch.cuda, name, always(None)) for name in _SILENT]
    found += [(torch.cuda, name, always(0)) for name in _ZERO]
    found += [(torch.cuda, name, always(value)) for name, value in _CONSTANTS.items()]
    found += [
        (torch.cuda, name, _Marker)
        for name in ("Event", "Stream", "stream", "device", "device_of", "current_stream", "default_stream")
    ]
    found += [(torch.cuda.nvtx, name, always(None)) for name in ("range_push", "range_pop", "mark")]
    for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
        found.append((torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor")))
    return [
        *found,
        (torch.cuda, "get_device_properties", always(properties)),
        (torch.cuda, "memory_stats", lambda *args, **kwargs: defaultdict(int)),
        (torch.cuda, "get_rng_state", lambda *args, **kwargs: torch.get_rng_state()),
        (torch.cuda, "get_rng_state_all", always([])),
        (torch, "Generator", _Generator),
        (torch, "set_default_device", _set_default_device(torch.set_default_device)),
        (torch, "set_default_tensor_type", lambda kind: None),
    ]


class _Generator(torch.Generator):
    """A generator for any device, on the host: one for CUDA cannot be created without it."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls, "cpu" if is_cuda(device) else device)


def _set_default_device(original: Callable[..., None]) -> Callable[[Any], None]:
    return lambda device: original(torch.device("cuda", 0) if is_cuda(device) else device)


# ---------------------------------------------------------------- mixed precision


class _Autocast(torch.autocast):
    """Autocast for CUDA by CUDA's rules, which `overrides` gives to the CPU."""

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if is_cuda(device_type):
            device_type, dtype = "cpu", dtype or torch.float16
        super().__init__(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class _CudaAutocast(_Autocast):
    def __init__(self, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def _for_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda device_type="cuda": original("cpu" if is_cuda(device_type) else device_type)


def _autocast() -> list[StandIn]:
    return [
        (torch, "autocast", _Autocast),
        (torch.amp, "autocast", _Autocast),
        (torch.cuda.amp, "autocast", _CudaAutocast),
        (torch, "is_autocast_enabled", _for_cpu(torch.is_autocast_enabled)),
        (torch, "get_autocast_dtype", _for_cpu(torch.get_autocast_dtype)),
        (torch, "get_autocast_gpu_dtype", lambda get=torch.get_autocast_dtype: get("cpu")),
    ]


# ---------------------------------------------------------------- files and compilation


class _AnyWeights(dict[str, Any]):
    """Weights that fit every model: a capture needs none."""


def _loading(note: Note) -> list[StandIn]:
    load, load_state = torch.load, torch.nn.Module.load_state_dict

    def save(*args: Any, **kwargs: Any) -> None:
        note("torch.save was skipped, because a capture has no values to save")

    def load_here(file: Any, map_location: Any = None, **kwargs: Any) -> Any:
        return load(file, map_location="cpu" if isinstance(map_location, (str, int, torch.device)) else map_location, **kwargs)

    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        return load_state(self, self.state_dict() if isinstance(state_dict, _AnyWeights) else state_dict, *args, **kwargs)

    def download(*args: Any, **kwargs: Any) -> _AnyWeights:
        note("pretrained weights were not downloaded, because a capture does not need them")
        return _AnyWeights()

    def compile_nothing(model: Any = None, **options: Any) -> Any:
        note("torch.compile was skipped, because the eager step is captured; use --compile for the compiled step")
        return model if model is not None else lambda function: function

    def script_nothing(thing: Any, *args: Any, **kwargs: Any) -> Any:
        return thing

    return [
        (torch, "save", save),
        (torch, "load", load_here),
        (torch.nn.Module, "load_state_dict", load_state_dict),
        (torch.hub, "load_state_dict_from_url", download),
        (torch, "compile", compile_nothing),
        (torch.jit, "script", script_nothing),
    ]
