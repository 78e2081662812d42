"""Changes settings of a script from outside for one measured run of `gpuwise tune`, which passes them as JSON in
GPUWISE_SETTINGS.

Only public interfaces are touched: the arguments of `DataLoader` and of torch's optimizers, `set_float32_matmul_precision`, and
autocast around the outermost module. Each setting that took effect leaves a file `NAME.applied` next to the marks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["setting_hooks"]

_WORKERS_ONLY = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
_OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad")
Hook = Callable[[Any, Any], Any]


def setting_hooks(text: str, folder: Path) -> dict[str, Hook]:
    """Return a hook for each module that these settings affect."""
    wanted: dict[str, str] = json.loads(text)

    def took(name: str) -> None:
        with contextlib.suppress(OSError):
            (folder / f"{name}.applied").touch()

    found: dict[str, Hook] = {}
    if wanted.keys() & {"batch", "workers", "pinned"}:
        found["torch.utils.data"] = lambda module, marks: _set_loader(module.DataLoader, wanted, took)
    if "optimizer" in wanted:
        found["torch.optim"] = lambda module, marks: _set_optimizers(module, wanted["optimizer"], took)
    if "precision" in wanted:
        found["torch"] = lambda module, marks: _set_precision(module, wanted["precision"], took)
    return found


def _set_loader(loader: Any, wanted: dict[str, str], took: Callable[[str], None]) -> None:
    own = loader.__init__

    @functools.wraps(own)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(own).bind(self, *args, **kwargs)
        values = given.arguments
        if "workers" in wanted:
            values["num_workers"] = int(wanted["workers"])
            if not values["num_workers"]:
                for name in _WORKERS_ONLY:
                    values.pop(name, None)
            took("workers")
        if "pinned" in wanted:
            values["pin_memory"] = wanted["pinned"] == "on"
            took("pinned")
        if "batch" in wanted and values.get("batch_sampler") is None and values.get("batch_size", 1) is not None:
            values["batch_size"] = int(wanted["batch"])
            took("batch")
        own(*given.args, **given.kwargs)

    loader.__init__ = init


def _set_optimizers(module: Any, how: str, took: Callable[[str], None]) -> None:
    def wrapped(kind: Any) -> None:
        own = kind.__init__

        @functools.wraps(own)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            own(self, *args, **{**kwargs, "fused": how == "fused", "foreach": how == "foreach"})
            took("optimizer")

        kind.__init__ = init

    for name in _OPTIMIZERS:
        wrapped(getattr(module, name))


def _set_precision(torch: Any, precision: str, took: Callable[[str], None]) -> None:
    if precision == "tf32":
        torch.set_float32_matmul_precision("high")
        took("precision")
        return
    modules = importlib.import_module("torch.nn.modules.module")
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if precision == "amp-bf16" else torch.float16
    inside: list[Any] = []  # modules being called, the outermost first

    def enter(module: Any, args: Any) -> None:
        if not inside:
            cast = torch.autocast(kind, dtype=dtype)
            cast.__enter__()
            inside.append((module, cast))
            took("precision")

    def leave(module: Any, args: Any, result: Any) -> None:
        if inside and inside[0][0] is module:
            inside.pop()[1].__exit__(None, None, None)

    modules.register_module_forward_pre_hook(enter)
    modules.register_module_forward_hook(leave, always_call=True)
