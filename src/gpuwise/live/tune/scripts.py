"""Runs a training script for some steps, unchanged or with changed settings: through its own flags, or through hooks if it has
none.

The script is stopped once its steps have been observed for long enough.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.text import plain
from gpuwise.live.sample.session import environment
from gpuwise.live.sample.steps import Pace, typical_pace
from gpuwise.live.tune.contained import Ended, in_python, run_contained
from gpuwise.live.tune.types import Trial, Variant

__all__ = ["HOOKED", "Script", "run_script"]

HOOKED = ("batch", "precision", "optimizer", "workers", "pinned")  # what hook/gpuwise_settings.py can change from outside
_LEAST_STEPS = 10
_MOST_STEPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script, its arguments, and the flags by which it takes settings: `{}` in them stands for the value."""

    path: Path
    arguments: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str, ...]]

    def command(self, variant: Variant) -> list[str]:
        """Return the script with the flags of these changes after its own arguments."""
        more = [word.replace("{}", change.value) for change in variant for word in self.flags.get(change.name, ())]
        return [sys.executable, str(self.path), *self.arguments, *more]

    def hooked(self, variant: Variant) -> dict[str, str]:
        """Return the changes for which the script has no flag."""
        return {change.name: change.value for change in variant if change.name not in self.flags}


def run_script(script: Script, variant: Variant, *, seconds: float, timeout_s: float) -> Trial:
    """Return the script's pace over some seconds of steady steps."""
    with tempfile.TemporaryDirectory(prefix="gpuwise-tune-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        hooked = script.hooked(variant)
        variables = environment(folder, window=False) | ({"GPUWISE_SETTINGS": json.dumps(hooked)} if hooked else {})
        looking = _Looking(folder, seconds)
        ended = run_contained(
            in_python("gpuwise.live.tune.guard", *script.command(variant)), variables, timeout_s=timeout_s, is_enough=looking
        )
        missed = [setting for setting in hooked if not (folder / f"{setting}.applied").exists()]
        return _trial(looking.pace(), ended, missed, timeout_s)


class _Looking:
    """Decides whether enough steps were observed; it is called often, but looks only twice per second."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._begun, self._next = 0.0, 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + 0.5
        pace = self.pace()
        if pace is None:
            return False
        self._begun = self._begun or now
        return pace.count >= _MOST_STEPS or (pace.steady_count >= _LEAST_STEPS and now - self._begun >= self._seconds)

    def pace(self) -> Pace | None:
        """Return the pace of the steps marked so far."""
        return typical_pace({int(path.stem): path.read_bytes() for path in self._folder.glob("*.steps")})


def _trial(pace: Pace | None, ended: Ended, missed: Sequence[str], timeout_s: float) -> Trial:
    if ended.code not in (None, 0):
        kind = "memory" if "out of memory" in ended.said.lower() or ended.code in (-9, 137) else "error"
        return Trial(fault=f"the script exited with code {ended.code}{_last(ended)}", kind=kind)
    if missed:
        return Trial(fault=f"these settings have no effect on the script: {', '.join(missed)}", kind="error")
    if pace is None or pace.steady_count < 3:
        late = f"no steady steps within {timeout_s:g} s" if ended.is_late else "the script ended after too few steps"
        return Trial(fault=f"{late}{_last(ended)}", kind="timeout" if ended.is_late else "error")
    return Trial(
        batch=pace.batch or 0,
        step_s=pace.mean_s,
        spread_fraction=(pace.high_s - pace.low_s) / (2 * pace.mean_s),
        runs=pace.steady_count,
        wait_s=pace.wait_s,
        work_low_s=pace.work_low_s,
        cpu_s=pace.cpu_s,
        workers=pace.workers,
    )


def _last(ended: Ended) -> str:
    lines = [line for line in ended.said.strip().splitlines() if line.strip()][-1:]
    return f"; its last output: {plain(lines[0].strip()[:200])}" if lines else ""
