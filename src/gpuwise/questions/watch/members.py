"""Turns exported tables into one set of values per GPU, and lists what the tables lack."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Abstained
from gpuwise.diagnose.vitals import GpuVitals
from gpuwise.hardware.types import Gpu
from gpuwise.live.sample.dcgm import METRICS, Fleet
from gpuwise.live.sample.nvidia import REASONS
from gpuwise.questions.common.gpu_vitals import catalogue_gpu

__all__ = ["members_of", "missing_metrics"]

_AT_LOAD = 0.5
_SILENT_S = 60.0
_PEERS = 3
_GIB = 2.0**30
Array = NDArray[np.float64]


def members_of(fleet: Fleet) -> tuple[tuple[Member, ...], tuple[str, ...], tuple[Assumption, ...]]:
    """Return the values for every GPU, its product, and the assumptions about them."""
    figures = _Figures(fleet)
    found = [figures.product(row) for row in range(len(fleet.devices))]
    members = tuple(figures.member(row, product) for row, product in enumerate(found))
    products = tuple(product.name if product else device.name for product, device in zip(found, fleet.devices, strict=True))
    return members, products, _assumptions(fleet, members, found)


def missing_metrics(fleet: Fleet, members: tuple[Member, ...]) -> tuple[Abstained, ...]:
    """Return the checks that cannot run, and the metrics to export for them."""
    needs: dict[str, list[tuple[str, ...]]] = {
        "idle_gpu": [("busy_fraction", "engine_fraction")],
        "throttled": [("reasons",)],
        "vram_spill": [("memory_used_bytes",), ("received_bytes_per_s", "sent_bytes_per_s")],
        "pcie_degraded": [("pcie_lanes",), ("pcie_lanes_max",)],
        "power_limited": [("power_limit_watts",), ("power_default_watts",)],
        "gpu_fault": [("xid",)],
    }
    told = []
    for code, groups in needs.items():
        lacking = [group[0] for group in groups if not any(fleet.has(name) for name in group)]
        if lacking:
            names = " and ".join(next(iter(METRICS[name])) for name in lacking)
            reason = (
                "only a low clock without a power cap can be detected" if code == "throttled" else "the metric is not exported"
            )
            told.append(Abstained(code=code, reason=reason, record_next=f"add {names} to dcgm-exporter's metrics"))
    crowds = Counter(one.peers for one in members if one.vitals.load_count)
    if max(crowds.values(), default=0) < _PEERS:
        reason = "fewer than three GPUs that may share a job were busy"
        told.append(
            Abstained(code="straggler", reason=reason, record_next="check while the job is running, or use a longer `--last`")
        )
    beside = "run `gpuwise watch` on the job"
    steps = ("input_starved", "cpu_starved", "shared_gpu")
    return (
        *told,
        *(Abstained(code=code, reason="DCGM does not report steps, cores or processes", record_next=beside) for code in steps),
    )


class _Figures:
    """Means and shares over the window, one row per GPU. "At load" are moments in which the GPU was busy, or all if it never
    was.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        counted, engine = fleet.of("busy_fraction"), fleet.of("engine_fraction")
        busy: Array = np.where(np.isfinite(counted), counted, engine)  # a MIG slice has no GPU_UTIL
        load: NDArray[np.bool_] = np.asarray(busy >= _AT_LOAD)
        never = ~np.any(load, axis=1, keepdims=True)
        looked = load | never
        self._load = load
        self._samples = np.isfinite(busy).sum(axis=1)
        self._busy = _mean(busy)
        self._memory_busy = _mean(fleet.of("memory_busy_fraction"))
        self._sm = _mean(fleet.of("sm_fraction"), looked)
        names = ("clock_hz", "power_watts", "power_limit_watts", "power_default_watts")
        self._at_load = {name: _mean(fleet.of(name), looked) for name in names}
        self._clock_max = _most(fleet.of("clock_max_hz"))
        self._temperature = _most(fleet.of("temperature_c"))
        self._used = _most(fleet.of("memory_used_bytes"))
        self._memory = _most(fleet.of("memory_used_bytes") + fleet.of("memory_free_bytes"))
        self._traffic = _mean(np.fmax(fleet.of("received_bytes_per_s"), fleet.of("sent_bytes_per_s")), looked)
        links = ("pcie_generation", "pcie_generation_max", "pcie_lanes", "pcie_lanes_max")
        self._links = {name: _most(fleet.of(name), looked) for name in links}
        self._reasons = _reasons(fleet.of("reasons"), load)
        self._xid = _last(fleet.of("xid"))
        self._xid_before = _last(fleet.of("xid")[:, ::-1])
        self._silent = _silence(fleet)

    def product(self, row: int) -> Gpu | None:
        memory = _value(self._memory[row])
        return _product(self._fleet.devices[row].name, None if memory is None else round(memory / _GIB))

    def member(self, row: int, product: Gpu | None) -> Member:
        device = self._fleet.devices[row]
        name = product.name if product else device.name
        xid = _value(self._xid[row])
        return Member(
            place=f"{device.host} GPU {device.index}",
            peers=f"{device.job or device.host}, {name}",
            assumed=not device.job,
            vitals=self._vitals(row, product, f"{device.host} GPU {device.index} ({name})"),
            memory_used_bytes=_value(self._used[row]),
            sm_fraction=_value(self._sm[row]),
            xid=None if xid is None else int(xid),
            xid_new=bool(xid) and xid != _value(self._xid_before[row]),
            silent_s=float(self._silent[row]),
        )

    def _vitals(self, row: int, product: Gpu | None, name: str) -> GpuVitals:
        at_load = {key: _value(values[row]) for key, values in self._at_load.items()}
        links = {key: None if (lanes := _value(values[row])) is None else int(lanes) for key, values in self._links.items()}
        used, memory = _value(self._used[row]), _value(self._memory[row])
        clocks = (_value(self._clock_max[row]), product.boost_clock_hz if product else None)
        return GpuVitals(
            name=name,
            sample_count=int(self._samples[row]),
            load_count=int(self._load[row].sum()),
            busy_fraction=_value(self._busy[row]),
            memory_busy_fraction=_value(self._memory_busy[row]),
            boost_hz=min(filter(None, clocks), default=None),
            reasons=self._reasons[row],
            temperature_c=_value(self._temperature[row]),
            traffic_bytes_per_s=_value(self._traffic[row]),
            memory_used_fraction=used / memory if used is not None and memory else None,
            clock_hz=at_load["clock_hz"],
            power_watts=at_load["power_watts"],
            # By default, the exporter omits the limit and the link, so those of the product are used (see `_assumptions`).
            power_limit_watts=at_load["power_limit_watts"] or (product.tdp_watts if product else None),
            power_default_watts=at_load["power_default_watts"],
            pcie_generation=links["pcie_generation"] or (product.pcie_generation if product else None),
            pcie_generation_max=links["pcie_generation_max"],
            pcie_lanes=links["pcie_lanes"] or (product.pcie_lanes if product else None),
            pcie_lanes_max=links["pcie_lanes_max"],
        )


