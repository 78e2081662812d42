"""Turns the options of `capture` into its question."""

from __future__ import annotations

from gpuwise.questions.capture.options import CaptureOptions
from gpuwise.questions.common.capturing import CaptureQuery, capture_query
from gpuwise.questions.common.options import names

__all__ = ["ask"]


def ask(options: CaptureOptions) -> CaptureQuery:
    """One model, checked and completed with stated defaults."""
    return capture_query(
        model=options.model,
        arguments=names(options.arguments),
        batch=options.batch,
        seq=options.seq,
        image=options.image,
        precision=options.precision,
        mode=options.mode,
        optimizer=options.optimizer,
        implementation=options.optimizer_impl,
        accumulate=options.accumulate,
        checkpoint=options.checkpoint,
        channels_last=options.channels_last,
        clip=options.clip,
        compiled=options.compile,
        phase=options.phase,
        inputs=names(options.input),
        timeout_s=options.timeout,
        memory_limit=options.memory_limit,
        output=options.output,
    )
