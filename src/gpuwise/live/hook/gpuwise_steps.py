"""Marks the progress of a training run: when it waits for a batch, when the batch arrives, when the optimizer has stepped.

Records go to a file of the process's own. Each record is one `write`, so a reader never sees a partial one. Only public
interfaces are hooked: the iteration of `torch.utils.data.DataLoader`, the step hooks that `torch.optim.optimizer` has for all
optimizers, and `callbacks` of `keras.Model.fit`. Nothing here may break the run: an error ends the marks, not the training.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import inspect
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "RECORD",
    "Marks",
    "Timed",
    "TraceWindow",
    "hook_keras",
    "hook_optimizers",
    "hook_torch_data",
    "mark_imports",
    "samples_of",
]

RECORD = struct.Struct("<c7xddq")  # kind, perf_counter, process_time, and a number whose meaning depends on the kind
_MOST_PROFILED = 8  # ranks whose steps are profiled, enough to detect a late one
_WARM_UP = 8
_STEPS = 6
_LONGEST_S = 60.0


class Marks:
    """The marks of this process. Kinds: L a loader begins (with its number of workers), B the wait for a batch begins, E the
    batch has arrived (with its number of samples), C no batches are left, D the wait no longer counts (1 if the step is not a
    usual one, because it evaluates or saves), S the optimizer has stepped, P a profiler window opens, Q it closes (1 if it was
    written)."""

    def __init__(self, folder: str | os.PathLike[str], *, window: bool = False) -> None:
        self.folder = Path(folder)
        self._file: int | None = None
        self._broken = False
        self._depth = 0
        self._paused = False
        self._inner = 0  # samples from a loader inside another loader
        self._window = TraceWindow(self) if window and _rank() < _MOST_PROFILED else None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def write(self, kind: bytes, number: int = 0) -> None:
        """Write one record."""
        if self._broken:
            return
        try:
            if self._file is None:
                self._file = os.open(self.folder / f"{os.getpid()}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, RECORD.pack(kind, time.perf_counter(), time.process_time(), number))
        except OSError:  # the disk is full, or the watcher has ended
            self._broken = True

    def stepped(self) -> None:
        """Mark that the optimizer has stepped."""
        self.write(b"S")
        if self._window is not None and self._window.stepped():
            self._window = None

    def record(self) -> None:
        """Open a profiler window at the end of this step, if none is open."""
        if self._window is None or not self._window.is_open:
            self._window = TraceWindow(self, after=0)

    def begin(self) -> None:
        """Mark the start of the wait for a batch. Loaders inside loaders count once."""
        self._depth += 1
        if self._depth == 1:
            self._paused = False
            self.write(b"B")

    def end(self, samples: int | None) -> None:
        """Mark that the batch has arrived; None if there are no more."""
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self.write(b"C") if samples is None else self.write(b"E", samples or self._inner)
        else:
            self._inner = samples or 0

    def drop(self) -> None:
        """Mark that the wait was cut short."""
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self.write(b"D")

    def pause(self, *, apart: bool = True) -> None:
        """Mark the start of other work, such as evaluation, saving or logging. With `apart`, the step does not count as a usual
        one.
        """
        if self._depth and not self._paused:
            self._paused = True
            self.write(b"D", int(apart))

    def go_on(self) -> None:
        """Mark the end of other work, after which the wait for the batch continues."""
        if self._depth and self._paused:
            self._paused = False
            self.write(b"B")

    def starts(self, workers: int) -> None:
        """Mark that a loader begins a pass over its data."""
        if self._depth == 0:
            self.write(b"L", workers)

    def close(self) -> None:
        """Stop writing marks."""
        self._broken = True
        if self._window is not None:
            self._window.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _forget(self) -> None:
        """Give a forked child, such as a loader's worker, its own file if it ever needs one."""
        self._file, self._depth, self._window = None, 0, None


