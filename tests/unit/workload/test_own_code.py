"""Captures of the user's own code kept on disk: found again without running it, until anything that it read changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from gpuwise.workload import find
from gpuwise.workload.capture.request import Request
from gpuwise.workload.store import cache, own_code
from unit.workload.test_files import tiny

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("quick_captures")

NET = """
import json, os, pathlib
import torch
import widths
with open("ran.txt", "a") as ran:
    ran.write("x")
depth = json.load(open("settings.json"))["depth"]
os.environ.get("CLASSES")
extra = len(list(pathlib.Path("data").iterdir()))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(8, widths.WIDTH) for _ in range(1)])

    def forward(self, x):
        return self.layers(x)
"""
ASKED = Request(model="net.py:Net", inputs=())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that reads a module, a file, a folder and a variable, and leaves a letter whenever it runs."""
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "widths.py").write_text("WIDTH = 4\n", encoding="utf-8")
    (tmp_path / "settings.json").write_text('{"depth": 1}', encoding="utf-8")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLASSES", raising=False)
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    return tmp_path


def _runs(project: Path) -> int:
    return len((project / "ran.txt").read_text(encoding="utf-8"))


def _entry() -> Path:
    (entry,) = (cache.folder() / "captures").iterdir()
    return entry


def test_the_second_question_runs_nothing_and_is_answered_alike(project: Path) -> None:
    first = find.workload(ASKED)
    assert _runs(project) == 1
    begun = time.process_time()
    second = find.workload(ASKED)
    assert time.process_time() - begun < 0.5
    assert _runs(project) == 1
    assert second.ops == first.ops
    assert second.parameters == first.parameters == 8 * 4 + 4


@pytest.mark.parametrize("name", ["net.py", "widths.py", "settings.json"])
def test_a_file_that_changed_is_captured_again(project: Path, name: str) -> None:
    find.workload(ASKED)
    about = (project / name).stat()
    (project / name).write_text((project / name).read_text(encoding="utf-8").replace("4", "6") + " ", encoding="utf-8")
    os.utime(project / name, ns=(about.st_atime_ns, about.st_mtime_ns))  # the time of change tells nothing
    assert find.workload(ASKED).parameters == (8 * 6 + 6 if name == "widths.py" else 8 * 4 + 4)
    assert _runs(project) == 2
    find.workload(ASKED)
    assert _runs(project) == 2
    assert _entry()  # the old one is gone


def test_a_folder_that_the_code_listed_and_a_variable_that_it_names_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find.workload(ASKED)
    (project / "data" / "new.csv").touch()
    find.workload(ASKED)
    assert _runs(project) == 2
    monkeypatch.setenv("CLASSES", "10")
    find.workload(ASKED)
    assert _runs(project) == 3


def test_another_torch_is_another_question(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find.workload(ASKED)
    assert cache.find(ASKED) is not None
    monkeypatch.setattr(own_code, "version", lambda package: "99.0")
    assert cache.find(ASKED) is None


def test_the_same_words_in_another_folder_are_another_question(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find.workload(ASKED)
    monkeypatch.chdir(project / "data")
    assert cache.find(ASKED) is None


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, msgspec.msgpack.encode([[{}, {}, {}], b"no workload"])])
def test_a_damaged_entry_is_captured_again(project: Path, damage: bytes) -> None:
    find.workload(ASKED)
    _entry().write_bytes(damage)
    assert cache.find(ASKED) is None
    find.workload(ASKED)
    assert cache.find(ASKED) is not None


def test_code_that_reads_thousands_of_files_is_not_kept(project: Path) -> None:
    many = own_code.RestsOn({f"/data/{number}.png": "" for number in range(3000)})
    cache.keep(ASKED, tiny(), many)
    assert cache.find(ASKED) is None
