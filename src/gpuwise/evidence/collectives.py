"""Compares measured collectives from published tables with the predictions of `scale`.

`data/collective_sources.json` holds what is specific to each source: the rate of networks it does not name, and the shortest
time its calls take. Rows that do not state how the GPUs were connected are skipped and counted by reason.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.machines import find_link
from gpuwise.kernels.limits import longer
from gpuwise.scale.cluster.collectives import OPS, Constants, collective_s, load_constants, moved_fraction
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import Cluster

__all__ = ["CollectiveSet", "collective_baselines", "collective_data", "collective_sets", "predicted_s", "score_collectives"]

_FLOATS = ("fp32", "fp16", "bf16", "fp64", "float", "half")
_NODE = 8  # GPUs in the nodes that sources used
_SMOOTH = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSet:
    """Rows that differ only in size: one collective in one group on one machine, measured by one source."""

    gpu: str
    op: str
    dtype: str
    library: str
    source: str
    cluster: Cluster
    inner: int
    outer: int
    rows: tuple[int, ...]
    size_bytes: Any
    measured_s: Any

    @property
    def ranks(self) -> int:
        return self.inner * self.outer


@cache
def collective_data() -> Mapping[str, Any]:
    """Return the values that are specific to the sources rather than the machines."""
    place = files("gpuwise.evidence") / "data" / "collective_sources.json"
    loaded: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return loaded


def collective_sets(table: Table) -> tuple[list[CollectiveSet], Skipped]:
    """Return the rows that can be predicted, and why the others cannot."""
    names = ("gpu", "gpu_count", "link", "op", "dtype", "library", "source")
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    reasons = Skipped()
    for number in table.usable(reasons):
        members[tuple(str(table.columns[name][number] if name in table.columns else "") for name in names)].append(number)
    found = []
    for key, rows in members.items():
        cells = dict(zip(names, key, strict=True))
        try:
            cluster, inner, outer = _machine(cells)
            if inner > cluster.gpus_per_node or outer > cluster.node_count:
                raise ValueError("no machine connects that many GPUs in this way")
        except (GpuwiseError, ValueError, OverflowError) as reason:
            for row in rows:
                reasons.add(row, getattr(reason, "message", str(reason)))
            continue
        size, measured = (np.array([_number(table.columns[name][row]) for row in rows]) for name in ("bytes", "time_us"))
        usable = (size > 0) & (measured > 0) & np.isfinite(size + measured)
        for row, good in zip(rows, usable, strict=True):
            if not good:
                reasons.add(row, "no size or time")
        kept = tuple(row for row, good in zip(rows, usable, strict=True) if good)
        found.append(
            CollectiveSet(
                gpu=cells["gpu"],
                op=cells["op"],
                dtype=cells["dtype"],
                library=cells["library"],
                source=cells["source"],
                cluster=cluster,
                inner=inner,
                outer=outer,
                rows=kept,
                size_bytes=size[usable],
                measured_s=measured[usable] / 1e6,
            )
        )
    return found, reasons


def _number(cell: Any) -> float:
    """Return the number in a cell, or NaN if there is none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _machine(cells: Mapping[str, str]) -> tuple[Cluster, int, int]:
    """Return the cluster on which a row was measured, and its group: GPUs per node, and nodes."""
    count, link = int(float(cells["gpu_count"])), cells["link"]
    if count < 2:
        raise ValueError("one GPU sends nothing")
    if cells["op"] not in OPS:
        raise ValueError(f"unknown collective: {cells['op']}")
    if "between NVLink pairs" in link:
        raise ValueError("the source does not say what connects these GPUs")
    if "between nodes" in link:
        return _over_nodes(cells, count, link)
    if "NVSwitch" in link or ("NVLink" in link and "pair" not in link and _is_module(cells["gpu"])):
        return parse_cluster(f"{max(count, _NODE)}x{cells['gpu']}")[0], count, 1
    if "NVLink" in link:
        cards = re.sub(r"\b(A100|H100)\b(?! PCIe)", r"\1 PCIe", cells["gpu"])
        return parse_cluster(f"{count}x{cards}", link="NVLink")[0], count, 1
    lanes = re.fullmatch(r"PCIe\s*(\d)(?:\.0)?\s*x(\d{1,9})(.*)", link)
    flags = lanes[3] if lanes else ""
    told = f"PCIe {lanes[1]}.0 x{lanes[2]}{flags}" if lanes else link
    return parse_cluster(f"{count}x{cells['gpu']}", link=told)[0], count, 1


