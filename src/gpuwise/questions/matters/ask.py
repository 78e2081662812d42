"""Turns the options of `matters` into its question."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.gpu_list import counted
from gpuwise.questions.common.language.ask import LanguageQuery, asked_for_text, generates_unasked
from gpuwise.questions.common.language.bounds import check_text_bounds
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import names
from gpuwise.questions.common.rigs import find_rigs
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.matters.options import MOST_GPUS, MattersOptions
from gpuwise.questions.matters.topics import TOPICS, find_topic

__all__ = ["MattersQuery", "ask"]

_DEFAULT_GPU, _DEFAULT_MODEL = "RTX 3090", "resnet50"  # what most people ask about
_OF_ONE_GPU, _OF_TWO_CARDS = ("ram-size",), ("mixed-cards",)  # topics that make sense for one GPU, and for two kinds of cards


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersQuery:
    """Topics, and the step or the generated text that they are answered for; `options` is that as the user gave it,
    and `other` a second card of another kind. `gpu_count` GPUs share a job in topics about several; the user has `held`."""

    topics: tuple[str, ...]
    options: LanguageOptions
    asked: StepQuery | LanguageQuery
    gpu_count: int
    held: int
    other: Gpu | None
    assumptions: tuple[Assumption, ...]


def ask(options: MattersOptions) -> MattersQuery:
    """One topic or all, for one model on one kind of GPU, checked and completed with stated defaults."""
    topics = (find_topic(options.topic),) if options.topic else tuple(TOPICS)
    typed = " + ".join(names(options.gpu))
    held, name = (1, typed) if "+" in typed or "=" in typed else counted(typed)
    count = _count(options.gpus, held, topics, given=bool(typed))
    gpu, other = _cards(name, topics)
    given = LanguageOptions(
        options.model or _DEFAULT_MODEL,
        gpu=gpu or _DEFAULT_GPU,
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
        raise BadValue(
            "--pcie does not apply to text generation",
            hint="leave it out: the topic `pcie-lanes` gives x16 to x1; or add `--mode train`",
        )
    asked = text or step_query(given)
    if asked.gpus[0].is_cpu:
        raise BadValue(f"{the(asked.gpus[0].name)} is a CPU, but these topics are about GPUs", hint='try `--gpu "RTX 3090"`')
    notes = [
        *([] if options.model else [assumed("model", _DEFAULT_MODEL, "set yours with `--model`")]),
        *([] if typed else [assumed("gpu", _DEFAULT_GPU, "set yours with `--gpu`")]),
    ]
    return MattersQuery(
        topics=topics,
        options=given,
        asked=asked,
        gpu_count=count,
        held=max(held, options.gpus or 1),
        other=other,
        assumptions=tuple(notes),
    )


def _count(gpus: int | None, held: int, topics: tuple[str, ...], *, given: bool) -> int:
    """Return how many GPUs share a job: as many as the user names, otherwise two where a topic is about several."""
    if gpus is not None and held > 1:
        raise BadValue(f"--gpus {gpus} and `{held}x` both give a number of GPUs", hint="leave out `--gpus`")
    fewest = 1 if topics == _OF_ONE_GPU else 2
    if gpus is None:
        gpus = held if held > 1 else fewest if given else 2
    if not fewest <= gpus <= MOST_GPUS:
        raise BadValue(f"invalid --gpus {gpus}", hint=f"give a number between {fewest} and {MOST_GPUS}")
    return gpus


def _cards(text: str, topics: tuple[str, ...]) -> tuple[str, Gpu | None]:
    """The card, and the other one of `RTX 3090 + RTX 4090`."""
    if "+" not in text or "=" in text:  # typed specs are one GPU
        return text, None
    if topics != _OF_TWO_CARDS:
        raise BadValue(
            f"`{text}` names two kinds of cards, but these topics are about one kind",
            hint=f'try `gpuwise matters mixed-cards --gpu "{text}"`, or compare sets with `gpuwise compare`',
        )
    (rig,), _ = find_rigs([text])
    if len(rig.parts) != 2 or rig.count != 2:
        raise BadValue(f"`{text}` is not a pair of cards", hint='name two cards: `--gpu "RTX 3090 + RTX 4090"`')
    first, second = (part for part, _ in rig.parts)
    if second.is_cpu:
        raise BadValue(f"{the(second.name)} is a CPU, but these topics are about GPUs", hint='try `--gpu "RTX 3090 + RTX 4090"`')
    return first.name, second
