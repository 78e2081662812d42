"""A watch session: a thread that samples GPUs and host, and the marks that the run writes meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from gpuwise.live.sample.amd import open_amdsmi
from gpuwise.live.sample.host import HostSampler
from gpuwise.live.sample.nvidia import open_nvml
from gpuwise.live.sample.types import Run, Sampler, Sight

__all__ = ["Session", "environment"]

_INTERVAL_S = 0.5
_PATIENCE_S = 3.0  # for a driver that does not respond; its thread is then abandoned
_STUCK_S = 5.0  # without a batch, after which a loader is reported as stuck
_RECORD = 32


class Session:
    """One watched process, from `start` to `finish`. The driver cannot block the caller, because it is queried in a thread."""

    def __init__(self, *, interval_s: float = _INTERVAL_S) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpuwise-watch-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)  # at the latest when Python ends
        self._host = HostSampler(os.getpid())
        self._interval_s = interval_s
        self._sights: list[Sight] = []
        self._faults: list[str] = []
        self._marks: dict[int, bytearray] = {}
        self._heard: dict[int, float] = {}
        self._reading = threading.Lock()
        self._end = threading.Event()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._look, name="gpuwise-watch", daemon=True)

    def start(self, pid: int) -> None:
        """Start sampling this process and its descendants."""
        self._host = HostSampler(pid)
        self._begun = time.monotonic()
        self._thread.start()

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._begun

    @property
    def latest(self) -> Sight | None:
        """The most recent sample."""
        return self._sights[-1] if self._sights else None

    @property
    def faults(self) -> tuple[str, ...]:
        """What cannot be observed, without duplicates."""
        return tuple(dict.fromkeys([*self._faults, *self._host.faults]))

    def read(self) -> dict[int, bytes]:
        """All marks so far."""
        with self._reading:
            self._read()
            return {pid: bytes(known) for pid, known in self._marks.items()}

    def _read(self) -> None:
        for path in self.folder.glob("*.steps"):
            pid = int(path.stem)
            known = self._marks.setdefault(pid, bytearray())
            try:
                with path.open("rb") as file:
                    file.seek(len(known))
                    more = file.read()
            except OSError:
                continue
            if more:
                known += more
                self._heard[pid] = time.monotonic()

    def waiting_s(self) -> float | None:
        """How long the process with the latest mark has been waiting for a batch, if that is long."""
        if not self._heard:
            return None
        pid = max(self._heard, key=self._heard.__getitem__)
        last = bytes(self._marks[pid][-_RECORD:])
        since = time.monotonic() - self._heard[pid]
        return since if last[:1] == b"B" and since >= _STUCK_S else None

    def finish(self, *, exit_code: int | None = None, ended_by: str = "") -> Run:
        """Stop sampling, and return what was collected."""
        seconds = self.seconds
        marks, waiting = self.read(), self.waiting_s()
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():
                self._faults.append("the GPU driver no longer responds")
        return Run(
            sights=tuple(self._sights),
            marks=marks,
            traces=tuple(sorted(self.folder.glob("*.trace.json"))),
            pids=frozenset(self._host.pids),
            faults=self.faults,
            waiting_s=waiting,
            seconds=seconds,
            exit_code=exit_code,
            ended_by=ended_by,
        )

    def _look(self) -> None:
        samplers = self._open()
        self._host.sample()
        while not self._end.wait(self._interval_s):
            gpus = tuple(gpu for sampler in samplers for gpu in sampler.sample())
            self._sights.append(Sight(at_s=self.seconds, gpus=gpus, host=self._host.sample()))
            with self._reading:
                self._read()  # the time of a mark is known only to one interval, which is enough to detect a stuck loader
            self._faults += [fault for sampler in samplers for fault in sampler.faults if fault not in self._faults]
        for sampler in samplers:
            sampler.close()

    def _open(self) -> list[Sampler]:
        ways: tuple[Callable[[], tuple[Sampler | None, str]], ...] = (open_nvml, open_amdsmi)
        found, missing = list[Sampler](), list[str]()
        for way in ways:
            sampler, fault = way()
            if sampler is not None:
                found.append(sampler)
            elif fault:
                missing.append(fault)
        if not found:
            self._faults += [f"no GPU was found: {'; '.join(missing)}"]
        return found


def environment(folder: Path, *, window: bool) -> dict[str, str]:
    """Return the environment in which a Python program marks its steps in this folder."""
    hook = str(Path(__file__).parents[1] / "hook")
    paths = [hook, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "KINETO_LOG_LEVEL": "99",  # otherwise, torch's profiler writes to stderr
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "GPUWISE_WATCH": str(folder),
        "GPUWISE_WATCH_WINDOW": "1" if window else "0",
    }
