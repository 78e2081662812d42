"""The `gpuwise fit` command to suggest if something does not fit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import RANK
from gpuwise.questions.common.step import StepQuery

__all__ = ["fit_command", "fit_of"]


def fit_command(model: str, cards: Sequence[Gpu], **options: object) -> str:
    """Return the command line. Options that are None, empty or off are omitted; flags that are on have no value.

    >>> fit_command("gpt2-xl", (), batch=4, seq=None, compile=True)
    'gpuwise fit gpt2-xl --batch 4 --compile'
    """
    known = {gpu.name for gpu in load_catalog().gpus}  # a typed GPU is named by all its specs
    words = ["gpuwise fit", shlex.quote(model), *(f'--gpu "{gpu.name if gpu.name in known else "…"}"' for gpu in cards)]
    for name, value in options.items():
        if value not in (None, "", False):
            words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(words)


def fit_of(query: StepQuery, cards: Sequence[Gpu]) -> str:
    """Return the command that asks `fit` the same question."""
    request, asked = query.capture.request, query.capture.asked
    settings = request.settings
    return fit_command(
        request.model,
        cards,
        gpus=query.run.gpu_count if query.run.gpu_count > 1 else None,
        batch="auto" if query.batch == 0 else query.batch,
        seq=request.seq,
        image=request.image,
        precision=settings.precision if "precision" in asked else None,
        mode=settings.mode if settings.mode != "train" and not request.phase else None,
        phase=request.phase,
        optimizer=settings.optimizer if "optimizer" in asked else None,
        compile=query.capture.compiled,
        checkpoint=settings.checkpoint,
        method=query.tuning.method if query.tuning else None,
        rank=query.tuning.rank if query.tuning and query.tuning.rank != RANK else None,
        targets=query.tuning.targets if query.tuning and query.tuning.targets != "all" else None,
        accumulate=settings.accumulate if settings.accumulate > 1 else None,
    )
