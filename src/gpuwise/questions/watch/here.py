"""Watching from inside a program, with `with gpuwise.watch(): ...` or `for batch in gpuwise.watch(loader): ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from gpuwise.live.hook import gpuwise_steps
from gpuwise.live.sample.session import Session
from gpuwise.live.sample.steps import Pace, typical_pace
from gpuwise.questions.watch.judging import check_expected, judge
from gpuwise.questions.watch.types import WatchAnswer

__all__ = ["Watch", "harmless"]


@contextmanager
def harmless() -> Iterator[None]:
    """Report errors inside this block and continue, because watching must not break the training."""
    try:
        yield
    except Exception as fault:
        sys.stderr.write(f"gpuwise watch: this run could not be diagnosed: {type(fault).__name__}: {fault}\n")


class Watch:
    """Watches a part of this program, from entering the context to leaving it. Afterwards, `answer` contains the diagnosis.

    In a loop, it times the waits for `items`; otherwise, it times every torch DataLoader and every Keras `fit` in the meantime.
    When watching ends, `then` is called with the answer.
    """

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        *,
        model: str = "",
        precision: str = "",
        profile: bool = True,
        then: Callable[[WatchAnswer], None] = lambda answer: None,
    ) -> None:
        check_expected(model, precision)
        self.answer: WatchAnswer | None = None
        self._items, self._model, self._precision, self._profile, self._then = items, model, precision, profile, then
        self._session: Session | None = None
        self._marks: gpuwise_steps.Marks | None = None
        self._off: list[Callable[[], None]] = []

    def __enter__(self) -> Watch:
        return self.begin()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.finish(kind.__name__ if kind is not None and kind is not GeneratorExit else "")

    def begin(self, *, hooks: bool = True) -> Watch:
        """Start watching, after finishing any previous watch. Without `hooks`, only calls such as `step_ended` mark steps."""
        self.finish("interrupted")
        self.answer, self._session = None, Session()
        self._marks = gpuwise_steps.Marks(self._session.folder, window=self._profile)
        for name, hook in self._hooks().items() if hooks else ():
            if name in sys.modules:
                self._off.append(hook(sys.modules[name], self._marks))
        self._session.start(os.getpid())
        return self

    def _hooks(self) -> dict[str, Callable[[Any, gpuwise_steps.Marks], Callable[[], None]]]:
        if self._items is not None:
            return {"torch.optim": gpuwise_steps.hook_optimizers}
        data, keras = gpuwise_steps.hook_torch_data, gpuwise_steps.hook_keras
        return {"torch.utils.data": data, "torch.optim": gpuwise_steps.hook_optimizers, "keras": keras}

    def finish(self, ended_by: str = "") -> None:
        """Stop watching, diagnose the run, and pass on the answer. This never raises an exception."""
        session, marks = self._session, self._marks
        if session is None or marks is None:
            return
        undo, self._off, self._session, self._marks = self._off, [], None, None
        with harmless():
            for off in undo:
                off()
            marks.close()
            run = session.finish(ended_by=ended_by)
            self.answer = judge(run, title="this program", model=self._model, precision=self._precision)
        session.remove()
        if self.answer is not None:
            with harmless():
                self._then(self.answer)

    def __iter__(self) -> Iterator[Any]:
        if self._items is None:
            raise TypeError("gpuwise.watch() without a loader works in a `with` statement, not in a loop")
        with self:
            marks = self._marks
            if marks is not None:
                marks.starts(int(getattr(self._items, "num_workers", -1)))
                yield from gpuwise_steps.Timed(iter(self._items), marks)

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]

    def record(self) -> None:
        """Record the next six steps with torch's profiler; `answer.window` is the diagnosis of the last recording."""
        if self._marks is not None:
            self._marks.record()

    def pace(self) -> Pace | None:
        """Statistics of the steps so far."""
        return typical_pace(self._session.read()) if self._session is not None else None

    def pass_begins(self, workers: int = -1) -> None:
        """Mark the start of a pass over the data, with this number of workers (-1 if it is unknown)."""
        if self._marks is not None:
            self._marks.starts(workers)
            self._marks.begin()

    def batch_came(self, batch: Any) -> None:
        """Mark the arrival of the next batch, given as the batch itself or as its number of samples."""
        if self._marks is not None:
            self._marks.end(batch if isinstance(batch, int) else gpuwise_steps.samples_of(batch))

    def step_ended(self) -> None:
        """Mark the end of a step; the wait for the next batch starts here."""
        if self._marks is not None:
            self._marks.stepped()
            self._marks.begin()

    def pause(self, *, apart: bool = True) -> None:
        """Mark the start of an evaluation or a checkpoint, until `go_on` or the next batch. With `apart`, the step is excluded
        from the statistics."""
        if self._marks is not None:
            self._marks.pause(apart=apart)

    def go_on(self) -> None:
        """Mark the end of a pause; the wait for the next batch starts here."""
        if self._marks is not None:
            self._marks.go_on()

    def pass_ended(self) -> None:
        """Mark the end of a pass over the data."""
        if self._marks is not None:
            self._marks.end(None)
