"""The names, units and labels of the metrics that NVIDIA's DCGM exporter reports to a Prometheus server.

Names and units, old and new: https://github.com/NVIDIA/dcgm-exporter `etc/default-counters.csv`,
https://docs.nvidia.com/datacenter/dcgm/latest/reference/dcgm-exporter-metrics.html and `.../field-identifiers.html`. Exporter
4.9.0 renamed its metrics to those of DCGM 4.7 and changed units (MHz to Hz, percent to ratio, MiB to bytes), so both are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import GpuwiseError
from gpuwise.live.sample.prometheus import Samples, Server, Window

__all__ = ["METRICS", "Device", "Fleet", "read_fleet"]

_MIB = 2.0**20
Array = NDArray[np.float64]

# Our name -> the exporter's names and the factors to our unit. A GPU exports one name of each line; the first one counts.
METRICS: dict[str, dict[str, float]] = {
    "busy_fraction": {"DCGM_FI_DEV_GPU_UTIL": 0.01, "DCGM_FI_DEV_GPU_UTIL_RATIO": 1.0},
    "engine_fraction": {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 1.0},
    "sm_fraction": {"DCGM_FI_PROF_SM_ACTIVE": 1.0, "DCGM_FI_PROF_SM_UTIL_RATIO": 1.0},
    "tensor_fraction": {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1.0, "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 1.0},
    "memory_busy_fraction": {"DCGM_FI_DEV_MEM_COPY_UTIL": 0.01, "DCGM_FI_DEV_MEMORY_UTIL_RATIO": 1.0},
    "clock_hz": {"DCGM_FI_DEV_SM_CLOCK": 1e6, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.0},
    "clock_max_hz": {"DCGM_FI_DEV_MAX_SM_CLOCK": 1e6, "DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ": 1.0},
    "reasons": {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 1.0, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 1.0},
    "power_watts": {"DCGM_FI_DEV_POWER_USAGE": 1.0, "DCGM_FI_DEV_BOARD_POWER_WATTS": 1.0},
    "power_limit_watts": {
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 1.0,
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": 1.0,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": 1.0,
    },
    "power_default_watts": {"DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": 1.0, "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS": 1.0},
    "temperature_c": {"DCGM_FI_DEV_GPU_TEMP": 1.0, "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 1.0},
    "memory_used_bytes": {"DCGM_FI_DEV_FB_USED": _MIB, "DCGM_FI_DEV_FB_USED_BYTES": 1.0},
    "memory_free_bytes": {"DCGM_FI_DEV_FB_FREE": _MIB, "DCGM_FI_DEV_FB_FREE_BYTES": 1.0},
    "received_bytes_per_s": {"DCGM_FI_PROF_PCIE_RX_BYTES": 1.0, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": 1e3},
    "sent_bytes_per_s": {"DCGM_FI_PROF_PCIE_TX_BYTES": 1.0, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": 1e3},
    "pcie_generation": {"DCGM_FI_DEV_PCIE_LINK_GEN": 1.0},
    "pcie_generation_max": {"DCGM_FI_DEV_PCIE_MAX_LINK_GEN": 1.0},
    "pcie_lanes": {"DCGM_FI_DEV_PCIE_LINK_WIDTH": 1.0},
    "pcie_lanes_max": {"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH": 1.0},
    "xid": {"DCGM_FI_DEV_XID_ERRORS": 1.0, "DCGM_FI_DEV_XID_ERROR": 1.0},
}
_RATES = ("received_bytes_per_s", "sent_bytes_per_s")
_FASTEST = 150e9  # bytes per second; PCIe 6.0 x16 moves less in one direction, so a larger value is a total
_BLANK_LOW, _BLANK_WIDTH, _BLANK_HIGH = 2.0**47, 16.0, 2.0**62  # DCGM_FP64_BLANK and DCGM_INT64_BLANK: not known
_OWN_PODS = re.compile(r"dcgm|gpu-operator|exporter")
_REPLICA = re.compile(r"(-(master|worker|launcher|chief|node))?-\d+$")  # in names from a training operator or a StatefulSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU, or one MIG slice. `job` is empty if no label says what runs on it."""

    host: str
    index: str
    name: str
    uuid: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs over a time window: for each metric, a row per GPU and a column per moment, NaN where unknown."""

    devices: tuple[Device, ...]
    times_s: Array
    step_s: float
    figures: Mapping[str, Array]

    def has(self, name: str) -> bool:
        """Return whether any GPU reports this metric."""
        return name in self.figures and bool(np.isfinite(self.figures[name]).any())

    def of(self, name: str) -> Array:
        """Return this metric; all NaN if no GPU reports it."""
        blank = np.full((len(self.devices), len(self.times_s)), np.nan)
        return self.figures.get(name, blank)


def read_fleet(server: Server, window: Window) -> Fleet:
    """Query every available metric, with one request each."""
    there = set(server.names("DCGM_FI_.*", window))
    wanted = {figure: [name for name in names if name in there] for figure, names in METRICS.items()}
    fleet = _fleet({figure: server.samples(names, window) for figure, names in wanted.items() if names}, window)
    if fleet.devices:
        return fleet
    known = " (it had some earlier)" if there else ""  # the server's list of names covers hours, not our window
    raise GpuwiseError(
        f"the Prometheus server at {server.address} has no DCGM metrics for this time window{known}",
        looked_in="metrics whose names start with DCGM_FI_DEV or DCGM_FI_PROF",
        hint="run NVIDIA's dcgm-exporter on each GPU host (https://github.com/NVIDIA/dcgm-exporter) and let Prometheus scrape"
        " its port 9400; to look further back, use a longer `--last`",
    )


def _fleet(found: Mapping[str, Samples], window: Window) -> Fleet:
    latest: dict[tuple[str, str], tuple[float, Mapping[str, str]]] = {}  # the most recent labels, because pods come and go
    owners = {figure: [_key(labels) for labels in samples.labels] for figure, samples in found.items()}
    for figure, samples in found.items():
        ends = np.full(len(samples.labels), -np.inf)
        np.maximum.at(ends, samples.series, samples.at_s)
        for key, end, labels in zip(owners[figure], ends.tolist(), samples.labels, strict=True):
            if key not in latest or end > latest[key][0]:
                latest[key] = (end, labels)
    carried = {key: labels for key, (_, labels) in latest.items()}
    keys = sorted(carried, key=lambda key: (_host(carried[key]), _order(carried[key])))
    rows = {key: row for row, key in enumerate(keys)}
    figures = {}
    for figure, samples in found.items():
        places = np.array([rows[key] for key in owners[figure]], dtype=np.int64)
        figures[figure] = _table(figure, samples, places, len(keys), window)
    devices = tuple(_device(carried[key]) for key in keys)
    return Fleet(devices=devices, times_s=window.times_s, step_s=window.step_s, figures=figures)


def _table(figure: str, samples: Samples, places: NDArray[np.int64], count: int, window: Window) -> Array:
    """Return a row per GPU and a column per moment. If a GPU reports two names for one metric, the first in METRICS counts."""
    table = np.full((count, len(window.times_s)), np.nan)
    names = np.array([labels.get("__name__", "") for labels in samples.labels], dtype=object)
    moment = np.rint((samples.at_s - window.start_s) / window.step_s)
    column = np.clip(moment, -1, table.shape[1]).astype(np.int64)
    values = _known(samples.values)
    inside = (column >= 0) & (column < table.shape[1]) & np.isfinite(values)
    for name, factor in reversed(METRICS[figure].items()):
        told = inside & (names == name)[samples.series]
        own = np.full_like(table, np.nan)
        own[places[samples.series[told]], column[told]] = values[told]
        table = np.where(np.isfinite(own), _scaled(name, own, factor), table)
    if figure.endswith("_fraction"):
        table = np.where(table <= 1.0 + 1e-6, table, np.nan)
    return _as_rates(table, window.step_s) if figure in _RATES else table


def _known(values: Array) -> Array:
    """Return NaN for DCGM's markers of unknown values, and for impossible negative values."""
    blank = ((values >= _BLANK_LOW) & (values < _BLANK_LOW + _BLANK_WIDTH)) | (values >= _BLANK_HIGH)
    return np.where(blank | (values < 0.0), np.nan, values)


