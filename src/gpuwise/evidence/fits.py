"""The shipped fit, and fits that leave out one GPU or one family of models, to test predictions for unseen ones.

A fit consists of the kernel models' constants and the values specific to sources: factors of their software, seconds per call on
their hosts, and the speed of their copies. `tools/fit` writes the fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.evidence.procedures import fitted
from gpuwise.kernels.times import load_constants

__all__ = ["Fit", "left_out", "shipped"]


class Fit(msgspec.Struct, frozen=True):
    """Constants by name; factors by source, version and way of running; launch and copy values by source or machine; the time of
    a whole call outside a program's models, by source; a factor and a start time for each operator table; and the shortest
    time of each of its operators.

    A factor for `source//how` applies to versions for which that source has no separate factor; their stack counts as unknown.
    """

    constants: Mapping[str, float]
    factors: Mapping[str, float]
    launch_s: Mapping[str, float]
    copy_bytes_per_s: Mapping[str, float]
    call_s: Mapping[str, float]
    operator_factor: Mapping[str, float]
    operator_start_s: Mapping[str, float]
    operator_floor_s: Mapping[str, float]


class _File(msgspec.Struct):
    """Each list holds the values for `names`, which have the form `part:name`; null marks a stack with which no other row was
    measured. Parts that are not listed have their shipped values.
    """

    names: list[str]
    gpu: dict[str, list[float | None]]
    family: dict[str, list[float | None]]


@cache
def shipped() -> Fit:
    """Return the fit to all measurements, which predictions use."""
    own = fitted()
    return Fit(
        constants=load_constants(),
        factors=own.factors,
        launch_s=own.launch_s,
        copy_bytes_per_s=own.copy_bytes_per_s,
        call_s=own.call_s,
        operator_factor=own.operator_factor,
        operator_start_s=own.operator_start_s,
        operator_floor_s=own.operator_floor_s,
    )


@cache
def left_out(by: str) -> Mapping[str, Fit]:
    """Return the fits without each `gpu` or each `family`, by name. A name that is missing was not in any fit."""
    data = msgspec.json.decode((files("gpuwise.evidence") / "data" / "left_out.json").read_bytes(), type=_File)
    lists: dict[str, list[float | None]] = getattr(data, by)
    return {name: _fit(data.names, values) for name, values in lists.items()}


def _fit(names: list[str], values: list[float | None]) -> Fit:
    parts: dict[str, dict[str, float]] = {}
    for name, value in zip(names, values, strict=True):
        part, _, key = name.partition(":")
        own = parts.setdefault(part, {})
        if value is not None:
            own[key] = value
    constants = {**shipped().constants, **parts.pop("constants", {})}  # engine constants are fitted elsewhere
    return msgspec.structs.replace(shipped(), constants=constants, **parts)
