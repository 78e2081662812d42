"""The user's own code: the size asked for is the size run, its faults are told with their line, nothing asked is dropped."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="user code is captured through PyTorch")

import gpuwise
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.workload.capture.process import capture
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings, Workload

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_captures")]

MODELS = """
import subprocess
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

class Loops(Plain):
    def forward(self, x):
        for _ in range(max(1, x.shape[0] // 16)):
            x = self.layer(x)
        return x

class Branches(Plain):
    def forward(self, x):
        return self.layer(self.layer(x)) if x.shape[0] >= 32 else self.layer(x)

class Normed(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm(self.layer(x))

class Typo(Plain):
    def forward(self, x):
        return self.laier(x)

class Unknown(Plain):
    def forward(self, x):
        return self.layer(y)

class Recursive(Plain):
    def forward(self, x):
        return self.forward(x)

class Silent(Plain):
    def forward(self, x):
        self.layer(x)

class OnMeta(nn.Module):
    def __init__(self):
        super().__init__()
        with torch.device("meta"):
            self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

class Short(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(100, 8), nn.Parameter(torch.zeros(64, 8))

    def forward(self, tokens):
        return self.table(tokens) + self.places[:tokens.shape[1]]

class Shouts(Plain):
    def forward(self, x):
        raise RuntimeError("\\x1b[2Jcleared \\udcff")

class Dumb(Exception):
    def __str__(self):
        raise ValueError

class Mute(Plain):
    def forward(self, x):
        raise Dumb

class Haunted(Plain):
    def __init__(self):
        super().__init__()
        quiet = subprocess.DEVNULL
        subprocess.Popen(["sleep", "987.25"], env={}, start_new_session=True, stdout=quiet, stderr=quiet)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)))

    def forward(self, x):
        return self.blocks(x)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


def captured(model: str, batch: int | None = None, **settings: object) -> Workload:
    return capture(Request(model=model, batch=batch, settings=Settings(**settings)), timeout_s=90)  # type: ignore[arg-type]


def failure(model: str, **options: object) -> str:
    """What `gpuwise capture` says to this, which it must refuse."""
    with pytest.raises(GpuwiseError) as caught:
        gpuwise.capture(model=model, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    return str(caught.value)


# ---------------------------------------------------------------- the size asked for is run


@pytest.mark.parametrize(("name", "products"), [("Loops", 4), ("Branches", 2)])
def test_code_that_depends_on_the_batch_is_kept_at_the_one_asked_for(file: Path, name: str, products: int) -> None:
    workload = captured(f"{file}:{name}", 64, mode="infer")
    assert (workload.symbols, workload.batch) == ((), 64)
    assert evaluate.totals(workload).forward_flops == products * 2 * 64 * 8 * 8
    assert any("valid only at the captured size" in note for note in workload.notes)


def test_other_code_stays_symbolic_also_at_a_batch_of_one(file: Path) -> None:
    for batch in (1, 64):
        workload = captured(f"{file}:Plain", batch, mode="infer")
        assert (workload.symbols, workload.batch) == (("batch",), batch)


def test_a_batch_that_pytorch_refuses_is_refused(file: Path) -> None:
    assert "Expected more than 1 value per channel" in failure(f"{file}:Normed", batch=1)
    assert captured(f"{file}:Normed", 1, mode="infer").batch == 1


def test_a_size_computed_from_a_file_of_user_code_is_said(file: Path, tmp_path: Path) -> None:
    gpuwise.capture(model=f"{file}:Loops", batch=8, mode="infer", output=tmp_path / "w.json")
    again = gpuwise.capture(model=str(tmp_path / "w.json"), batch=256).workload
    assert any("batch 256 was derived from the capture" in note for note in again.notes)


# ---------------------------------------------------------------- nothing asked is dropped


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": 7}, "--image 7 was given"),
        ({"phase": "decode"}, "has no phase 'decode'"),
        ({"input": ["y=batch,8"]}, "unknown input y"),
        ({"input": ["x=batch,8", "x=batch,8"]}, "'x' was given 2 times"),
        ({"arguments": ["--epochs", "1"]}, "takes no arguments"),
        ({"mode": "infer", "accumulate": 4}, "--accumulate has no effect on inference"),
        ({"mode": "infer", "checkpoint": True}, "--checkpoint has no effect on inference"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(file: Path, options: dict[str, object], says: str) -> None:
    assert says in failure(f"{file}:Plain", **options)


def test_checkpointing_that_found_nothing_is_said(file: Path) -> None:
    says = [
        any("--checkpoint has no effect" in note for note in captured(f"{file}:{name}", checkpoint=True).notes)
        for name in ("Plain", "Deep")
    ]
    assert says == [True, False]


# ---------------------------------------------------------------- faults of the model are told with their line


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("Typo", "self.laier(x)", "AttributeError: 'Typo' object has no attribute 'laier'"),
        ("Unknown", "self.layer(y)", "NameError: name 'y' is not defined"),
        ("Recursive", "self.forward(x)", "RecursionError"),
        ("Shouts", "raise RuntimeError", r"\x1b[2Jcleared \udcff"),
        ("Mute", "raise Dumb", "Dumb"),
    ],
)
def test_a_fault_of_the_model_is_not_one_of_its_inputs(file: Path, name: str, code: str, says: str) -> None:
    line = next(number for number, text in enumerate(MODELS.splitlines(), 1) if code in text)
    text = failure(f"{file}:{name}")
    assert f"at models.py line {line}" in text
    assert says in text
    assert all(part.isprintable() for part in text.splitlines())


def test_a_model_that_returns_nothing(file: Path) -> None:
    assert "the forward method of Silent returns None" in failure(f"{file}:Silent")


def test_a_sequence_that_is_too_long_names_the_line_and_the_dtype(file: Path) -> None:
    text = failure(f"{file}:Short", seq=600)
    assert "at models.py line" in text
    assert "--input tokens=batch,seq:int64" in text


def test_parameters_on_the_meta_device(file: Path) -> None:
    assert captured(f"{file}:OnMeta").parameters == 72


@pytest.mark.afresh
def test_a_limit_below_what_a_framework_needs_is_named(file: Path) -> None:
    assert "--memory-limit" in failure(f"{file}:Plain", memory_limit="100MB")


# ---------------------------------------------------------------- what runs, and what stays


@pytest.mark.afresh
def test_nothing_in_the_current_folder_is_imported_for_a_named_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("msgspec", "torch", "timm", "transformers"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GpuwiseError):
        capture(Request(model="hf:no-such-model"), timeout_s=90)
    assert not (tmp_path / "executed").exists()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
@pytest.mark.afresh
def test_what_is_installed_goes_before_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tomllib.py").write_text("open('executed', 'w').close()", encoding="utf-8")
    (tmp_path / "mine.py").write_text("import tomllib, torch\ndef net(): return torch.nn.Linear(8, 8)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert captured("mine:net", mode="infer").parameters == 72
    assert not (tmp_path / "executed").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.afresh
def test_a_process_that_hides_is_ended(file: Path) -> None:
    captured(f"{file}:Haunted", mode="infer")
    time.sleep(0.2)
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in running if line.startswith(b"sleep\x00987.25")]


def test_a_bad_place_to_write_is_told_before_the_capture(file: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(BadValue, match="supported workload file extension"):
        gpuwise.capture(model=f"{file}:Plain", output=tmp_path / "w.txt")
    assert time.monotonic() - start < 1
