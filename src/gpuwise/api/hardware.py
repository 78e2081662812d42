"""Which GPUs are there, and what is known of them?"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.api.showing import Shown
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, Basis, as_dicts, assumed
from gpuwise.core.units import parse_memory
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.names import Match
from gpuwise.hardware.types import Gpu

__all__ = ["SORT_KEYS", "GpuAnswer", "GpuQuery", "gpus"]


# name -> (value to sort by, largest first?)
SORT_KEYS: Mapping[str, tuple[Callable[[Gpu], Any], bool]] = {
    "name": (lambda gpu: gpu.name.lower(), False),
    "memory": (lambda gpu: gpu.memory_bytes, True),
    "bandwidth": (lambda gpu: gpu.memory_bytes_per_s, True),
    "fp32": (lambda gpu: gpu.peak_flops_per_s.get("vector", {}).get("fp32", 0.0), True),
    "fp16": (lambda gpu: gpu.best_peak("fp16") or 0.0, True),
    "tdp": (lambda gpu: gpu.tdp_watts or 0.0, True),
    "year": (lambda gpu: gpu.launched_on or date.min, True),
    "price": (lambda gpu: gpu.launch_usd if gpu.launch_usd is not None else float("inf"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuery:
    """What to list: names, or filters over the whole catalogue."""

    names: tuple[str, ...] = ()
    arch: str = ""
    vendor: str = ""
    min_memory: str = ""
    year: str = ""
    sort: str = ""
    catalog: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer(Shown):
    """The GPUs asked for. `matches` says how each given name was understood; it is empty for a listing."""

    gpus: tuple[Gpu, ...]
    matches: tuple[tuple[str, Match], ...]
    data_date: date

    @property
    def assumptions(self) -> list[Assumption]:
        """What was taken for granted: how ambiguous names were read, and figures that nobody gave."""
        found = []
        for asked, match in self.matches:
            if match.others:
                others = ", ".join(gpu.name for gpu in match.others)
                found.append(assumed(f"gpu '{asked}'", match.gpu.name, f"could also be {others}", code="gpu_name"))
        for gpu in (match.gpu for _, match in self.matches):
            for field, fact in gpu.exceptions.items():
                if fact.basis is Basis.ASSUMED:
                    effect = fact.note or fact.source.title
                    found.append(assumed(f"{gpu.name} {field}", _plain(fact.value), effect, code="gpu_fact"))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The answer in the names of the JSON contract."""
        used = {source.id: source for gpu in self.gpus for source in _sources(gpu)}
        return {
            "gpus": [_gpu_dict(gpu) for gpu in self.gpus],
            "sources": {key: {"title": s.title, "url": s.url, "basis": s.basis.value} for key, s in used.items()},
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def gpus(query: GpuQuery) -> GpuAnswer:
    """The GPUs with these names, or those of the catalogue that pass the filters."""
    filters = _filters(query)
    if query.names and filters:
        raise BadValue(
            "names and filters cannot be combined", hint="give names to compare them, or filters to list the catalogue"
        )
    catalog = load_catalog(query.catalog)
    matches = tuple((name, catalog.find(name)) for name in query.names)
    chosen: Sequence[Gpu] = tuple(match.gpu for _, match in matches) if matches else catalog.gpus
    kept = tuple(gpu for gpu in chosen if all(test(gpu) for test in filters))
    return GpuAnswer(gpus=_sorted(kept, query.sort), matches=matches, data_date=tables.data_date())


def _sorted(kept: tuple[Gpu, ...], sort: str) -> tuple[Gpu, ...]:
    if not sort:
        return kept
    if sort not in SORT_KEYS:
        raise UnknownName(f"cannot sort by '{sort}'", looked_in=", ".join(SORT_KEYS), hint="for example `--sort bandwidth`")
    key, largest_first = SORT_KEYS[sort]
    return tuple(sorted(kept, key=key, reverse=largest_first))


def _filters(query: GpuQuery) -> list[Callable[[Gpu], bool]]:
    tests: list[Callable[[Gpu], bool]] = []
    if query.arch:
        wanted = _known(
            query.arch, {a.generation for a in tables.architectures().values()} | set(tables.architectures()), "architecture"
        )
        tests.append(lambda gpu: wanted in (gpu.architecture.id, gpu.architecture.generation))
    if query.vendor:
        vendor = _known(query.vendor, {a.vendor for a in tables.architectures().values()}, "vendor")
        tests.append(lambda gpu: gpu.vendor == vendor)
    if query.min_memory:
        floor = _memory(query.min_memory)
        tests.append(lambda gpu: gpu.memory_bytes >= floor)
    if query.year:
        first, last = _years(query.year)
        tests.append(lambda gpu: gpu.launched_on is not None and first <= gpu.launched_on.year <= last)
    return tests


def _known(name: str, known: set[str], kind: str) -> str:
    by_key = {entry.lower(): entry for entry in known}
    key = name.strip().lower().replace(" ", "-")
    if key in by_key:
        return by_key[key]
    near = difflib.get_close_matches(key, by_key, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(f'`{by_key[n]}`' for n in near)}?" if near else f"one of: {', '.join(sorted(known))}"
    raise UnknownName(f"no {kind} called '{name}'", looked_in=f"{len(known)} names", hint=hint)


def _memory(text: str) -> float:
    """`24`, `24GB` and `24 GiB` all mean 24 GiB here."""
    value = parse_memory(f"{text}GB" if text.strip().replace(".", "", 1).isdigit() else text)
    if value < 0:
        raise BadValue(f"memory of {text} is below zero", hint="for example `--min-memory 24GB`")
    return value


def _years(text: str) -> tuple[int, int]:
    """`2022` is that year, `2020-2023` the span, `2020-` from then on."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        low = int(first)
        high = (int(last) if last else 9999) if dash else low
    except ValueError:
        raise BadValue(
            f"'{text}' is not a year", hint="for example `--year 2022`, `--year 2020-2023` or `--year 2020-`"
        ) from None
    if low > high:
        raise BadValue(f"the years {text} end before they begin", hint=f"`--year {high}-{low}`?")
    return low, high


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sources(gpu: Gpu) -> list[Any]:
    return [gpu.source, *(fact.source for fact in gpu.exceptions.values())]


def _gpu_dict(gpu: Gpu) -> dict[str, Any]:
    plain = {
        field: getattr(gpu, field)
        for field in (
            "name aliases vendor segment chip sm_count core_count base_clock_hz boost_clock_hz matrix_clock_hz memory_bytes "
            "usable_memory_bytes slow_memory_bytes slow_memory_bytes_per_s "
            "memory_type memory_bus_bits memory_bytes_per_s l2_bytes l3_bytes tdp_watts power_min_watts "
            "power_max_watts pcie_generation pcie_lanes nvlink_generation nvlink_bytes_per_s slots cooler power_connectors "
            "launched_on launch_usd ecc display devices_per_board curated note"
        ).split()
    }
    return plain | {
        "architecture": gpu.architecture.id,
        "generation": gpu.architecture.generation,
        "compute_capability": gpu.architecture.capability,
        "peak_dense_flops_per_s": {"matrix": {}, "vector": {}} | dict(gpu.peak_flops_per_s),
        "published_flops_per_s": {
            engine: {dtype: value / gpu.devices_per_board for dtype, value in peaks.items()}
            for engine, peaks in gpu.published_flops_per_s.items()
        },
        "sources": {"default": {"source": gpu.source.id, "basis": gpu.source.basis.value}}
        | {field: {"source": fact.source.id, "basis": fact.basis.value} for field, fact in gpu.exceptions.items()},
    }
