"""Training scripts that are slow for a known reason, each with its fix, as users start them. `record_live.py` watches them.

    python tools/live_scripts.py zero_workers sick      # prints the seconds of a steady step
    torchrun --nproc-per-node 2 tools/live_scripts.py slow_rank fixed

Plain loops come from `pathologies.py`. This file adds the trainers from Hugging Face, Lightning and Keras, and a run on two
ranks.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, quantiles
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import torch
from torch import nn

from gpuwise.workload.capture.torch.torchvision import import_torchvision
from pathologies import CASES, Samples, perceptron

__all__ = ["SCRIPTS", "Script"]

WARM_UP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script, with the findings that name its fault, a description of the fix, and its number of steps."""

    name: str
    expected: tuple[str, ...]
    fix: str
    steps: int = 60
    ranks: int = 1
    run: Callable[[bool, int], list[float]] | None = None


class _Stamps:
    """The end time of every step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self.ends.append(time.perf_counter())

    def seconds(self) -> list[float]:
        return [after - before for before, after in pairwise(self.ends)]


def _loop(name: str, sick: bool, steps: int) -> list[float]:
    """One of the plain loops."""
    case = next(case for case in CASES if case.name == name)
    if case.ranks > 1:
        torch.distributed.init_process_group("gloo")
    batches, step = case.build(sick)
    stamps = _Stamps()
    for _, batch in zip(range(steps), batches, strict=False):
        step(batch)
        stamps()
    if case.ranks > 1:
        torch.distributed.destroy_process_group()
    return stamps.seconds()


class _Labelled(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Samples that are slow to read, in the form that trainers expect."""

    def __init__(self, steps: int) -> None:
        self._samples, self._size = Samples(0.0006), 32 * steps

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"x": self._samples[place], "labels": torch.zeros(1)}


def hf_trainer(sick: bool, steps: int) -> list[float]:
    """The Hugging Face Trainer. The fix is `dataloader_num_workers`."""
    import_torchvision()  # its compiled part may not match this torch, and Trainer imports it
    from transformers import Trainer, TrainerCallback, TrainingArguments

    stamps = _Stamps()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = perceptron()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (self.layers(x).mean(1, keepdim=True) - labels).square().mean()}

    class Stamping(TrainerCallback):
        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            stamps()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            max_steps=steps,
            dataloader_num_workers=0 if sick else 4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
        )
        Trainer(model=Model(), args=arguments, train_dataset=_Labelled(steps), callbacks=[Stamping()]).train()
    return stamps.seconds()


def lightning_trainer(sick: bool, steps: int) -> list[float]:
    """The Lightning Trainer. The fix is `num_workers`."""
    import_torchvision()
    import lightning

    stamps = _Stamps()

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = perceptron()

        def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.layers(batch["x"]).square().mean()

        def on_train_batch_end(self, *arguments: Any) -> None:
            stamps()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    more: dict[str, Any] = {} if sick else {"num_workers": 4, "persistent_workers": True}
    loader = torch.utils.data.DataLoader(_Labelled(steps), batch_size=32, **more)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir=folder
        )
        trainer.fit(Model(), loader)
    return stamps.seconds()


def keras_fit(sick: bool, steps: int) -> list[float]:
    """Keras `fit` on a custom data set. The fix is `workers`."""
    import keras
    import numpy as np

    stamps = _Stamps()

    class Data(keras.utils.PyDataset):
        def __len__(self) -> int:
            return steps

        def __getitem__(self, place: int) -> tuple[Any, Any]:
            time.sleep(0.02)
            return np.ones((32, 256), "float32"), np.zeros((32, 1), "float32")

    layers = [keras.layers.Dense(512, activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    data = Data(workers=1) if sick else Data(workers=4, use_multiprocessing=False, max_queue_size=16)
    model.fit(data, epochs=1, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=stamps)])
    return stamps.seconds()


_LOADER = ("single_process_loader", "input_starved")
SCRIPTS = (
    Script(name="zero_workers", expected=_LOADER, fix="`num_workers=4` instead of 0"),
    Script(name="slow_loader", expected=_LOADER, fix="samples prepared in advance instead of taking 0.6 ms each"),
    Script(name="one_worker", expected=("input_starved",), fix="`num_workers=6` instead of 1"),
    Script(name="item_in_the_loop", expected=("host_sync",), fix="one sum instead of 4,000 `.item()` calls"),
    Script(name="sample_by_sample", expected=("launch_bound",), fix="one batch instead of eight pieces", steps=120),
    Script(name="optimizer_by_parameter", expected=("unfused_optimizer",), fix="`fused=True` in Adam", steps=120),
    Script(name="logging_every_step", expected=("host_work",), fix="weights no longer logged"),
    Script(name="saving_checkpoints", expected=("host_work",), fix="no checkpoint after every step"),
    Script(name="hf_trainer", expected=_LOADER, fix="`dataloader_num_workers=4`", run=hf_trainer),
    Script(name="lightning", expected=_LOADER, fix="`num_workers=4`", run=lightning_trainer),
    Script(name="keras", expected=_LOADER, fix="`workers=4`", run=keras_fit),
    Script(name="slow_rank", expected=("straggler", "host_work"), fix="no pause on the second rank", ranks=2),
    Script(name="healthy", expected=(), fix=""),
)


def main() -> None:
    """Run one script and print the seconds of a steady step."""
    name, state = sys.argv[1:3]
    script = next(script for script in SCRIPTS if script.name == name)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps = script.steps
    seconds = (script.run(state == "sick", steps) if script.run else _loop(name, state == "sick", steps))[WARM_UP:]
    low, _, high = quantiles(seconds, n=4)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"seconds {mean(one for one in seconds if one <= high) if high > 0 else low!r}", flush=True)


if __name__ == "__main__":
    main()