@lru_cache(maxsize=1024)
def _product(name: str, memory_gib: int | None) -> Gpu | None:
    return catalogue_gpu(name, None if memory_gib is None else memory_gib * _GIB)


def _mean(table: Array, where: NDArray[np.bool_] | None = None) -> Array:
    """Return the mean of each row; NaN if nothing is known."""
    counted = np.isfinite(table) if where is None else np.isfinite(table) & where
    count = counted.sum(axis=1)
    total = np.where(counted, table, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _most(table: Array, where: NDArray[np.bool_] | None = None) -> Array:
    """Return the largest value of each row; NaN if nothing is known."""
    counted = np.isfinite(table) if where is None else np.isfinite(table) & where
    return np.where(counted.any(axis=1), np.where(counted, table, -np.inf).max(axis=1), np.nan)


def _last(table: Array) -> Array:
    """Return the last known value of each row."""
    known = np.isfinite(table)
    place = table.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    return np.where(known.any(axis=1), table[np.arange(len(table)), place], np.nan)


def _reasons(bits: Array, load: NDArray[np.bool_]) -> list[dict[str, float] | None]:
    """Return the share of moments at load with each reason; None if the reasons are not reported."""
    told = np.isfinite(bits) & load
    count = told.sum(axis=1)
    masks = np.where(told, bits, 0).astype(np.int64)
    shares = {word: ((masks & bit) != 0).sum(axis=1) / np.maximum(count, 1) for bit, word in REASONS.items()}
    return [
        {word: float(share[row]) for word, share in shares.items() if share[row] > 0} if count[row] else None
        for row in range(len(bits))
    ]


def _silence(fleet: Fleet) -> Array:
    """Return the seconds since a GPU last reported; none below a minute or a few moments, because GPUs are not scraped all at
    once.
    """
    heard = np.zeros((len(fleet.devices), len(fleet.times_s)), dtype=bool)
    for table in fleet.figures.values():
        heard |= np.isfinite(table)
    silent = np.argmax(heard[:, ::-1], axis=1) * fleet.step_s
    return np.where(silent >= max(3 * fleet.step_s, _SILENT_S), silent, 0.0)


def _value(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _assumptions(fleet: Fleet, members: tuple[Member, ...], found: list[Gpu | None]) -> tuple[Assumption, ...]:
    made: list[Assumption] = []
    if any(one.assumed for one in members):
        value, effect = (
            "GPUs of the same product on one host, where no label names their job",
            "this determines which GPUs are compared to find stragglers",
        )
        made.append(assumed("peers", value, effect))
    if any(found) and not fleet.has("power_limit_watts"):
        effect = "this determines whether a low clock is due to the power cap"
        made.append(assumed("power limit", "the product's TDP", effect))
    if any(found) and not fleet.has("pcie_lanes"):
        effect = "this determines how much of the link is in use, for vram_spill"
        made.append(assumed("PCIe link", "the full link of the product", effect))
    return tuple(made)
