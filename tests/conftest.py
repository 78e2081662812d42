"""Rules for every test: where captures are kept, what runs in parallel, and in which order.

`make test` runs the tests in several processes (pytest-xdist), one more than there are cores, because tests often wait: for a
browser, a timeout, a program that sleeps. The tests of a file stay together, so that its fixtures are prepared once, and so do
those of the folders in TOGETHER. The files in SPREAD take so long that their tests are distributed individually. The longest
tests start first, so that no process is left with a long one at the end. A test marked `alone` judges how fast something runs:
while it runs, the others wait. These tests come first, when no other test has to finish before them.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from commanding import Commands
from forking import Forker, quick

HERE = Path(__file__).parent
PAGE, WATCH = (
    "page",
    "watch",
)  # a server with a browser, and training runs: the tests in these folders spend much of their time waiting
ALONE = "alone"
TOGETHER = {  # the first entry with which the name of a test begins
    "accuracy/test_pathologies.py": ALONE,
    "unit/watch/test_bench.py::test_this_machine_is_measured_and_predicts": ALONE,
    "unit/watch/test_examples.py": ALONE,
    "unit/watch/test_watch_gpu.py": ALONE,
    "browser/": PAGE,
    "unit/web/": PAGE,
    "unit/watch/": WATCH,
    "golden/": "golden",
}
SPREAD = (
    "architecture/test_docs.py",
    "unit/test_plan_command.py",
    "unit/test_which.py",
    "unit/test_which_fits.py",
    "unit/test_which_money.py",
    "unit/workload/test_script.py",
)
# Files that take a long time in total. They start before the hundreds of short ones, which then fill the gaps at the end.
LONG = (
    "architecture/",
    "golden/",
    "unit/many/",
    "unit/test_compare_verdict.py",
    "unit/test_fit_",
    "unit/test_parser_fuzz.py",
    "unit/test_plan_recommends.py",
    "unit/test_which_unbeaten.py",  # two minutes; one process, because its tests share results that are computed once per model
    "unit/workload/",
)

# Idle torch threads sleep instead of spinning, so that other tests can use the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SELDOM = 100_000  # allocations between two garbage collections, as in the command line

settings.register_profile("any machine", deadline=None)  # the duration of an example depends on the machine
settings.load_profile("any machine")

_RUN = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_SHARED = "GPUWISE_TEST_RUN"  # the folder that the processes of this run share


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_RUN] = tempfile.TemporaryDirectory(prefix="gpuwise-tests-")
        os.environ[_SHARED] = config.stash[_RUN].name


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUN in config.stash:
        config.stash[_RUN].cleanup()


# ---------------------------------------------------------------- which process runs a test, and when


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distribute groups of tests. We do not use `loadgroup` from xdist, because its marks have no effect with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid))


def pytest_collection_finish() -> None:
    """Exclude what was imported and collected from garbage collection, because it is needed until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)


def _group(nodeid: str) -> str:
    """Return the name of the group that runs in one process: a single test for files in SPREAD, otherwise a file or folder."""
    test = nodeid.removeprefix(f"{HERE.name}/")
    place = test.partition("::")[0]
    if place in SPREAD:
        return nodeid
    return next((group for start, group in TOGETHER.items() if test.startswith(start)), place)


def _turn(nodeid: str) -> int:
    group = _group(nodeid)
    place = nodeid.removeprefix(f"{HERE.name}/")
    if group in (ALONE, PAGE, WATCH):
        return 0 if group == ALONE else 1
    return 2 if group == nodeid else 3 if place.startswith(LONG) else 4


# ---------------------------------------------------------------- tests that must run alone


_kept: list[ExitStack] = []  # the lock, kept from one `alone` test to the next


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Keep the lock during consecutive `alone` tests, so that the other processes have to stop only once."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    with ExitStack() as room:
        room.enter_context(_kept.pop() if _kept else _room(alone=_is_alone(item)))
        done = yield
        if _is_alone(item) and _is_alone(nextitem):
            _kept.append(room.pop_all())
        return done


def _is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


@contextmanager
def _room(*, alone: bool) -> Iterator[None]:
    """Run next to other tests, or alone. A test that must run alone also locks the door, so that no other test starts first."""
    import fcntl

    folder = Path(os.environ[_SHARED])
    with (folder / "door").open("w") as door, (folder / "room").open("w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:  # closing the files is not enough, because a process that the test forked may still have them open
            fcntl.flock(room, fcntl.LOCK_UN)
            fcntl.flock(door, fcntl.LOCK_UN)


# ---------------------------------------------------------------- the user's folders


@pytest.fixture(scope="session")
def _session_cache() -> Path:
    """Return the cache that all processes of a run share. This is safe, because captures are written completely or not at all."""
    place = Path(os.environ[_SHARED]) / "cache"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(scope="session")
def _session_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user") / "data"


@pytest.fixture(autouse=True)
def _own_folders(_session_cache: Path, _session_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_CACHE", str(_session_cache))
    monkeypatch.setenv("GPUWISE_DATA", str(_session_data))


# ---------------------------------------------------------------- captures without a new interpreter


@pytest.fixture(scope="session")
def _forker() -> Iterator[Forker]:
    pytest.importorskip("torch")
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture
def quick_captures(request: pytest.FixtureRequest, _forker: Forker) -> Iterator[None]:
    """Fork captures from a process that has imported torch, except in tests marked `afresh`. tests/forking.py explains why."""
    with nullcontext() if request.node.get_closest_marker("afresh") else quick(_forker):
        yield


# ---------------------------------------------------------------- commands without a new interpreter


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Fork commands from a process that has imported the command line. tests/commanding.py lists which ones."""
    started = Commands()
    yield started
    started.close()
