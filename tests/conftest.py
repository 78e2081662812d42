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
PAGE, WATCH = "page", "watch"  # servers with a browser, and trainings: each folder's tests wait for much of their time
ALONE = "alone"
TOGETHER = {  # the first one that a test begins with
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
# Files that take long as a whole. They begin before the hundreds of short ones, which then fill the gaps at the end.
LONG = (
    "architecture/",
    "golden/",
    "unit/many/",
    "unit/test_compare_verdict.py",
    "unit/test_fit_",
    "unit/test_parser_fuzz.py",
    "unit/test_plan_recommends.py",
    "unit/test_which_unbeaten.py",  # two minutes; in one process, because its parts share what is computed once for each model
    "unit/workload/",
)

# A thread of torch that has no work sleeps, instead of asking for work in a loop: the cores are for the other tests meanwhile.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SELDOM = 100_000  # objects between two looks for garbage, as in the command line

settings.register_profile("any machine", deadline=None)  # how long an example takes is the machine's affair
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


# ---------------------------------------------------------------- which process takes a test, and when


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Deals out groups of tests. Not the `loadgroup` of xdist: its marks have no effect with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid))


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: no look for garbage goes through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)


def _group(nodeid: str) -> str:
    """What one process runs, by a name: a test of SPREAD alone, other tests with their file or folder."""
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


# ---------------------------------------------------------------- tests that need the machine for themselves


_kept: list[ExitStack] = []  # the room, between two tests of a row


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A row of tests that need the machine keeps it from the first to the last: the others end what they are at only once."""
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
    """Side by side with other tests, or alone. Who wants to be alone holds the door, so that no other test begins before it."""
    import fcntl

    folder = Path(os.environ[_SHARED])
    with (folder / "door").open("w") as door, (folder / "room").open("w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:  # not left to closing: a process that the test forked may still have the files open
            fcntl.flock(room, fcntl.LOCK_UN)
            fcntl.flock(door, fcntl.LOCK_UN)


# ---------------------------------------------------------------- what a user has kept


@pytest.fixture(scope="session")
def _session_cache() -> Path:
    """Captures are written whole or not at all, so the processes of a run share them."""
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


# ---------------------------------------------------------------- captures that need no fresh start


@pytest.fixture(scope="session")
def _forker() -> Iterator[Forker]:
    pytest.importorskip("torch")
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture
def quick_captures(request: pytest.FixtureRequest, _forker: Forker) -> Iterator[None]:
    """Captures are forked from a process that has imported torch, but for tests marked `afresh`; tests/forking.py says why."""
    with nullcontext() if request.node.get_closest_marker("afresh") else quick(_forker):
        yield


# ---------------------------------------------------------------- commands that need no fresh start


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Commands are forked from a process that has imported the command line; tests/commanding.py says which."""
    started = Commands()
    yield started
    started.close()
