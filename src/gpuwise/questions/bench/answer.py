"""How fast is this machine's device? Measured, saved, and used by `predict --on-this-machine`."""

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
from gpuwise.questions.bench.options import BenchOptions
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face

__all__ = ["BenchAnswer", "answer", "bench"]

_SHORTEST_S, _LONGEST_S = 2.0, 600.0  # a shorter time measures almost nothing; a longer one adds no certainty
_SHARE = 0.8  # of the requested time, because starting and ending take some, and the last case ends late


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchAnswer(Shown):
    """A profile, with the path it was saved to or the reason why it was not saved."""

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


def answer(options: BenchOptions, progress: Callable[[str, float], None] = lambda text, share: None) -> BenchAnswer:
    """Measure a device of this machine and save its profile, unless a more precise one was saved on the same day."""
    if not _SHORTEST_S <= options.seconds <= _LONGEST_S:
        raise BadValue(
            f"invalid --seconds {options.seconds:g}",
            hint=f"give a number between {_SHORTEST_S:g} and {_LONGEST_S:g}; the default is 60",
        )
    store.check()
    profile = measure(options.device, Path(gettempdir()), seconds=_SHARE * options.seconds, progress=progress)
    path, unsaved = _save(profile)
    return BenchAnswer(profile=profile, path=path, unsaved=unsaved, data_date=tables.data_date())


def _save(profile: Profile) -> tuple[Path | None, str]:
    """The path it was saved to, or the reason why it was not saved; the measurements are shown in either case."""
    lacking = [kind for kind in NEEDED if not profile.of(kind)]
    if lacking:
        return None, f"measurements that predictions need are missing ({', '.join(lacking)})"
    before = store.surer(profile)
    if before is not None:
        figures = f"{len(before.rows)} rows, median ±{before.spread_fraction:.1%}"
        own = f"{len(profile.rows)} rows, ±{profile.spread_fraction:.1%}"
        kept = f"an earlier profile from today is more precise ({figures}, compared with {own}) and was kept"
        return None, f"{kept}; delete {store.path_of(before)} to replace it"
    try:
        return store.save(profile), ""
    except BadFile as fault:
        return None, fault.message


bench = face(BenchOptions, answer)
