"""The `gpuwise bench` measurements of this machine, for predictions about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import plural
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.live.bench import store
from gpuwise.live.bench.price import Priced, price
from gpuwise.live.bench.types import Profile
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.workload.model.types import Workload

__all__ = ["as_measured_here", "gpu_here", "named_here", "without_assumed"]

_NOT_HERE = ("stack", "cpu", "cpu_device")  # assumed for other machines, measured on this one
_RANGE = (0.7, 1.5)  # measured to predicted of 41 of 42 small models on a shared CPU (benchmarks/this_machine.py)


def gpu_here(named: Sequence[str], count: int) -> list[str]:
    """Return the catalogue's name for the device measured here, for a question that names no other."""
    if named or count != 1:
        raise BadValue("`--on-this-machine` cannot be combined with `--gpu` or `--gpus`", hint="leave out one of them")
    profile = store.latest()
    if profile.device == "cpu":
        return ["cpu"]
    return [profile.name]


def named_here(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the device with its own name and, for a CPU, the memory of this machine instead of that of its catalogue entry."""
    profile = store.latest()
    if profile.device != "cpu":
        return gpus
    has = _memory_bytes()
    return tuple(replace(gpu, name=profile.name, memory_bytes=has, usable_memory_bytes=has) for gpu in gpus)


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        raise GpuwiseError(
            "this system does not report its memory size", hint="name a device instead, such as `--gpu cpu`"
        ) from None


def without_assumed(assumptions: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """Return what is still assumed if the device itself was measured."""
    return tuple(one for one in assumptions if one.code not in _NOT_HERE and one.name != "gpu 'cpu'")


def as_measured_here(workload: Workload, result: Prediction) -> Prediction:
    """Return a prediction with op times from the measurements of this machine."""
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
    peak = None if profile.device == "cpu" else result.peak_flops_per_s  # not known for this CPU
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
        assumptions=(*without_assumed(result.assumptions), _profile_note(profile), _range_note(found)),
    )


def _parts(found: Priced) -> dict[str, float]:
    """Return the step as compute, memory and the framework's own time."""
    compute = sum(seconds for kind, seconds in found.by_kind.items() if KINDS[kind].is_product)
    memory = sum(found.by_kind.values()) - compute + found.fresh_s
    whole = max(found.seconds, 1e-12)
    return {"compute": compute / whole, "memory": memory / whole, "launch": found.overhead_s / whole}


def _range_note(found: Priced) -> Assumption:
    low, high = _RANGE
    effect = f"widened by the spread of the measurements used, ±{found.spread_fraction:.1%}"
    return assumed(
        "range", f"{low:g} to {high:g} times the prediction, as measured for 41 of 42 small models", effect, basis="measured"
    )


def _profile_note(profile: Profile) -> Assumption:
    threads = plural(str(profile.threads), "thread")
    effect = f"{len(profile.rows)} rows measured on {profile.day} with torch {profile.torch}, {threads}"
    return assumed("this machine", f"{profile.device}: {profile.name}", effect, basis="measured")
