"""Checks that each package's tests catch mistakes in it, by introducing one fault at a time and running them: `make mutants`.

    python tools/mutants.py
    python tools/mutants.py --package step
    python tools/mutants.py --only equal_lanes_wait_more

`tools/mutants.toml` lists the faults: flipped signs, wrong constants, off-by-one boundaries, dropped terms. They are introduced
in a copy of the source, never in the source itself. A fault that only other packages' tests would catch counts as survived,
because people who change a package run its own tests first. Exits with 1 if fewer than nine in ten are caught.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Fault", "Stale", "Verdict", "folders_of", "load_faults", "main", "near_tests", "path_of", "planted"]

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tools" / "mutants.toml"
LEAST_CAUGHT = 0.9
_WITH_DATA = ("hardware", "money")  # packages whose tables have separate tests
_NEAR = 4  # test files
_LONGEST_S = 600.0  # a fault that makes the tests hang is caught
_PASSED, _FAILED, _NOT_COLLECTED, _NONE_CHOSEN = 0, 1, 2, 5  # exit codes of pytest


class Stale(Exception):
    """A fault in the list can no longer be introduced, so the list must be updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, with its location, the old and new text, and the effect on users."""

    name: str
    package: str
    module: str
    find: str
    replace: str
    harm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the package's own tests caught the fault, and how long they took."""

    fault: Fault
    caught: bool
    seconds: float


def load_faults(path: Path = LIST) -> tuple[Fault, ...]:
    """Every fault in the list, in order."""
    return tuple(Fault(name=name, **row) for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items())


def path_of(module: str, source: Path) -> Path:
    """The file of a dotted module below a source folder."""
    whole = source.joinpath(*module.split("."))
    return whole / "__init__.py" if whole.is_dir() else whole.with_suffix(".py")


def planted(fault: Fault, source: Path) -> str:
    """The module's text with the fault."""
    path = path_of(fault.module, source)
    if not path.is_file():
        raise Stale(f"{fault.name}: there is no module {fault.module}")
    text = path.read_text(encoding="utf-8")
    count = text.count(fault.find)
    if count != 1:
        raise Stale(f"{fault.name}: {fault.find!r} stands {count} times in {fault.module}, not once")
    return text.replace(fault.find, fault.replace)


