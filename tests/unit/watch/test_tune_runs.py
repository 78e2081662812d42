"""Runs on this machine's CPU for real: models and scripts that work, crash, fill the memory or never end. Nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwise.core.errors import GpuwiseError
from gpuwise.live.tune.models import facts_of, run_model
from gpuwise.live.tune.scripts import Script, run_script
from gpuwise.live.tune.types import BASELINE, Change, DeviceFacts, Order
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
MARK = "TEST_OF_TUNE"
MODELS = """
import os, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(50, 16), nn.Linear(16, 50)
    def forward(self, tokens):
        return self.out(self.table(tokens))

class Greedy(Net):
    def forward(self, tokens):
        self.kept = torch.ones(10**12)
        return super().forward(tokens)

class Endless(Net):
    def forward(self, tokens):
        open("reached", "w").close()
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        time.sleep(600)

class Dying(Net):
    def forward(self, tokens):
        os.abort()

class Wrong(Net):
    def forward(self, tokens):
        raise ValueError("never")

def loss(scores, target):
    return nn.functional.cross_entropy(scores[:, 0], target)

def counted():
    return Net(), (torch.randint(50, (4, 8)), torch.randint(50, (4,))), loss
"""
TRAINING = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, place):
        time.sleep(0.002)
        return torch.full((8,), float(place))

if __name__ == "__main__":
    if "--fail" in sys.argv: sys.exit("no such data")
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad(); model(batch).float().square().mean().backward(); optimizer.step()
"""


@pytest.fixture(scope="module")
def facts() -> DeviceFacts:
    return facts_of("cpu")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(MARK, str(tmp_path))
    return tmp_path


def order(model: str, **settings: Any) -> Order:
    request = Request(model=model, batch=4, seq=8, settings=Settings(**{"optimizer": "adamw", **settings}))
    return Order(request=request, device="cpu", seconds=0.2)


def ours(folder: Path) -> list[int]:
    """Processes that were started from a test in this folder and still run, zombies aside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"{MARK}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_the_device_is_seen_and_one_that_is_not_there_refused(facts: DeviceFacts) -> None:
    assert facts.device == "cpu"
    assert facts.memory_bytes > 0
    assert "amp-bf16" in facts.precisions
    with pytest.raises(GpuwiseError, match="torch cannot find cuda:7 on this machine"):
        facts_of("cuda:7")


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("models.py:Net", {"precision": "amp-bf16", "implementation": "fused"}),
        ("models.py:counted", {"implementation": "for-loop"}),
        ("models.py:Net", {"mode": "infer", "optimizer": "none"}),
    ],
)
def test_a_model_is_timed(here: Path, facts: DeviceFacts, model: str, settings: dict[str, str]) -> None:
    trial = run_model(order(model, **settings), facts, timeout_s=100, cache=here)
    assert trial.fault == ""
    assert trial.batch == 4
    assert trial.runs >= 5
    assert 0 < trial.step_s < 10
    assert trial.samples_per_s == pytest.approx(4 / trial.step_s)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("Greedy", "memory", "memory at batch 4"),
        ("Dying", "error", "signal 6"),
        ("Endless", "timeout", "no measurement within 24 s"),
    ],
)
def test_a_run_that_goes_wrong_is_told_and_leaves_nothing(
    here: Path, facts: DeviceFacts, name: str, kind: str, words: str
) -> None:
    trial = run_model(order(f"models.py:{name}"), facts, timeout_s=24 if kind == "timeout" else 100, cache=here)
    assert Path("reached").exists() == (kind == "timeout")  # it was the model that took too long, not the start
    assert (trial.kind, trial.step_s) == (kind, 0.0)
    assert words in trial.fault
    assert ours(here) == []


def test_a_model_that_runs_with_no_inputs_is_an_error_with_a_hint(here: Path, facts: DeviceFacts) -> None:
    with pytest.raises(GpuwiseError, match="does not run with any of the inputs guessed") as refused:
        run_model(order("models.py:Wrong"), facts, timeout_s=100, cache=here)
    assert "--input" in refused.value.hint


def test_a_script_is_run_for_some_steps_and_its_settings_are_changed_from_outside(here: Path) -> None:
    script = Script(path=Path("train.py"), flags={})
    plain = run_script(script, BASELINE, seconds=1.0, timeout_s=100)
    assert (plain.fault, plain.batch, plain.workers) == ("", 4, 0)
    assert plain.wait_fraction > 0.3
    changes = (Change("workers", "2"), Change("batch", "8"), Change("optimizer", "foreach"), Change("precision", "amp-bf16"))
    changed = run_script(script, changes, seconds=1.0, timeout_s=100)
    assert (changed.fault, changed.batch, changed.workers) == ("", 8, 2)
    assert ours(here) == []


def test_a_script_that_fails_or_takes_no_setting_is_told(here: Path) -> None:
    failing = run_script(Script(path=Path("train.py"), arguments=("--fail",), flags={}), BASELINE, seconds=1.0, timeout_s=100)
    assert failing.fault == "the script exited with code 1; its last output: no such data"
    Path("idle.py").write_text("import time; time.sleep(600)")
    idle = run_script(Script(path=Path("idle.py"), flags={}), BASELINE, seconds=1.0, timeout_s=3)
    assert (idle.kind, idle.fault) == ("timeout", "no steady steps within 3 s")
    Path("short.py").write_text("print('done')")
    short = run_script(Script(path=Path("short.py"), flags={}), (Change("workers", "2"),), seconds=1.0, timeout_s=60)
    assert short.fault == "these settings have no effect on the script: workers"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_an_interrupted_tune(here: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "gpuwise", "tune", "train.py", "--try", "workers", "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (below := [pid for pid in ours(here) if pid != process.pid and b"train.py" in _command(pid)]):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert below
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    end = time.monotonic() + 15
    while ours(here) and time.monotonic() < end:
        time.sleep(0.2)
    assert ours(here) == []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_tune_answers_in_json(here: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuwise", "tune", "models.py:Net", "--batch", "4", "--seq", "8", "--device", "cpu"]
    command += ["--try", "optimizer,channels-last,workers", "--seconds", "10", "--json"]
    variables = {**os.environ, "GPUWISE_DATA": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {(row["setting"], row["value"]) for row in answer["tried"]} == {("optimizer", "foreach"), ("optimizer", "fused")}
    assert {row["name"] for row in answer["pruned"]} == {"channels-last", "workers"}
    assert answer["start"]["step_s"] > 0
    assert answer["start"]["batch"] == 4
    for row in answer["tried"]:
        once = row["gain_low"] is None and row["gain_high"] is None  # one round has no range
        assert row["fault"] or once or row["gain_low"] <= row["gain"] <= row["gain_high"]
    assert msgspec.json.decode(done.stdout.encode())["device"] == "cpu"
