"""Watch Lightning training: `Trainer(callbacks=[gpuwise.integrations.lightning.callback()])`."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import MissingExtra
from gpuwise.integrations.figures import figures, tell_wandb
from gpuwise.questions.watch.face import watch
from gpuwise.questions.watch.here import harmless

__all__ = ["callback"]


def callback(*, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False) -> Any:
    """Return a `lightning.Callback`. Its `answer` is available after training. A few values go to the trainer's loggers."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise MissingExtra("lightning", extra="lightning", needed_for="the Lightning callback") from None

    class GpuwiseCallback(Callback):
        """Marks the end of each batch, and the time at which the next batch is ready."""

        def __init__(self) -> None:
            self.watch = watch(model=model, precision=precision, profile=profile, quiet=quiet)

        @property
        def answer(self) -> Any:
            return self.watch.answer

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.watch.begin(hooks=False)

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self.watch.pass_begins(int(getattr(trainer.train_dataloader, "num_workers", -1)))

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            self.watch.batch_came(batch)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.watch.step_ended()

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            self.watch.pause()

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self.watch.go_on()

        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
            self.watch.pause()  # the file is written after this without another call, so that wait is not visible

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.watch.pass_ended()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.watch.finish()
            with harmless():
                for logger in trainer.loggers:
                    logger.log_metrics(figures(self.answer), step=trainer.global_step)
                tell_wandb(self.answer)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.watch.finish(type(exception).__name__)

    return GpuwiseCallback()