def folders_of(package: str) -> list[str]:
    """The folders of a package's own tests."""
    return [f"tests/unit/{package}", *(["tests/data"] if package in _WITH_DATA else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Introduce each fault, run the tests and restore the source, then print the table. Returns 1 if too few faults were
    caught."""
    parser = argparse.ArgumentParser(description="Plant faults and see whether a package's own tests catch them.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this fault alone; may be repeated")
    parser.add_argument("--package", action="append", default=[], metavar="P", help="faults of this package; may be repeated")
    options = parser.parse_args(arguments)
    faults = load_faults()
    for asked, known in ((options.only, {one.name for one in faults}), (options.package, {one.package for one in faults})):
        if unknown := sorted(set(asked) - known):
            parser.error(f"not in the list: {', '.join(unknown)}")
    texts = {
        one.name: planted(one, ROOT / "src") for one in faults
    }  # a stale entry fails, regardless of which ones were requested
    chosen = [
        one
        for one in faults
        if (not options.only or one.name in options.only) and (not options.package or one.package in options.package)
    ]
    if not chosen:
        parser.error("no fault is in both --only and --package")
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        verdicts = _run(chosen, texts, Path(folder))
    print(_table(verdicts))
    return 0 if _share(verdicts) >= LEAST_CAUGHT else 1


def _run(faults: Sequence[Fault], texts: Mapping[str, str], folder: Path) -> list[Verdict]:
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    _check_copy(folder)
    verdicts: list[Verdict] = []
    for fault in faults:
        if fault.package not in {verdict.fault.package for verdict in verdicts}:
            _check_unharmed(fault.package, folder)
        path = path_of(fault.module, source)
        whole = path.read_text(encoding="utf-8")
        try:
            _write(path, texts[fault.name])
            started = time.monotonic()
            caught, by = _judged(fault.package, folder, near_tests(fault))
        finally:
            _write(path, whole)
        verdicts.append(Verdict(fault=fault, caught=caught, seconds=time.monotonic() - started))
        told = f"by {by.rpartition('::')[2]}" if caught else ""
        print(f"{'caught' if caught else 'SURVIVED':8} {verdicts[-1].seconds:5.1f} s  {fault.name} {told}", flush=True)
    return verdicts


def _write(path: Path, text: str) -> None:
    """Write the text and delete the compiled file, because its time stamp has a resolution of a second and a fault may not change
    the size."""
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _check_copy(folder: Path) -> None:
    """Check that the tests would run the copy."""
    where = subprocess.run(
        [sys.executable, "-c", "import gpuwise; print(gpuwise.__file__)"],
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    if not Path(where.stdout.strip()).is_relative_to(folder):
        raise SystemExit(f"the tests would run {where.stdout.strip()}, not the copy in {folder}")


def _check_unharmed(package: str, folder: Path) -> None:
    """Check that the package's tests pass on the copy without a fault. Otherwise, "caught" would mean nothing."""
    started = time.monotonic()
    failed, by = _judged(package, folder)
    if failed:
        raise SystemExit(f"the tests of {package} fail without any fault: {by}")
    print(f"{'passed':8} {time.monotonic() - started:5.1f} s  the tests of {package} without a fault", flush=True)


def near_tests(fault: Fault) -> list[str]:
    """The package's test files that name the fault's module most often. They run first, because they usually catch it in less
    time than the others take to load."""
    stem = fault.module.rpartition(".")[2]
    files = [path for place in folders_of(fault.package) for path in sorted((ROOT / place).rglob("test_*.py"))]
    named = {path: len(re.findall(rf"\b{stem}\b", path.read_text(encoding="utf-8"))) for path in files}
    near = sorted((path for path in files if named[path]), key=lambda path: (stem not in path.stem, -named[path]))
    return [path.relative_to(ROOT).as_posix() for path in near[:_NEAR]]


def _judged(package: str, folder: Path, first: Sequence[str] = ()) -> tuple[bool, str]:
    """Whether a test of the package fails, and the first one that does. The files in `first` are run before all others."""
    for chosen in filter(None, (list(first), folders_of(package))):
        failed, by = _failed(chosen, package, folder)
        if failed:
            return True, by
    return False, ""


def _failed(chosen: Sequence[str], package: str, folder: Path) -> tuple[bool, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    try:
        done = subprocess.run(  # noqa: S603
            [*command, *chosen],
            cwd=ROOT,
            env=_environment(folder),
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"no end within {_LONGEST_S:.0f} s"
    if done.returncode not in (_PASSED, _FAILED, _NOT_COLLECTED, _NONE_CHOSEN):
        raise SystemExit(f"pytest could not run the tests of {package}:\n{(done.stdout + done.stderr)[-2000:]}")
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return done.returncode in (_FAILED, _NOT_COLLECTED), told[0].split(" - ")[0].partition(" ")[2] if told else ""


def _environment(folder: Path) -> dict[str, str]:
    """The environment, with the copy first on the path and without third-party plugins, which take longer to load than most tests
    take to run."""
    return {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }


def _share(verdicts: Sequence[Verdict]) -> float:
    return sum(one.caught for one in verdicts) / max(len(verdicts), 1)


def _table(verdicts: Sequence[Verdict]) -> str:
    """The number of caught faults by package, then every survivor with its effect on users."""
    lines = [f"\n{'package':10} {'faults':>6} {'caught':>6}"]
    for package in dict.fromkeys(one.fault.package for one in verdicts):
        mine = [one for one in verdicts if one.fault.package == package]
        lines.append(f"{package:10} {len(mine):6} {sum(one.caught for one in mine):6}")
    lines.append(f"{'all':10} {len(verdicts):6} {sum(one.caught for one in verdicts):6}  {_share(verdicts):.0%}")
    lines += [f"survived: {one.fault.name} ({one.fault.module}): {one.fault.harm}" for one in verdicts if not one.caught]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
