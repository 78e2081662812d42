"""Turns the options of `gpus` into its question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpuwise.hardware import tables
from gpuwise.questions.common.gpu_list import GpuQuery, gpu_query
from gpuwise.questions.common.options import names
from gpuwise.questions.gpus.options import GpusOptions

__all__ = ["ask"]


_MEMORY = re.compile(r"(?<![\w.])(\d+)\s*gi?b\b")


def ask(options: GpusOptions) -> GpuQuery:
    """Names to look up, or filters over the whole catalogue."""
    options = _with_filters(options)
    return gpu_query(
        names(options.names),
        arch=options.arch,
        vendor=options.vendor,
        min_memory=options.min_memory,
        year=options.year,
        sort=options.sort,
        catalog=options.catalog,
    )


def _with_filters(options: GpusOptions) -> GpusOptions:
    """Return the options with words such as `amd 24 gb` as filters if there are only such words; they name no product."""
    found = _filters_in(names(options.names))
    if found is None or any(getattr(options, name) for name in found):
        return options
    arch, vendor, min_memory = (found.get(name) or getattr(options, name) for name in ("arch", "vendor", "min_memory"))
    return replace(options, names=(), arch=arch, vendor=vendor, min_memory=min_memory)


def _filters_in(words: Sequence[str]) -> dict[str, str] | None:
    """Return the vendor, architecture and memory in these words; None if they say anything else.

    >>> _filters_in(["amd", "24", "gb"])
    {'min_memory': '24GB', 'vendor': 'AMD'}
    >>> _filters_in(["RTX 3090"]) is None, _filters_in(["T4 16GB"]) is None
    (True, True)
    """
    text, found = " ".join(words).lower(), {}
    if memory := _MEMORY.search(text):
        found["min_memory"] = f"{memory[1]}GB"
        text = text.replace(memory[0], " ", 1)
    known = tables.architectures().values()
    vendors = {one.vendor.lower(): one.vendor for one in known}
    generations = {name: name for one in known for name in (one.id, one.generation)}
    for word in text.split():
        kind, names_of = ("vendor", vendors) if word in vendors else ("arch", generations)
        if word not in names_of or kind in found:
            return None
        found[kind] = names_of[word]
    return found or None
