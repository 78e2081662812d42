"""Difficult environments: terminals without colour, symbols or room, users without a home, disks without space, Windows."""

from __future__ import annotations

import ast
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import pytest

import gpuwise
from gpuwise.core import files as outputs
from gpuwise.core.errors import BadFile
from gpuwise.workload import find
from gpuwise.workload.capture.registry import source_of, split_name
from gpuwise.workload.capture.request import Request
from gpuwise.workload.store import cache

ROOT = Path(__file__).parents[2]
# Modules and names that Windows does not have.
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    "SIGALRM",
    "SIGHUP",
    "SIGKILL",
    "SIGUSR1",
    "fork",
    "getuid",
    "killpg",
    "mkfifo",
    "setitimer",
    "setpriority",
    "setsid",
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    around = kept | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | environment
    return subprocess.run(
        [sys.executable, "-m", "gpuwise", *arguments], capture_output=True, env=around, timeout=120, check=False
    )


PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["predict", "resnet50", "--gpu", "RTX 3090"], 0),
        (["gpus", "T4", "--json"], 0),
        (["gpus", "★ é"], 2),
        (["predict", "--help"], 0),
    ],
)
def test_a_terminal_that_knows_ascii_only_is_answered_in_it(arguments: list[str], code: int) -> None:
    done = run(*arguments, **PLAIN, COLUMNS="20")
    assert done.returncode == code, done.stderr
    assert "--json" not in arguments or json.loads(done.stdout) == json.loads(run(*arguments, PYTHONUTF8="1").stdout)
    assert b"Traceback" not in done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
@pytest.mark.parametrize(
    ("term", "colour", "shows"), [("xterm", {}, True), ("xterm", {"NO_COLOR": "1"}, False), ("dumb", {}, False)]
)
def test_only_a_terminal_that_shows_bold_gets_it(term: str, colour: dict[str, str], shows: bool) -> None:
    ours, theirs = os.openpty()
    around = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": term} | colour
    with subprocess.Popen([sys.executable, "-m", "gpuwise", "gpus", "RTX 3090", "T4"], stdout=theirs, env=around) as process:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:  # so ends a terminal on Linux
            pass
        os.close(ours)
    assert process.returncode == 0
    assert (b"\x1b[" in said) is shows


def test_words_of_a_file_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[gpu]]\nname = "\\u001b[31mred"\narch = "ada"\n', encoding="utf-8")
    done = run("gpus", "--catalog", str(tmp_path / "mine.toml"))
    assert done.returncode == 2
    assert b"\\x1b[31mred" in done.stderr
    assert b"\x1b" not in done.stderr


# ---------------------------------------------------------------- disks


def test_a_user_without_a_home_has_no_cache_and_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("GPUWISE_CACHE", "GPUWISE_DATA", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    from gpuwise.live.bench import store
    from gpuwise.money.tables import refreshed_offers

    assert cache.find(Request(model="timm:resnet50")) is None
    assert refreshed_offers() == ()
    with pytest.raises(BadFile, match="has not been measured"):
        store.latest()


def test_a_cache_that_cannot_be_written_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path / "file" / "cache"))
    request = Request(model="resnet50")
    workload = find.workload(request)
    monkeypatch.setattr(cache, "_path", lambda asked: cache.folder() / "captures" / "x.json.gz")
    cache.keep(request, workload)
    assert cache.find(request) is None


@pytest.mark.parametrize(
    ("fault", "hint"), [(errno.ENOSPC, "space"), (errno.EROFS, "permissions"), (errno.EACCES, "permissions")]
)
def test_a_disk_that_takes_nothing_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, hint: str
) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"before")

    def full(place: Path, data: bytes) -> int:
        with place.open("wb") as file:
            file.write(data[:3])
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BadFile, match="cannot be written") as caught:
        outputs.write_whole(path, b"after the change")
    assert os.strerror(fault) in caught.value.message
    assert hint in caught.value.hint
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for path in (tmp_path / "file" / "report.html", tmp_path / "no" / "report.html", tmp_path):
        with pytest.raises(BadFile):
            outputs.check_place(path, "report.html")
    with pytest.raises(BadFile):
        outputs.write_whole(tmp_path / "file" / "report.html", b"x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for, and /dev/zero would fill the memory."""
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path("/dev/zero")):
        asked: tuple[Callable[[Path], object], ...] = (
            lambda path: gpuwise.gpus(catalog=path),
            lambda path: gpuwise.cost(gpu="RTX 3090", prices=path),
            lambda path: gpuwise.validate(path),
            lambda path: gpuwise.sweep(path, gpus=["T4"], batches="1", out=tmp_path / "out.csv"),
        )
        for ask in asked:
            with pytest.raises(BadFile, match="is not a regular file") as refused:
                ask(path)
            assert refused.value.hint


# ---------------------------------------------------------------- Windows


@pytest.mark.parametrize(
    ("model", "where", "name"),
    [
        (r"C:\x\net.py:Net", r"C:\x\net.py", "Net"),
        (r"C:\x y\net.py:Outer.Inner", r"C:\x y\net.py", "Outer.Inner"),
        (r"\\server\share\net.py:Net", r"\\server\share\net.py", "Net"),
        ("d:/models/net.py:build", "d:/models/net.py", "build"),
        (r"C:\x\net.py", r"C:\x\net.py", ""),
        (r"..\net.py:Net", r"..\net.py", "Net"),
        ("package.module:function", "package.module", "function"),
        ("net.py:", "net.py", ""),
    ],
)
def test_the_colon_of_a_drive_separates_nothing(model: str, where: str, name: str) -> None:
    assert split_name(model) == (where, name)
    if where.endswith(".py"):
        assert PureWindowsPath(where).suffix == ".py"


@pytest.mark.parametrize(
    ("model", "source"),
    [
        (r"C:\x\net.py:Net", "user_code"),
        (r"C:\x\train.py", "script"),
        (r"C:\x\config.json", "huggingface"),
        ("timm:resnet50", "timm"),
        (r"hf:org\name", "huggingface"),
    ],
)
def test_windows_paths_belong_to_the_same_sources(model: str, source: str) -> None:
    assert source_of(model) == source


def test_nothing_that_windows_lacks_is_imported_or_named_unguarded() -> None:
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name}: import {name}" for name in names if name in POSIX_MODULES]
        for outer in ast.walk(tree):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                words = ast.dump(outer)
                guarded = "hasattr" in words or "platform" in words or "'/proc'" in words or "getattr" in words
                used = {node.attr for node in ast.walk(outer) if isinstance(node, ast.Attribute)} & POSIX_NAMES
                found += [f"{path.name}: {outer.name} uses {name}" for name in sorted(used) if not guarded]
    assert found == ["processes.py: _end uses SIGKILL"]  # of processes found in /proc
