"""From the options of `matters` to its question."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.common.text.ask import TextQuery, asked_for_text, generates_unasked
from gpuwise.questions.common.text.bounds import check_text_bounds
from gpuwise.questions.common.text.options import TextOptions
from gpuwise.questions.matters.options import MOST_GPUS, MattersOptions
from gpuwise.questions.matters.topics import TOPICS, find_topic

__all__ = ["MattersQuery", "ask"]

_DEFAULT_GPU, _DEFAULT_MODEL = "RTX 3090", "resnet50"  # what most people ask about


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersQuery:
    """Topics, and the step or the generated text that they are answered for; `options` is that as the user gave it."""

    topics: tuple[str, ...]
    options: TextOptions
    asked: StepQuery | TextQuery
    gpu_count: int
    assumptions: tuple[Assumption, ...]


def ask(options: MattersOptions) -> MattersQuery:
    """One topic or all, for one model on one kind of GPU, checked and completed with stated defaults."""
    topics = (find_topic(options.topic),) if options.topic else tuple(TOPICS)
    if not 2 <= options.gpus <= MOST_GPUS:
        raise BadValue(f"invalid --gpus {options.gpus}", hint=f"give a number between 2 and {MOST_GPUS}")
    given = TextOptions(
        options.model or _DEFAULT_MODEL,
        gpu=options.gpu or _DEFAULT_GPU,
        batch=options.batch,
        seq=options.seq,
        image=options.image,
        precision=options.precision,
        mode=options.mode,
        phase=options.phase,
        cpu=options.cpu,
        pcie=options.pcie,
        weights=options.weights,
        engine=options.engine,
        users=options.users,
        prompt=options.prompt,
        output=options.output,
    )
    check_text_bounds(options)
    text = asked_for_text(given) if given.asks_for_text or generates_unasked(given.model) else None
    if text is not None and options.pcie:
        raise BadValue("--pcie does not apply to text generation", hint="use the topic `pcie-lanes`, or add `--mode train`")
    asked = text or step_query(given)
    if asked.gpus[0].is_cpu:
        raise BadValue(f"{the(asked.gpus[0].name)} is a CPU, but these topics are about GPUs", hint='try `--gpu "RTX 3090"`')
    notes = [
        *([] if options.model else [assumed("model", _DEFAULT_MODEL, "set yours with `--model`")]),
        *([] if options.gpu else [assumed("gpu", _DEFAULT_GPU, "set yours with `--gpu`")]),
    ]
    return MattersQuery(topics=topics, options=given, asked=asked, gpu_count=options.gpus, assumptions=tuple(notes))
