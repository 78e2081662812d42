"""Watch Keras training on any backend: `model.fit(..., callbacks=[gpuwise.integrations.keras.callback()])`."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import MissingExtra
from gpuwise.integrations.figures import pace_figures, tell_wandb
from gpuwise.questions.watch.face import watch
from gpuwise.questions.watch.here import harmless

__all__ = ["callback"]


def callback(*, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False, log: bool = False) -> Any:
    """Return a `keras.callbacks.Callback`. Its `answer` is available after `fit`. Profiling needs the torch backend.

    `log` adds the step time and input wait to the logs of each epoch, where `History` and later callbacks in the list
    (TensorBoard, WandbMetricsLogger, CSVLogger) record them.
    This is off by default, because a Keras callback cannot see other callbacks.
    """
    try:
        import keras
    except ImportError:
        raise MissingExtra("keras", extra="keras", needed_for="the Keras callback") from None

    class GpuwiseCallback(keras.callbacks.Callback):
        """Counts the time between two batches as fetching the next batch."""

        def __init__(self) -> None:
            super().__init__()
            self.watch = watch(model=model, precision=precision, profile=profile, quiet=quiet)

        @property
        def answer(self) -> Any:
            return self.watch.answer

        def on_train_begin(self, logs: Any = None) -> None:
            self.watch.begin(hooks=False)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.watch.pass_begins(-1)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.watch.batch_came(0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.watch.step_ended()

        def on_test_begin(self, logs: Any = None) -> None:
            self.watch.pause()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.watch.pass_ended()
            if log and logs is not None:
                logs.update(pace_figures(self.watch.pace()))

        def on_train_end(self, logs: Any = None) -> None:
            self.watch.finish()
            with harmless():
                tell_wandb(self.answer)

    return GpuwiseCallback()
