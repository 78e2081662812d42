"""Callbacks in the real frameworks, on tiny data. A framework that is not installed is skipped with a message."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuwise.core.errors import MissingExtra
from gpuwise.integrations import figures, huggingface, keras, lightning
from gpuwise.integrations import torch as loops
from gpuwise.questions.watch.types import WatchAnswer
from gpuwise.workload.capture.torch.torchvision import import_torchvision

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def needs(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


class Slow(torch.utils.data.Dataset):  # type: ignore[name-defined, misc]
    """Pairs that take a while."""

    def __init__(self, count: int = 120, wait_s: float = 0.004) -> None:
        self._count, self._wait_s = count, wait_s

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Any:
        time.sleep(self._wait_s)
        return {"x": torch.ones(8), "labels": torch.ones(1)}


def check(answer: WatchAnswer | None, *, steps: int, batch: int | None, workers: int | None) -> None:
    assert answer is not None
    assert answer.pace is not None
    assert (answer.pace.count, answer.pace.batch, answer.pace.workers) == (steps - 1, batch, workers)
    assert answer.findings[0].code == "input_starved"
    assert answer.pace.wait_fraction > 0.2


def scalars(folder: Path) -> set[str]:
    """What TensorBoard would show."""
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: set[str] = set()
    for file in folder.rglob("events.out.tfevents.*"):
        events = EventAccumulator(str(file))
        events.Reload()
        found |= set(events.Tags()["scalars"])
    return found


FIGURES = {"gpuwise/step_s", "gpuwise/input_wait_fraction"}
BOTH = pytest.mark.parametrize("asked", [False, True], ids=["by itself", "asked for"])


@BOTH
def test_a_loop_of_torch(asked: bool) -> None:
    model = torch.nn.Linear(8, 1)
    update = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched = loops.loop(torch.utils.data.DataLoader(Slow(), batch_size=4), quiet=True, profile=not asked)
    for place, batch in enumerate(watched):
        if asked and place == 15:
            watched.record()
        update.zero_grad()
        model(batch["x"]).mean().backward()
        update.step()
    check(watched.answer, steps=30, batch=4, workers=0)
    assert watched.answer is not None
    assert watched.answer.window is not None


def test_a_loop_of_torch_tells_the_writer_it_is_given(tmp_path: Path) -> None:
    needs("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for _ in loops.loop(torch.utils.data.DataLoader(Slow(40)), quiet=True, profile=False, writer=writer):
            pass
    assert scalars(tmp_path) >= FIGURES


QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def lightning_net(training: Any = lambda place: None, validates_s: float = 0.0) -> tuple[Any, Any]:
    """A small module, and the framework."""
    with suppress(MissingExtra):
        import_torchvision()  # torchmetrics imports it, even where its operators do not match torch
    import lightning as framework

    class Net(framework.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, place: int) -> Any:
            training(place)
            return self.layer(batch["x"]).mean()

        def validation_step(self, batch: Any, place: int) -> None:
            time.sleep(validates_s)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    return Net(), framework


def train_lightning(watched: Any, logger: Any, asked: bool = False) -> None:
    net, framework = lightning_net(lambda place: watched.watch.record() if asked and place == 15 else None)
    trainer = framework.Trainer(max_epochs=2, callbacks=[watched], logger=logger, enable_checkpointing=False, **QUIET)
    trainer.fit(net, torch.utils.data.DataLoader(Slow(), batch_size=4))


@BOTH
def test_a_training_of_lightning(tmp_path: Path, asked: bool) -> None:
    needs("lightning")
    needs("tensorboard")
    with suppress(MissingExtra):
        import_torchvision()
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    watched = lightning.callback(quiet=True, profile=not asked)
    train_lightning(watched, [CSVLogger(tmp_path), TensorBoardLogger(tmp_path)], asked)
    check(watched.answer, steps=60, batch=4, workers=0)
    assert watched.answer.window is not None
    assert "gpuwise/step_s" in (next(tmp_path.rglob("metrics.csv"))).read_text()
    assert scalars(tmp_path) >= FIGURES


def test_a_training_of_lightning_without_a_logger_has_none() -> None:
    needs("lightning")
    with suppress(MissingExtra):
        import_torchvision()
    watched = lightning.callback(quiet=True, profile=False)
    train_lightning(watched, False)
    check(watched.answer, steps=60, batch=4, workers=0)


def trainer_of(folder: Path, watched: Any = None, data: Any = None, **options: Any) -> Any:
    with suppress(MissingExtra):
        import_torchvision()  # as above
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x: Any, labels: Any = None) -> Any:
            return {"loss": (self.layer(x) - labels).square().mean()}

    asked = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=4,
        use_cpu=True,
        disable_tqdm=True,
        **({"save_strategy": "no"} | options),
    )
    return Trainer(
        model=Net(), args=asked, train_dataset=data or Slow(), eval_dataset=Slow(4, 0.1), callbacks=[watched] if watched else None
    )


def test_a_trainer_of_hugging_face(tmp_path: Path) -> None:
    needs("transformers")
    needs("accelerate")
    watched = huggingface.callback(quiet=True)
    trainer_of(tmp_path, watched, report_to=[]).train()
    check(watched.answer, steps=30, batch=4, workers=0)
    assert watched.answer.window is not None


def test_a_trainer_that_is_attached_to_logs_the_figures_where_it_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("transformers")
    needs("accelerate")
    needs("tensorboard")
    from transformers import TrainerCallback

    class Asks(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 15:
                watched.watch.record()

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    trainer = trainer_of(tmp_path, Asks(), report_to=["tensorboard"])
    watched = huggingface.attach(trainer, quiet=True, profile=False)
    trainer.train()
    check(watched.answer, steps=30, batch=4, workers=0)
    assert watched.answer.window is not None
    assert set(trainer.state.log_history[-1]) >= FIGURES
    assert {name.removeprefix("train/") for name in scalars(tmp_path)} >= FIGURES
    trainer.train()
    assert sum("gpuwise/step_s" in entry for entry in trainer.state.log_history) == 1, "a second training is a new one"


def fit_keras(watched: Any, *others: Any, ask_at: int = -1) -> Any:
    import keras as framework
    import numpy as np

    class Data(framework.utils.PyDataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, place: int) -> Any:
            time.sleep(0.03)
            return np.ones((4, 8), "float32"), np.ones((4, 1), "float32")

    class Asks(framework.callbacks.Callback):  # type: ignore[name-defined, misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == ask_at:
                watched.watch.record()

    model = framework.Sequential([framework.Input((8,)), framework.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    return model.fit(Data(), epochs=2, verbose=0, callbacks=[watched, Asks(), *others])


def check_fed(answer: WatchAnswer | None, *, steps: int) -> None:
    """The loader is fast; only evaluating and saving are slow."""
    assert answer is not None
    assert answer.pace is not None
    assert answer.pace.count == steps - 1
    assert answer.pace.wait_fraction < 0.4
    assert answer.pace.mean_s < 0.2, "steps that evaluate are left out"
    assert answer.pace.apart_fraction > 0.3, "and said"


def test_evaluating_and_saving_in_lightning_is_no_waiting(tmp_path: Path) -> None:
    needs("lightning")
    net, framework = lightning_net(lambda place: time.sleep(0.04), validates_s=0.2)
    watched = lightning.callback(quiet=True, profile=False)
    saves = framework.pytorch.callbacks.ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=7)
    trainer = framework.Trainer(
        max_epochs=1, callbacks=[watched, saves], logger=False, val_check_interval=5, num_sanity_val_steps=0, **QUIET
    )
    trainer.fit(net, torch.utils.data.DataLoader(Slow(120, 0.0), batch_size=4), torch.utils.data.DataLoader(Slow(2, 0.0)))
    check_fed(watched.answer, steps=30)


def test_evaluating_and_saving_in_hugging_face_is_no_waiting(tmp_path: Path) -> None:
    needs("transformers")
    needs("accelerate")
    watched = huggingface.callback(quiet=True, profile=False)
    every = {"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 10, "logging_steps": 3}
    trainer = trainer_of(tmp_path, watched, data=Slow(120, 0.0), report_to=[], **every)
    trainer.model.register_forward_pre_hook(lambda module, given: time.sleep(0.04))
    trainer.train()
    check_fed(watched.answer, steps=30)


def test_validating_in_keras_is_no_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    needs("keras")
    import keras as framework
    import numpy as np

    from gpuwise.live.hook import gpuwise_steps

    kinds: list[str] = []

    class Looks(framework.callbacks.Callback):  # type: ignore[name-defined, misc]
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            marks = watched.watch._session.read()
            kinds.append(chr(next(iter(marks.values()))[-gpuwise_steps.RECORD.size]))
            kinds.append(chr(next(tmp_path.glob("*.steps")).read_bytes()[-gpuwise_steps.RECORD.size]))

    model = framework.Sequential([framework.Input((8,)), framework.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    x, y = np.ones((40, 8), "float32"), np.ones((40, 1), "float32")
    watched = keras.callback(quiet=True, profile=False)
    off = gpuwise_steps.hook_keras(framework, gpuwise_steps.Marks(tmp_path))
    try:
        model.fit(x, y, batch_size=4, validation_data=(x, y), verbose=0, callbacks=[watched, Looks()])
    finally:
        off()
    assert set(kinds) == {"D"}, "no wait is open, so nothing can be said to hang"


@BOTH
def test_a_fit_of_keras(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    needs("keras")
    watched = keras.callback(quiet=True, profile=not asked)
    history = fit_keras(watched, ask_at=10 if asked else -1)
    check(watched.answer, steps=40, batch=None, workers=None)
    assert watched.answer.window is not None
    assert not set(history.history) & FIGURES, "nothing is logged unless asked for"


def test_a_fit_of_keras_logs_to_the_callbacks_behind_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    needs("keras")
    import keras as framework

    file = tmp_path / "log.csv"
    history = fit_keras(keras.callback(quiet=True, profile=False, log=True), framework.callbacks.CSVLogger(file))
    assert set(history.history) >= FIGURES
    assert len(history.history["gpuwise/step_s"]) == 2
    assert "gpuwise/step_s" in file.read_text()


@pytest.mark.parametrize(
    ("module", "packages"), [(lightning, ["lightning.pytorch", "pytorch_lightning"]), (huggingface, ["transformers"])]
)
def test_a_framework_that_is_missing_is_named(module: Any, packages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        module.callback()
    assert "pip install" in caught.value.hint


def test_an_open_run_of_wandb_is_told_and_none_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = loops.loop(range(10), quiet=True, profile=False)
    for _ in watched:
        time.sleep(0.002)
    told: dict[str, float] = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None))
    figures.tell_wandb(watched.answer)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=SimpleNamespace(summary=told)))
    figures.tell_wandb(watched.answer)
    assert set(told) >= {"gpuwise/step_s", "gpuwise/input_wait_fraction"}


def test_loggers_that_the_program_does_not_use_are_never_imported() -> None:
    code = (
        "import sys, torch\n"
        "from gpuwise.integrations.torch import loop\n"
        "for _ in loop(range(20), quiet=True, profile=False): pass\n"
        "print([name for name in ('wandb', 'tensorboard', 'tensorflow', 'lightning', 'keras') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_loop_tells_an_open_run_of_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, float] = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=SimpleNamespace(summary=told)))
    for _ in loops.loop(torch.utils.data.DataLoader(Slow(20)), quiet=True, profile=False):
        pass
    assert set(told) >= FIGURES