def samples_of(batch: Any, depth: int = 0) -> int:
    """Return the first dimension of the first tensor in a batch; 0 if there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) and isinstance(shape[0], int) else 0
    if depth < 3 and isinstance(batch, dict):
        return samples_of(next(iter(batch.values()), None), depth + 1)
    if depth < 3 and isinstance(batch, (list, tuple)) and batch:
        return samples_of(batch[0], depth + 1)
    with contextlib.suppress(Exception):  # a BatchEncoding of transformers, and other mappings
        if depth < 3 and hasattr(batch, "values"):
            return samples_of(next(iter(batch.values()), None), depth + 1)
    return 0


class Timed:
    """An iterator that marks the wait for each item, and otherwise behaves like the one inside."""

    def __init__(self, inner: Iterator[Any], marks: Marks) -> None:
        self._inner, self._marks = inner, marks

    def __iter__(self) -> Timed:
        return self

    def __next__(self) -> Any:
        self._marks.begin()
        try:
            item = next(self._inner)
        except StopIteration:
            self._marks.end(None)
            raise
        except BaseException:  # interrupted, or the loader failed, so the wait has no end
            self._marks.drop()
            raise
        self._marks.end(samples_of(item))
        return item

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_marks") or name.startswith("__"):  # requested by copies that are not filled yet
            raise AttributeError(name)
        return getattr(self._inner, name)


def _rank() -> int:
    """Return the rank of this process under torchrun."""
    told = os.environ.get("RANK", "0")
    return int(told) if told.isdecimal() else 0


class TraceWindow:
    """A short recording with torch.profiler, made once after a number of steps, which shows what a step consists of."""

    def __init__(self, marks: Marks, after: int = _WARM_UP) -> None:
        self._marks, self._after, self._count, self._begun = marks, after, 0, 0.0
        self._profiler: Any = None

    @property
    def is_open(self) -> bool:
        """Return whether it is recording."""
        return self._profiler is not None

    def stepped(self) -> bool:
        """Count a step, and return whether there is nothing left to do."""
        self._count += 1
        try:
            if self._profiler is None and self._count > self._after:
                return not self._open()
            if self._profiler is not None:
                late = time.perf_counter() - self._begun > _LONGEST_S
                if self._count > self._after + _STEPS or late:
                    self._write()
                    return True
        except Exception:  # another profiler is running, or the disk is full; the run continues without a recording
            self._marks.write(b"Q", 0)
            return True
        return False

    def _open(self) -> bool:
        torch = sys.modules.get("torch")
        if torch is None:
            return False
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
        self._marks.write(b"P")
        profiler: Any = profile(activities=kinds, record_shapes=True)
        profiler.start()
        self._profiler, self._begun = profiler, time.perf_counter()
        return True

    def _write(self) -> None:
        profiler: Any = self._profiler
        self._profiler = None
        profiler.stop()
        draft = self._marks.folder / f"{os.getpid()}.draft.json"
        profiler.export_chrome_trace(str(draft))
        ranked = f".rank{_rank()}" if "RANK" in os.environ else ""
        draft.replace(self._marks.folder / f"{os.getpid()}{ranked}.trace.json")
        self._marks.write(b"Q", 1)

    def close(self) -> None:
        """End a recording that is still open, and discard it."""
        if self._profiler is not None:
            with contextlib.suppress(Exception):
                self._profiler.stop()
            self._profiler = None


# ---------------------------------------------------------------- hooks; each returns a function that removes it


def hook_torch_data(module: Any, marks: Marks) -> Callable[[], None]:
    """Time the iteration of every `DataLoader`."""
    loader = module.DataLoader
    own = loader.__iter__

    @functools.wraps(own)
    def timed(self: Any) -> Timed:
        marks.starts(int(getattr(self, "num_workers", -1)))
        return Timed(own(self), marks)

    loader.__iter__ = timed

    def off() -> None:
        if loader.__iter__ is timed:
            loader.__iter__ = own

    return off


def hook_optimizers(module: Any, marks: Marks) -> Callable[[], None]:
    """Mark the step of every optimizer of torch."""
    public = importlib.import_module(f"{module.__name__}.optimizer")  # torch.optim deletes the name after import
    handle = public.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: marks.stepped())
    off: Callable[[], None] = handle.remove
    return off


def hook_keras(module: Any, marks: Marks) -> Callable[[], None]:
    """Add a callback to every `Model.fit`. The time between two batches counts as fetching the next one."""
    model = module.Model
    own = model.fit

    class Steps(module.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, data: Any) -> None:
            super().__init__()
            self._workers = _workers(data)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            marks.starts(self._workers)
            marks.begin()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            marks.end(0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            marks.stepped()
            marks.begin()

        def on_test_begin(self, logs: Any = None) -> None:
            marks.pause()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            marks.end(None)

    @functools.wraps(own)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(own).bind(self, *args, **kwargs)
        callbacks, steps = given.arguments.get("callbacks"), Steps(given.arguments.get("x"))
        if isinstance(callbacks, module.callbacks.CallbackList):
            callbacks.append(steps)
        else:
            own_list = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
            given.arguments["callbacks"] = [*own_list, steps]
        return own(*given.args, **given.kwargs)

    model.fit = fit

    def off() -> None:
        if model.fit is fit:
            model.fit = own

    return off


def _workers(data: Any) -> int:
    """Return the workers of the data given to `fit`; a single PyDataset thread that does not run ahead is none. -1 if unknown."""
    if hasattr(data, "num_workers"):
        return int(data.num_workers)
    if hasattr(data, "use_multiprocessing") and hasattr(data, "workers"):
        return int(data.workers) if data.use_multiprocessing or int(data.workers) > 1 else 0
    return -1


_HOOKS = {"torch.utils.data": hook_torch_data, "torch.optim": hook_optimizers, "keras": hook_keras}


class _Finder(importlib.abc.MetaPathFinder):
    """Detects the import of a framework and hooks it when the import is complete."""

    def __init__(self, marks: Marks, first: Mapping[str, Callable[[Any, Marks], Any]]) -> None:
        names = {*first, *_HOOKS}
        self._waiting = {name: [one[name] for one in (first, _HOOKS) if name in one] for name in names}
        self._marks = marks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._waiting:
            return None
        others = [one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]
        spec = next((found for one in others if (found := one.find_spec(name, path, target)) is not None), None)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        run = loader.exec_module

        def run_and_hook(module: Any) -> None:
            run(module)
            try:
                for hook in self._waiting.pop(name, ()):  # only now, because a program may ask for a spec and import much later
                    hook(module, self._marks)
            except Exception as fault:
                sys.stderr.write(f"gpuwise watch: {name} cannot be watched: {fault}\n")

        loader.exec_module = run_and_hook
        return spec


def mark_imports(marks: Marks, first: Mapping[str, Callable[[Any, Marks], Any]] | None = None) -> None:
    """Hook the frameworks when the program imports them, with hooks of others before ours; those it does not use are never
    touched."""
    sys.meta_path.insert(0, _Finder(marks, first or {}))
