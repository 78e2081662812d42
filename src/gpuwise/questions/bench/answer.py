"""What does this machine's device reach? Measured, saved, and used by `predict --on-this-machine`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar

import msgspec

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.hardware import tables
from gpuwise.live.bench import store
from gpuwise.live.bench.price import NEEDED
from gpuwise.live.bench.run import measure
from gpuwise.live.bench.types import Profile
from gpuwise.questions.common.showing import Shown

__all__ = ["BenchAnswer", "bench"]

_LONGEST_S = 60.0
_SHARE = 0.8  # of the time asked for: starting and ending take some, and the last case ends late


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchAnswer(Shown):
    """A profile, and where it was saved, or why it was not."""

    TEXT: ClassVar[str] = "questions.bench.text.render"

    profile: Profile
    path: Path | None
    data_date: date
    unsaved: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Rows with their rates and uncertainty."""
        profile = msgspec.to_builtins(self.profile)
        for row in profile["rows"]:
            row["work_per_s"] = row["work"] / row["seconds"]
        file = {"file": str(self.path) if self.path else None, "unsaved": self.unsaved or None}
        return {**profile, **file, "assumptions": [], "data_date": self.data_date.isoformat()}


def bench(
    device: str = "", *, seconds: float = _LONGEST_S, progress: Callable[[str, float], None] = lambda text, share: None
) -> BenchAnswer:
    """Measure a device of this machine and save its profile, unless a surer one of the day is there."""
    if not 2.0 <= seconds <= 600.0:
        raise BadValue(f"{seconds:g} s is no time to measure in", hint="between 2 and 600 s; 60 if you do not say")
    store.check()
    profile = measure(device, Path(gettempdir()), seconds=_SHARE * seconds, progress=progress)
    path, unsaved = _saved(profile)
    return BenchAnswer(profile=profile, path=path, unsaved=unsaved, data_date=tables.data_date())


def _saved(profile: Profile) -> tuple[Path | None, str]:
    """Where, or why not: what was measured is shown in either case."""
    lacking = [kind for kind in NEEDED if not profile.of(kind)]
    if lacking:
        return None, f"no prediction can be made without {', '.join(lacking)}"
    before = store.surer(profile)
    if before is not None:
        figures = f"{len(before.rows)} rows, ±{before.spread_fraction:.1%} in the middle"
        own = f"{len(profile.rows)}, ±{profile.spread_fraction:.1%}"
        kept = f"the profile of earlier today is surer ({figures}; now {own}) and is kept"
        return None, f"{kept}; to forget it, delete {store.path_of(before)}"
    try:
        return store.save(profile), ""
    except BadFile as fault:
        return None, fault.message
