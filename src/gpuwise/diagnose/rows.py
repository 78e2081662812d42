"""The rows of a diagnosis: every GPU and rank, every collective that kept some of them waiting, and every op of known size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gpuwise.diagnose.collectives import arrivals, gatherings
from gpuwise.diagnose.ranks import Rank, peers
from gpuwise.diagnose.roofline.op_time import OpTime

__all__ = ["MOST_OPS", "collective_rows", "gpu_rows", "last_fractions", "op_rows", "rank_row"]

MOST_OPS = 50  # the ones that lose most
_MOST_COLLECTIVES = 20


def op_rows(ops: Sequence[OpTime]) -> list[dict[str, Any]]:
    """Return ops with their expected times, as in the JSON."""
    return [{**asdict(row), "reached_fraction": row.reached_fraction} for row in ops]


def rank_row(rank: Rank) -> dict[str, Any]:
    """Return what one rank spends its step on."""
    view = rank.view
    return {
        "rank": rank.number,
        "file": view.scene.trace.file,
        "step_s": view.scene.steps.median_s,
        "busy_fraction": view.whole.busy_fraction,
        "communication_s": rank.communication_s,
        "communication_exposed_fraction": view.whole.communication_exposed_fraction,
        "loader_fraction": view.whole.loader_fraction,
    }


def gpu_rows(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """Return one row for each GPU in each file. `last_fraction` is the share of the matched collectives at which it arrived
    last while others waited, and `kept_waiting_s` how long they waited per step; both None if there is nothing to match.
    """
    working = list(peers(ranks))
    shares, caused = last_fractions(working)
    rows = []
    for rank in ranks:
        view = rank.view
        place = next((place for place, peer in enumerate(working) if peer is rank), None)
        rows.append(
            {
                "gpu": (view.gpu.name if view.gpu else view.scene.device.name or None) if view.is_gpu else None,
                "device": "CPU" if view.scene.on_cpu else view.gpu.name if view.gpu else view.scene.device.name or None,
                "index": view.scene.device.index,
                "label": rank.label,
                **rank_row(rank),
                "mean_step_s": view.step_s,
                "kernel_s": view.whole.kernel_fraction * view.step_s,
                "idle_s": (1.0 - view.facts.busy_fraction) * view.step_s,
                "last_fraction": shares[place] if place is not None and shares else None,
                "kept_waiting_s": caused[place] if place is not None and caused else None,
            }
        )
    return rows


def last_fractions(ranks: Sequence[Rank]) -> tuple[list[float], list[float]]:
    """For each rank, the share of collectives at which it arrived last, and how long the others waited for it per step;
    nothing if no collectives can be matched.
    """
    found = arrivals([rank.view for rank in ranks]) if len(ranks) > 1 else None
    if found is None:
        return [], []
    caused = found.caused_s
    took_part = np.maximum((~np.isnan(found.took_s)).sum(axis=1), 1)
    return ((caused > 0).sum(axis=1) / took_part).tolist(), (caused.sum(axis=1) / found.step_count).tolist()


def collective_rows(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """Return the collectives of a step that keep ranks waiting longest: which rank arrives last, how often, and the cost."""
    working = peers(ranks)
    found = arrivals([rank.view for rank in working]) if len(working) > 1 else None
    if found is None:
        return []
    return [
        {
            "collective": one.kind,
            "place_in_step": one.place,
            "count": one.count,
            "last": working[one.last].label,
            "last_rank": working[one.last].number,
            "last_fraction": one.last_fraction,
            "waited_s": one.waited_s,
        }
        for one in gatherings(found)[:_MOST_COLLECTIVES]
    ]
