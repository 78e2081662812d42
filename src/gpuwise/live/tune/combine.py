"""Combines the changes that helped individually, and leaves some out if they do not work together."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.live.tune.types import Change, Gain, Variant

__all__ = ["product", "together", "without_least"]


def together(gains: Mapping[Change, Gain]) -> Variant:
    """Return the value of each setting that gained most, if it gained in every round."""
    best: dict[str, Change] = {}
    for change, gain in gains.items():
        if gain.is_certain and (change.name not in best or gain.middle > gains[best[change.name]].middle):
            best[change.name] = change
    return tuple(best.values())


def without_least(variant: Variant, gains: Mapping[Change, Gain]) -> Variant:
    """Return the same changes without the one that gained least on its own."""
    least = min(variant, key=lambda change: gains[change].middle)
    return tuple(change for change in variant if change != least)


def product(variant: Variant, gains: Mapping[Change, Gain]) -> float:
    """Return the product of the gains, as if they were independent."""
    result = 1.0
    for change in variant:
        result *= gains[change].middle
    return result
