"""What does this machine's device reach? Measured, saved, and used by `predict --on-this-machine`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import msgspec

from gpuwise.api.predictions import Prediction
from gpuwise.api.showing import Shown
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.live.bench import store
from gpuwise.live.bench.price import NEEDED, Priced, price
from gpuwise.live.bench.run import measure
from gpuwise.live.bench.types import Profile
from gpuwise.workload.model.types import Workload

__all__ = ["BenchAnswer", "as_measured_here", "bench", "gpu_here", "named_here", "without_assumed"]

_COMPUTING = ("matmul", "conv", "attention", "rnn")
_LONGEST_S = 60.0
_NOT_HERE = ("stack", "cpu", "cpu_device")  # assumed of other machines, measured on this one
_SHARE = 0.8  # of the time asked for: starting and ending take some, and the last case ends late
_RANGE = (0.7, 1.5)  # predicted to measured of ten small models on a shared CPU (benchmarks/this_machine.py), rounded outwards


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchAnswer(Shown):
    """A profile, and where it was saved, or why it was not."""

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


def gpu_here(named: Sequence[str], count: int) -> list[str]:
    """The catalogue's name of the device that was measured here, for a question that names no other."""
    if named or count != 1:
        raise BadValue("--on-this-machine is about the device that was measured here", hint="leave `--gpu` and `--gpus` out")
    profile = store.latest()
    if profile.device == "cpu":
        return ["cpu"]
    return [profile.name]


def named_here(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The device with its own name; a CPU with the memory of this machine too, instead of that of the one that stands for it."""
    profile = store.latest()
    if profile.device != "cpu":
        return gpus
    has = _memory_bytes()
    return tuple(replace(gpu, name=profile.name, memory_bytes=has, usable_memory_bytes=has) for gpu in gpus)


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        raise GpuwiseError("this system does not say how much memory it has", hint="name a device instead: `--gpu cpu`") from None


def without_assumed(assumptions: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """What is still assumed where the device itself was measured."""
    return tuple(one for one in assumptions if one.code not in _NOT_HERE and one.name != "gpu 'cpu'")


def as_measured_here(workload: Workload, result: Prediction) -> Prediction:
    """A prediction with its ops priced by what was measured on this machine."""
    profile = store.latest()
    found = price(
        workload,
        profile,
        float(result.batch) if "batch" in workload.symbols else None,
        float(result.seq) if "seq" in workload.symbols and result.seq is not None else None,
    )
    low, high = _RANGE[0] / (1 + found.spread_fraction), _RANGE[1] * (1 + found.spread_fraction)
    rows = [replace(row, seconds=found.by_kind.get(row.op, 0.0)) for row in result.by_op]
    parts = _parts(found)
    peak = None if profile.device == "cpu" else result.peak_flops_per_s  # nobody knows that of this CPU
    return replace(
        result,
        step_s=found.seconds,
        step_low_s=found.seconds * low,
        step_high_s=found.seconds * high,
        range_basis="measured",
        bound=max(parts, key=parts.__getitem__),
        bound_fractions=dict.fromkeys(result.bound_fractions, 0.0) | parts,
        lanes_s={"gpu": found.seconds - found.overhead_s, "host": found.overhead_s, "copy": 0.0, "input": 0.0},
        utilisation_fraction=sum(row.flops for row in rows) / found.seconds / peak if peak else None,
        by_op=tuple(sorted(rows, key=lambda row: -row.seconds)),
        assumptions=(*without_assumed(result.assumptions), _told(profile), _range_told(found)),
    )


def _parts(found: Priced) -> dict[str, float]:
    """The step as compute, memory and what the framework itself needs."""
    compute = sum(seconds for kind, seconds in found.by_kind.items() if kind in _COMPUTING)
    memory = sum(found.by_kind.values()) - compute
    whole = max(found.seconds, 1e-12)
    return {"compute": compute / whole, "memory": memory / whole, "launch": found.overhead_s / whole}


def _range_told(found: Priced) -> Assumption:
    low, high = _RANGE
    effect = f"widened by the spread of the rows used, ±{found.spread_fraction:.1%}"
    return assumed("range", f"{low:g} to {high:g} times, as for ten small models", effect, basis="measured")


def _told(profile: Profile) -> Assumption:
    effect = f"{len(profile.rows)} rows measured on {profile.day} with torch {profile.torch}, {profile.threads} thread(s)"
    return assumed("this machine", f"{profile.device}: {profile.name}", effect, basis="measured")
