"""The Trainer of Hugging Face, watched: `Trainer(..., callbacks=[gpuwise.integrations.huggingface.callback()])`."""

from __future__ import annotations

from typing import Any

from gpuwise.errors import MissingExtra
from gpuwise.integrations.figures import tell_wandb
from gpuwise.report.watch_here import watch

__all__ = ["callback"]


def callback(*, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False) -> Any:
    """A `transformers.TrainerCallback`. Its `answer` is there after the training."""
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtra("transformers", extra="hf", needed_for="a callback for the Trainer of Hugging Face") from None

    class GpuwiseCallback(TrainerCallback):
        """Marks the end of each step, and the moment the next one has its batch."""

        def __init__(self) -> None:
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

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.finish()
            tell_wandb(self.answer)

    return GpuwiseCallback()
