"""Which GPUs of the catalogue a user means: by name, or by maker, architecture, memory and year."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either
from gpuwise.core.units import parse_memory
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import Match, load_catalog
from gpuwise.hardware.types import Gpu

__all__ = [
    "MOST_IN_A_MACHINE",
    "SORT_KEYS",
    "GpuQuery",
    "counted",
    "gpu_query",
    "how_many",
    "listed",
    "named_gpus",
    "on_which",
    "parse_min_memory",
    "set_name",
    "set_of",
]

MOST_IN_A_MACHINE = 8  # GPUs that boards and servers take
# A plus joins GPUs to a set, except in product names such as Ryzen AI Max+ 395.
_PLUS = re.compile(r"(?<!max)\+|(?<=max)\+(?!\s*(?:pro\s*)?\d{3}\b)", re.IGNORECASE)
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
    """What to list: names, or filters over the whole catalogue. `years` are the first and the last year of launch."""

    names: tuple[str, ...] = ()
    arch: str = ""
    vendor: str = ""
    min_memory_bytes: float = 0.0
    years: tuple[int, int] | None = None
    sort: str = ""
    catalog: Path | None = None


def gpu_query(
    names: Sequence[str] = (),
    *,
    arch: str = "",
    vendor: str = "",
    min_memory: str = "",
    year: str = "",
    sort: str = "",
    catalog: Path | None = None,
) -> GpuQuery:
    """The question as typed, checked."""
    known = tables.architectures().values()
    generations = {one.generation for one in known} | {one.id for one in known}
    if sort and sort not in SORT_KEYS:
        raise UnknownName(f"unknown sort key '{sort}'", known=", ".join(SORT_KEYS), hint="try `--sort bandwidth`")
    if names and any((arch, vendor, min_memory, year)):
        raise BadValue(
            "names and filters cannot be combined", hint="give names to compare GPUs, or filters to list the catalogue"
        )
    return GpuQuery(
        names=tuple(names),
        arch=_find_known(arch, generations, "architecture") if arch else "",
        vendor=_find_known(vendor, {one.vendor for one in known}, "vendor") if vendor else "",
        min_memory_bytes=parse_min_memory(min_memory) if min_memory else 0.0,
        years=_parse_years(year) if year else None,
        sort=sort,
        catalog=catalog,
    )


def listed(query: GpuQuery) -> tuple[tuple[Gpu, ...], tuple[tuple[str, Match], ...]]:
    """Return the GPUs with these names, or those in the catalogue that pass the filters, and how each name was understood."""
    filters = _filters(query)
    catalog = load_catalog(query.catalog)
    matches = tuple((name, catalog.find(name)) for name in query.names)
    chosen: Sequence[Gpu] = tuple(match.gpu for _, match in matches) if matches else catalog.gpus
    kept = tuple(gpu for gpu in chosen if all(test(gpu) for test in filters))
    return _sorted(kept, query.sort), matches


def _sorted(kept: tuple[Gpu, ...], sort: str) -> tuple[Gpu, ...]:
    if not sort:
        return kept
    key, largest_first = SORT_KEYS[sort]
    return tuple(sorted(kept, key=key, reverse=largest_first))


def _filters(query: GpuQuery) -> list[Callable[[Gpu], bool]]:
    tests: list[Callable[[Gpu], bool]] = []
    if query.arch:
        tests.append(lambda gpu: query.arch in (gpu.architecture.id, gpu.architecture.generation))
    if query.vendor:
        tests.append(lambda gpu: gpu.vendor == query.vendor)
    if query.min_memory_bytes:
        tests.append(lambda gpu: gpu.memory_bytes >= query.min_memory_bytes)
    if query.years:
        first, last = query.years
        tests.append(lambda gpu: gpu.launched_on is not None and first <= gpu.launched_on.year <= last)
    return tests


def _find_known(name: str, known: set[str], kind: str) -> str:
    by_key = {entry.lower(): entry for entry in known}
    key = name.strip().lower().replace(" ", "-")
    if key in by_key:
        return by_key[key]
    near = difflib.get_close_matches(key, by_key, n=2, cutoff=0.5)
    hint = f"did you mean {either(f'`{by_key[n]}`' for n in near)}?" if near else f"use one of these: {', '.join(sorted(known))}"
    raise UnknownName(f"unknown {kind} '{name}'", looked_in=f"{len(known)} names", hint=hint)


def parse_min_memory(text: str) -> float:
    """`24`, `24GB` and `24 GiB` all mean 24 GiB here."""
    value = parse_memory(f"{text}GB" if text.strip().replace(".", "", 1).isdigit() else text)
    if value < 0:
        raise BadValue(f"--min-memory must be zero or more, not {text}", hint="try `--min-memory 24GB`")
    return value


def _parse_years(text: str) -> tuple[int, int]:
    """`2022` is that year, `2020-2023` the span, `2020-` from then on."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        low = int(first)
        high = (int(last) if last else 9999) if dash else low
    except ValueError:
        raise BadValue(f"'{text}' is not a year", hint="try `--year 2022`, `--year 2020-2023` or `--year 2020-`") from None
    if low > high:
        raise BadValue(f"invalid range of years '{text}': it ends before it begins", hint=f"did you mean `--year {high}-{low}`?")
    return low, high


