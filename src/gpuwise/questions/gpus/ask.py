"""Turns the options of `gpus` into its question."""

from __future__ import annotations

from gpuwise.questions.common.gpu_list import GpuQuery, gpu_query
from gpuwise.questions.common.options import names
from gpuwise.questions.gpus.options import GpusOptions

__all__ = ["ask"]


def ask(options: GpusOptions) -> GpuQuery:
    """Names to look up, or filters over the whole catalogue."""
    return gpu_query(
        names(options.names),
        arch=options.arch,
        vendor=options.vendor,
        min_memory=options.min_memory,
        year=options.year,
        sort=options.sort,
        catalog=options.catalog,
    )
