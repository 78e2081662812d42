"""Feeds broken inputs to every parser for as long as you like, and keeps those that make one fail.

    python tools/fuzz.py --minutes 10
    python tools/fuzz.py --each 10000                              # that many inputs for every target
    python tools/fuzz.py --minutes 2 --target clusters --target page
    python tools/fuzz.py --minutes 2 --target names --atheris      # guided by coverage; pip install atheris
    python tools/fuzz.py --again build/fuzz/clusters-1f2e3d.bin    # try a kept input again

An answer, or a GpuwiseError with a hint, is correct. Any other exception is a failure, and so is an answer that takes longer than
`--seconds`, contains NaN or infinity, or makes the process use more than `--megabytes` of memory. Each failure is reported once
per location, with the input that was kept. Exits with 1 if there are any. The targets are in `tests/fuzz_targets.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
_EXTENSIONS = 5
__all__ = ["main"]


@dataclass(kw_only=True)
class Found:
    """What was tried and what failed, by target and location."""

    keep: Path
    seconds: float
    asked: dict[str, int] = field(default_factory=dict)
    faults: dict[tuple[str, str], Path] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    megabytes: float = 500.0
    largest: dict[str, float] = field(default_factory=dict)


class TooLarge(Exception):
    """An answer that uses more memory than allowed."""


class TooSlow(BaseException):
    """An answer that takes too long. No `except Exception` catches it."""


def main() -> int:
    """Run the targets, report failures and exit."""
    options = _options()
    sys.path.insert(0, str(ROOT / "tests"))
    sys.path.insert(0, str(ROOT / "src"))
    if options.atheris:
        return _guided(options)
    from fuzz_targets import TARGETS

    _limit_memory(options.gigabytes)
    warnings.simplefilter("ignore")
    found = Found(keep=options.keep, seconds=options.seconds, megabytes=options.megabytes)
    with tempfile.TemporaryDirectory() as name:
        if options.again:
            target = next(one for one in TARGETS if options.again.name.startswith(_label(one.name) + "-"))
            _ask(target, options.again.read_bytes(), Path(name), found)
        else:
            _rounds(_chosen(TARGETS, options.target), Path(name), found, options)
    _tell(found, each=bool(options.each) and not options.again)
    return 1 if found.faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ask every parser with broken inputs.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--each", type=int, help="inputs for every target, instead of minutes")
    parser.add_argument("--target", action="append", default=[], help="one of the targets; all if left out")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--seconds", type=float, default=10.0, help="longest that one answer may take")
    parser.add_argument("--gigabytes", type=float, default=6.0, help="most address space that the process may have")
    parser.add_argument("--megabytes", type=float, default=500.0, help="most memory that the process may have after any answer")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "fuzz", help="folder for inputs that fail")
    parser.add_argument("--again", type=Path, help="a kept input to ask once more")
    parser.add_argument("--atheris", action="store_true", help="let atheris choose the inputs, one target")
    return parser.parse_args()


def _chosen(targets: Any, names: list[str]) -> list[Any]:
    unknown = set(names) - {target.name for target in targets}
    if unknown:
        raise SystemExit(f"no target {', '.join(unknown)}; known targets are {', '.join(target.name for target in targets)}")
    return [target for target in targets if not names or target.name in names]


def _rounds(targets: list[Any], folder: Path, found: Found, options: argparse.Namespace) -> None:
    """Run the targets in turn, either for a second at a time, so that slow ones do not get more time, or with the same number of
    inputs."""
    from fuzz_mutations import mutated

    chance = random.Random(options.seed)  # noqa: S311 (not for secrets)
    length = f"{options.each:,} inputs each" if options.each else f"{options.minutes:g} min"
    print(f"seed {options.seed}, {len(targets)} targets, {length}", flush=True)
    seeds = {target.name: target.seeds(folder) for target in targets}
    for target in targets:
        for seed in seeds[target.name]:
            _ask(target, seed, folder, found)
    if options.each:
        for target in targets:
            for _ in range(options.each - len(seeds[target.name])):
                _ask(target, mutated(chance.choice(seeds[target.name]), chance), folder, found)
            print(_line(target.name, found, max(len(one.name) for one in targets)), flush=True)
        return
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        for target in targets:
            turn = min(end, time.monotonic() + 1.0)
            while time.monotonic() < turn:
                _ask(target, mutated(chance.choice(seeds[target.name]), chance), folder, found)


def _ask(target: Any, data: bytes, folder: Path, found: Found) -> None:
    from fuzz_targets import tried

    found.asked[target.name] = found.asked.get(target.name, 0) + 1
    begun = time.monotonic()
    _forget_peak()
    try:
        with _within(found.seconds):
            tried(target, data, folder)
        largest = found.largest[target.name] = max(found.largest.get(target.name, 0.0), _peak_megabytes())
        if largest > found.megabytes:
            raise TooLarge(f"{largest:.0f} MB")
    except (Exception, TooSlow) as fault:
        _note(target, data, fault, found)
    found.slowest[target.name] = max(found.slowest.get(target.name, 0.0), time.monotonic() - begun)


def _note(target: Any, data: bytes, fault: BaseException, found: Found) -> None:
    """Keep the input and report the failure the first time that it occurs at this location."""
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [frame for frame in frames if "gpuwise" in frame.filename and "fuzz" not in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {type(fault).__name__}"
    if (target.name, place) in found.faults:
        return
    found.keep.mkdir(parents=True, exist_ok=True)
    path = found.keep / f"{_label(target.name)}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.write_bytes(data)
    found.faults[target.name, place] = path
    print(f"\n{target.name}: {place}: {str(fault)[:300]}\n  input {path}: {data[:120]!r}", flush=True)


def _label(name: str) -> str:
    return name.replace(" ", "_").replace(".", "_")


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Ends an answer that takes longer, on systems with alarms. Time taken by other programs does not count. An answer that had a
    CPU for less than half of its time gets the same time again, up to a few times."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    begun, extended = time.process_time(), 0

    def late(number: int, frame: FrameType | None) -> None:
        nonlocal extended
        extended += 1
        if extended > _EXTENSIONS or time.process_time() - begun > seconds / 2:
            raise TooSlow(f"longer than {seconds:g} s")
        signal.setitimer(signal.ITIMER_REAL, seconds)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _forget_peak() -> None:
    """Reset the peak memory, if the system supports it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _peak_megabytes() -> float:
    """The peak memory of this process since `_forget_peak`, or 0 if the system does not report it."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return 0.0


def _limit_memory(gigabytes: float) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        limit = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _guided(options: argparse.Namespace) -> int:
    """Run one target with atheris, which keeps inputs that reach new lines and mutates them further."""
    import atheris

    if len(options.target) != 1:
        raise SystemExit("--atheris takes one --target at a time")
    with atheris.instrument_imports(include=["gpuwise"]):
        from fuzz_targets import TARGETS
    (target,) = _chosen(TARGETS, options.target)
    warnings.simplefilter("ignore")
    found = Found(keep=options.keep, seconds=options.seconds)
    folder = Path(tempfile.mkdtemp())
    corpus = folder / "corpus"
    corpus.mkdir()
    for place, seed in enumerate(target.seeds(folder)):
        (corpus / str(place)).write_bytes(seed)
    limits = [
        f"-max_total_time={round(60 * options.minutes)}",
        f"-rss_limit_mb={round(1024 * options.gigabytes)}",
        "-print_final_stats=1",
    ]

    def ask(data: bytes) -> None:
        _ask(target, data, folder, found)
        if found.faults:
            raise RuntimeError("a fault was found")  # ends the search with its own exit code

    atheris.Setup([sys.argv[0], *limits, "-max_len=20000", str(corpus)], ask)
    atheris.Fuzz()  # ends the process
    return 0


def _tell(found: Found, *, each: bool) -> None:
    """Print one line per target, unless each has printed its own when it ended, and the totals."""
    width = max(map(len, found.asked), default=0)
    for name in () if each else found.asked:
        print(_line(name, found, width))
    print(f"{sum(found.asked.values()):,} inputs, {len(found.faults)} faults")


def _line(name: str, found: Found, width: int) -> str:
    failed = sum(target == name for target, _ in found.faults)
    slowest, largest = found.slowest[name], found.largest.get(name, 0.0)
    return f"{name:{width}}  {found.asked[name]:>9,} asked  slowest {slowest:5.2f} s  {largest:4.0f} MB  {failed or 'no'} faults"


if __name__ == "__main__":
    sys.exit(main())
