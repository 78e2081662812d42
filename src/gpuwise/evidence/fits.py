"""Fits: the shipped one, and those made without one GPU or one family of models, to see how well the unseen is predicted.

A fit is the constants of the kernel models together with what belongs to sources: factors of their software, seconds a call costs
their hosts, the speed of their copies. `tools/fit` writes them.
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
    """Constants by name; factors by source, version and way of running; launch and copy by source or machine; a factor and a
    start for each operator table, and the least each of its operators takes.

    A factor of `source//how` serves versions of which that source has no own; there the stack counts as unknown.
    """

    constants: Mapping[str, float]
    factors: Mapping[str, float]
    launch_s: Mapping[str, float]
    copy_bytes_per_s: Mapping[str, float]
    operator_factor: Mapping[str, float]
    operator_start_s: Mapping[str, float]
    operator_floor_s: Mapping[str, float]


class _File(msgspec.Struct):
    """Each list holds the values of `names`, which are `part:name`; null is a stack that no other row was measured with. Parts
    that are not named are as shipped."""

    names: list[str]
    gpu: dict[str, list[float | None]]
    family: dict[str, list[float | None]]


@cache
def shipped() -> Fit:
    """The fit to all measurements, which predictions use."""
    own = fitted()
    return Fit(
        constants=load_constants(),
        factors=own.factors,
        launch_s=own.launch_s,
        copy_bytes_per_s=own.copy_bytes_per_s,
        operator_factor=own.operator_factor,
        operator_start_s=own.operator_start_s,
        operator_floor_s=own.operator_floor_s,
    )


@cache
def left_out(by: str) -> Mapping[str, Fit]:
    """The fits without each `gpu` or each `family`, by its name. What is not in it was in no fit at all."""
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
    constants = {**shipped().constants, **parts.pop("constants", {})}  # those of engines are fitted elsewhere
    return msgspec.structs.replace(shipped(), constants=constants, **parts)