def set_of(text: str) -> list[str]:
    """Return the parts of a set of GPUs; a single GPU, or typed specs, are one part.

    >>> set_of("RTX 3090+RTX 3060"), set_of("Ryzen AI Max+ 395")
    (['RTX 3090', 'RTX 3060'], ['Ryzen AI Max+ 395'])
    """
    return [text] if "=" in text else _PLUS.split(text)


def named_gpus(texts: Sequence[str]) -> tuple[tuple[Gpu, ...], list[Assumption]]:
    """Return the GPUs that these names mean, each once, and how ambiguous names were read."""
    matches = [(name, load_catalog().find(name)) for name in texts]
    notes = [
        assumed(
            f"gpu '{name}'",
            match.gpu.name,
            "it could also be " + either(other.name for other in match.others),
            code="gpu_name",
        )
        for name, match in matches
        if match.others
    ]
    return tuple({match.gpu.name: match.gpu for _, match in matches}.values()), notes


def counted(text: str) -> tuple[int, str]:
    """Return how many of which GPU. More than two digits name a model.

    >>> counted("2x RTX 2080 Ti"), counted("7900 XTX")
    ((2, 'RTX 2080 Ti'), (1, '7900 XTX'))
    """
    match = re.fullmatch(r"\s*(\d{1,2})\s*[xX×*]\s*(\S.*)", text)
    if match is None:
        return 1, text
    count = int(match[1])
    if not 1 <= count <= MOST_IN_A_MACHINE:
        raise BadValue(
            f"invalid number of GPUs in '{text}'",
            hint=f"a machine can have 1 to {MOST_IN_A_MACHINE} GPUs; try `2x RTX 3090`",
        )
    return count, match[2].strip()


def how_many(given: Sequence[str], count: int) -> tuple[int, tuple[str, ...]]:
    """Return the number of GPUs of each kind and their names, if `--gpus` or the names themselves give it.

    >>> how_many(["2x RTX 3090"], 1), how_many(["RTX 3090", "T4"], 4)
    ((2, ('RTX 3090',)), (4, ('RTX 3090', 'T4')))
    """
    found = [counted(name) for name in given]
    numbers = {number for number, _ in found}
    if numbers <= {1}:
        return count, tuple(name for _, name in found)
    if len(numbers) > 1:
        raise BadValue(
            f"the GPU names specify different counts: {' and '.join(str(one) for one in sorted(numbers))}",
            hint='give each name the same count, such as `--gpu "2x RTX 3090" --gpu "2x RTX 4090"`, or run one command per count',
        )
    (number,) = numbers
    if count not in (1, number):
        raise BadValue(f"`--gpus {count}` and '{given[0]}' specify different counts", hint="leave out one of them")
    return number, tuple(name for _, name in found)


def set_name(gpu: Gpu, count: int) -> str:
    """Return the name of this many of a GPU, as people write it; a set of several kinds has its own name.

    >>> from gpuwise.hardware.catalog import load_catalog
    >>> set_name(load_catalog().find("RTX 3090").gpu, 2)
    '2x RTX 3090'
    """
    return gpu.name if count == 1 or " + " in gpu.name else f"{count}x {gpu.name}"


def on_which(gpu: Gpu, count: int) -> str:
    """Return where a number of bytes is held: on each GPU, or on the fullest in a set of several kinds."""
    return "" if count == 1 else " on the fullest GPU" if " + " in gpu.name else " on each GPU"
