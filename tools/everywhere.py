"""Checks that answers are the same bytes in difficult environments, regardless of home folder, locale, terminal and Python.

    python tools/everywhere.py --python .venv/bin/python

`make release` runs it in a clean environment for every available Python. `/proc` serves as a folder that nobody can write to, not
even root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["QUESTIONS", "Answers", "differences"]

QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("gpus", "RTX 3090", "--json"),
    ("predict", "resnet50", "--gpu", "RTX 3090", "--json"),
    ("predict", "resnet50", "--gpu", "RTX 3090"),
    ("fit", "bert-base", "--gpu", "RTX 3060"),
    ("compare", "RTX 3090", "RTX 4090", "--json"),
    ("which", "--budget", "800", "--json"),
)
Answers = dict[tuple[str, ...], tuple[int, bytes]]
_KEPT = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR")
_WIDTH = "100"


def differences(python: str, known: Answers) -> Iterator[tuple[str, str]]:
    """The name of each environment and what differs there, or an empty string if nothing does. Fills `known` from the first
    answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for surrounding, variables, place in _surroundings(folder):
            found: Answers = {question: _asked(python, question, variables, place) for question in QUESTIONS}
            if not known:
                known.update(found)
            yield surrounding, _first_difference(found, known)
        shared = _plain(folder) | {"GPUWISE_CACHE": str(folder / "shared")}
        yield "two processes on one cache", _together(python, shared, folder, known)
        yield "40 columns", _narrow(python, _plain(folder) | {"COLUMNS": "40"}, folder)


def _plain(folder: Path) -> dict[str, str]:
    own = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return own | {"HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm", "COLUMNS": _WIDTH}


def _surroundings(folder: Path) -> Iterator[tuple[str, dict[str, str], Path]]:
    """The name, variables and working directory of each environment."""
    plain, sealed = _plain(folder), _sealed(folder)
    yield "plain", plain, folder
    yield "read-only home", plain | {"HOME": str(sealed)}, folder
    yield "read-only working directory", plain, sealed
    yield "no HOME", {name: value for name, value in plain.items() if name != "HOME"}, folder
    yield "LC_ALL=C", plain | {"LC_ALL": "C"}, folder
    yield "TERM=dumb", plain | {"TERM": "dumb"}, folder


def _sealed(folder: Path) -> Path:
    """A folder that cannot be written."""
    if Path("/proc/self").exists():
        return Path("/proc")
    sealed = folder / "sealed"
    sealed.mkdir(exist_ok=True)
    sealed.chmod(0o500)
    return sealed


def _asked(python: str, question: tuple[str, ...], variables: Mapping[str, str], place: Path) -> tuple[int, bytes]:
    command = [python, "-m", "gpuwise", *question]
    done = subprocess.run(command, cwd=place, env=dict(variables), capture_output=True, check=False)  # noqa: S603
    return done.returncode, done.stdout


def _first_difference(found: Answers, known: Answers) -> str:
    for question, (code, said) in found.items():
        if code:
            return f"`gpuwise {' '.join(question)}` exits with {code}"
        if said != known[question][1]:
            lines = zip(said.splitlines(), known[question][1].splitlines(), strict=False)
            other = next((own.decode(errors="replace") for own, usual in lines if own != usual), "another length")
            return f"`gpuwise {' '.join(question)}` answers otherwise: {other.strip()[:120]}"
    return ""


def _together(python: str, variables: Mapping[str, str], folder: Path, known: Answers) -> str:
    """Two processes ask the same question at the same time."""
    for question in QUESTIONS:
        command = [python, "-m", "gpuwise", *question]
        pair = [subprocess.Popen(command, cwd=folder, env=dict(variables), stdout=subprocess.PIPE) for _ in range(2)]  # noqa: S603
        for process in pair:
            said = process.communicate()[0]
            if fault := _first_difference({question: (process.returncode, said)}, known):
                return fault
    return ""


def _narrow(python: str, variables: Mapping[str, str], folder: Path) -> str:
    """Every question is answered on a narrow terminal, with different line breaks."""
    for question in QUESTIONS:
        code, said = _asked(python, question, variables, folder)
        if code or not said:
            return f"`gpuwise {' '.join(question)}` exits with {code}"
    return ""


def main() -> int:
    """Print one line for each environment. Returns 1 if an answer differs."""
    parser = argparse.ArgumentParser(description="Ask the same questions in hard surroundings.")
    parser.add_argument("--python", action="append", default=[], help="a Python that has gpuwise")
    known: Answers = {}
    faults = 0
    for python in parser.parse_args().python or [sys.executable]:
        for surrounding, fault in differences(python, known):
            print(f"{'FAIL' if fault else 'ok'}  {python}: {surrounding}{': ' if fault else ''}{fault}", flush=True)
            faults += bool(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