def _scaled(name: str, table: Array, factor: float) -> Array:
    """Convert values to our unit. Before DCGM 4.7, GPU_UTIL_RATIO could also contain percentages."""
    if not name.endswith("_RATIO"):
        return table * factor
    percent = np.any(table > 1.0, axis=1, keepdims=True)
    return table * np.where(percent, 0.01, factor)


def _as_rates(table: Array, step_s: float) -> Array:
    """Return bytes per second. The exporter calls these metrics counters, but they are rates of the last second; old ones are
    totals.
    """
    if not np.isfinite(table).any():
        return table
    totals = np.nanmax(np.where(np.isfinite(table), table, 0.0), axis=1) > _FASTEST
    grown = np.diff(table, axis=1, prepend=np.nan) / step_s
    rates: Array = np.where(totals[:, None], np.where(grown >= 0, grown, np.nan), table)
    return rates


def _first(labels: Mapping[str, str], *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _key(labels: Mapping[str, str]) -> tuple[str, str]:
    part = labels.get("GPU_I_ID") or labels.get("gpu_i_id") or ""
    uuid = labels.get("UUID") or labels.get("gpu_uuid") or labels.get("uuid")
    return (uuid or f"{_host(labels)} {_first(labels, 'gpu', 'device')}", part)


def _host(labels: Mapping[str, str]) -> str:
    named = _first(labels, "Hostname", "hostname", "node", "kubernetes_node", "exported_instance")
    return named or _first(labels, "instance").rpartition(":")[0] or "unknown host"


def _order(labels: Mapping[str, str]) -> tuple[int, str, str]:
    index = _first(labels, "gpu", "device")
    digits = re.sub(r"\D", "", index)
    return int(digits or 0) if len(digits) < 10 else 0, index, _first(labels, "GPU_I_ID", "gpu_i_id")


def _device(labels: Mapping[str, str]) -> Device:
    part = _first(labels, "GPU_I_ID", "gpu_i_id")
    return Device(
        host=_host(labels),
        index=(_first(labels, "gpu", "device") or "?") + (f" slice {part}" if part else ""),
        name=_first(labels, "modelName", "model_name", "modelname") or "unknown GPU",
        uuid=_first(labels, "UUID", "gpu_uuid", "uuid"),
        job=_job(labels),
    )


def _job(labels: Mapping[str, str]) -> str:
    """Return the training job that a GPU belongs to, from the exporter's labels: a Slurm job, or pods that differ in their
    number.
    """
    if job := _first(labels, "hpc_job"):
        return f"job {job}"
    pod = _first(labels, "exported_pod", "pod")
    if not pod or _OWN_PODS.search(pod):
        return ""
    space = _first(labels, "exported_namespace", "namespace")
    return f"pods {space}/{_REPLICA.sub('', pod)}"