def _is_module(gpu: str) -> bool:
    return parse_cluster(gpu)[0].gpu.cooler == "module" and "SXM" in gpu


def _over_nodes(cells: Mapping[str, str], count: int, link: str) -> tuple[Cluster, int, int]:
    """Return nodes of eight GPUs, of which a group uses some. An unnamed network has the rate fitted to its source."""
    used = re.search(r"\((\d{1,9}) GPUs? per node\)", link)
    inner = max(1, int(used[1])) if used else 1
    nodes = max(2, count // inner)
    cluster = parse_cluster(f"{nodes}x{_NODE}x{cells['gpu']}")[0]
    rate = collective_data()["networks"].get(f"{cells['source']}/{cluster.gpu.name}")
    if rate:
        link_of = replace(find_link("InfiniBand HDR"), name="unstated network", bytes_per_s_one_way=rate, achieved_fraction=1.0)
        cluster = replace(cluster, network=link_of, network_count=_NODE)
    return cluster, inner, nodes


def predicted_s(entry: CollectiveSet, constants: Constants | None = None) -> Any:
    """Return the seconds for every size in a set."""
    floats = entry.dtype.startswith(_FLOATS) or not entry.dtype
    seconds = collective_s(
        entry.op, entry.size_bytes, entry.cluster, entry.inner, entry.outer, in_switch=floats, constants=constants
    )
    floor = collective_data()["least_s"].get(f"{entry.library}/{entry.op}", 0.0)
    return longer(seconds, np.array(floor), _SMOOTH)


def score_collectives(found: Sequence[CollectiveSet], constants: Constants | None = None) -> list[Residual]:
    """Predict every row, in table order."""
    answers = []
    for entry in found:
        width = (constants or load_constants())["ranges"]["known" if _is_known(entry, constants) else "unknown"]
        for row, size, measured, seconds in zip(
            entry.rows, entry.size_bytes, entry.measured_s, predicted_s(entry, constants), strict=True
        ):
            answers.append(
                Residual(
                    row=row,
                    gpu=entry.gpu,
                    measured_s=float(measured),
                    predicted_s=float(seconds),
                    low_s=float(seconds) * width["low"],
                    high_s=float(seconds) * width["high"],
                    labels={"gpu": entry.gpu, "family": entry.op, "source": entry.source},
                    setup=(entry.op, str(entry.inner), str(entry.outer), str(size), entry.dtype),
                    group=(entry.source, entry.op),
                )
            )
    return sorted(answers, key=lambda row: row.row)


def _is_known(entry: CollectiveSet, constants: Constants | None) -> bool:
    return entry.outer == 1 and entry.cluster.gpu_link.name in (constants or load_constants())["links"]


def collective_baselines(found: Sequence[CollectiveSet]) -> dict[str, dict[str, float]]:
    """Return the predictions of simple rules: bytes at the link's rated speed; three quarters of that rate plus a 10 us start."""
    errors: dict[str, list[Any]] = {"link_rate": [], "three_quarters": []}
    for entry in found:
        moved = moved_fraction(entry.op, max(2, entry.ranks)) * entry.size_bytes
        network = entry.cluster.network_bytes_per_s * entry.inner / entry.cluster.gpus_per_node
        plain = moved / (network if entry.outer > 1 else entry.cluster.gpu_link.bytes_per_s_one_way)
        errors["link_rate"].append(plain / entry.measured_s - 1)
        errors["three_quarters"].append((plain / 0.75 + 1e-5) / entry.measured_s - 1)
    figures = {}
    for name, parts in errors.items():
        if parts:
            off = np.abs(np.concatenate(parts))
            figures[name] = {"median_ape": float(np.median(off)), "p90_ape": float(np.quantile(off, 0.9))}
    return figures
