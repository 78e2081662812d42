"""Watch a Hugging Face Trainer: call `gpuwise.integrations.huggingface.attach(trainer)`, or pass `callback()` in `callbacks`."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import MissingExtra
from gpuwise.integrations.figures import figures, tell_wandb
from gpuwise.questions.watch.face import watch
from gpuwise.questions.watch.here import harmless

__all__ = ["attach", "callback"]

_LAST = "train_runtime"  # a value from the Trainer's last log, before its loggers close


def attach(trainer: Any, *, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False) -> Any:
    """Add the callback to a `transformers.Trainer`, and log a few values to the services that the trainer reports to."""
    added = callback(model=model, precision=precision, profile=profile, quiet=quiet)
    added.trainer = trainer
    trainer.add_callback(added)
    return added


def callback(*, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False) -> Any:
    """Return a `transformers.TrainerCallback`. Its `answer` is available after training. The callback alone cannot log values,
    because it does not know its trainer; use `attach` for that."""
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtra("transformers", extra="hf", needed_for="the Hugging Face Trainer callback") from None

    class GpuwiseCallback(TrainerCallback):
        """Marks the end of each step, and the time at which the next step has its batch."""

        def __init__(self) -> None:
            self.trainer: Any = None
            self.watch = watch(model=model, precision=precision, profile=profile, quiet=quiet)

        @property
        def answer(self) -> Any:
            return self.watch.answer

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.begin(hooks=False)

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.pass_begins(int(args.dataloader_num_workers))

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.batch_came(int(args.train_batch_size) * int(args.gradient_accumulation_steps))

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.step_ended()

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.pass_ended()

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.pause()

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._done(apart=True)

        on_save = on_evaluate

        def _done(self, *, apart: bool) -> None:
            """Exclude the time before this call, because the Trainer calls after the work, which was not waiting."""
            self.watch.pause(apart=apart)
            self.watch.go_on()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            self._done(apart=False)
            if self.trainer is not None and self.answer is None and _LAST in (logs or {}):
                self.watch.finish()
                with harmless():
                    self.trainer.log(figures(self.answer))

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.finish()
            with harmless():
                tell_wandb(self.answer)

    return GpuwiseCallback()
