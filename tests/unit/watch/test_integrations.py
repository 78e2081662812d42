"""Callbacks in the real frameworks, on tiny data. A framework that is not installed is skipped, and said."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from gpuwise import api
from gpuwise.errors import MissingExtra
from gpuwise.integrations import figures, huggingface, keras, lightning
from gpuwise.integrations import torch as loops

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


def check(answer: api.WatchAnswer | None, *, steps: int, batch: int | None, workers: int | None) -> None:
    assert answer is not None
    assert answer.pace is not None
    assert (answer.pace.count, answer.pace.batch, answer.pace.workers) == (steps - 1, batch, workers)
    assert answer.findings[0].code == "input_starved"
    assert answer.pace.wait_fraction > 0.2


def test_a_loop_of_torch() -> None:
    model = torch.nn.Linear(8, 1)
    update = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched = loops.loop(torch.utils.data.DataLoader(Slow(), batch_size=4), quiet=True)
    for batch in watched:
        update.zero_grad()
        model(batch["x"]).mean().backward()
        update.step()
    check(watched.answer, steps=30, batch=4, workers=0)
    assert watched.answer is not None
    assert watched.answer.window is not None


def test_a_training_of_lightning(tmp_path: Any) -> None:
    needs("lightning")
    import lightning as framework

    class Net(framework.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, place: int) -> Any:
            return self.layer(batch["x"]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    watched = lightning.callback(quiet=True)
    logger = framework.pytorch.loggers.CSVLogger(tmp_path)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False, "accelerator": "cpu"}
    trainer = framework.Trainer(max_epochs=2, callbacks=[watched], logger=logger, **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(Slow(), batch_size=4))
    check(watched.answer, steps=60, batch=4, workers=0)
    assert watched.answer.window is not None
    assert "gpuwise/step_s" in (next(tmp_path.rglob("metrics.csv"))).read_text()


def test_a_trainer_of_hugging_face(tmp_path: Any) -> None:
    needs("transformers")
    needs("accelerate")
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x: Any, labels: Any = None) -> Any:
            return {"loss": (self.layer(x) - labels).square().mean()}

    watched = huggingface.callback(quiet=True)
    asked = TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=1,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model=Net(), args=asked, train_dataset=Slow(), callbacks=[watched]).train()
    check(watched.answer, steps=30, batch=4, workers=0)
    assert watched.answer.window is not None


def test_a_fit_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    needs("keras")
    import keras as framework
    import numpy as np

    class Data(framework.utils.PyDataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, place: int) -> Any:
            time.sleep(0.03)
            return np.ones((4, 8), "float32"), np.ones((4, 1), "float32")

    model = framework.Sequential([framework.Input((8,)), framework.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    watched = keras.callback(quiet=True)
    model.fit(Data(), epochs=2, verbose=0, callbacks=[watched])
    check(watched.answer, steps=40, batch=None, workers=None)
    assert watched.answer.window is not None


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
