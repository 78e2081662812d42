"""Does it matter? One number for the user's own case, topic by topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.core.text import opening, the
from gpuwise.hardware import tables
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.face import face
from gpuwise.questions.matters.ask import MattersQuery, ask
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.language_case import LanguageCase
from gpuwise.questions.matters.links import WORTH_A_BRIDGE, asked_link, lost_at_x4
from gpuwise.questions.matters.options import MattersOptions
from gpuwise.questions.matters.topics import TEXT_TOPICS, TOPICS, text_topics
from gpuwise.questions.matters.types import Matter, MattersAnswer

__all__ = ["answer", "matters"]


def answer(options: MattersOptions, progress: Callable[[str], None] = lambda text: None) -> MattersAnswer:
    """One topic, or all, for this model on this GPU."""
    query = ask(options)
    if isinstance(query.asked, LanguageQuery):
        return _answer_for_text(query, LanguageCase(query=query.asked, count=query.gpu_count, held=query.held, cpu=options.cpu))
    case = MattersCase(
        query=query.asked,
        asked=query.options,
        progress=progress,
        count=query.gpu_count,
        held=query.held,
        other=query.other,
    )
    topics = tuple(TOPICS[name](case) for name in query.topics)
    if not (options.model or options.mode) and query.topics[1:] == () and query.topics[0] in _BY_GRADIENTS:
        topics = (_with_transformer(options, topics[0], progress),)
    step = case.step()
    return MattersAnswer(
        case=_describe_case(query.asked.capture.request.model, step) + (f" and {the(query.other.name)}" if query.other else ""),
        topics=topics,
        assumptions=(*query.assumptions, *step.assumptions),
        data_date=tables.data_date(),
    )


_BY_GRADIENTS = ("nvlink", "pcie-lanes", "pcie-gen")  # topics in which kinds of models differ much
_TRANSFORMER = "bert-base"


def _with_transformer(options: MattersOptions, matter: Matter, progress: Callable[[str], None]) -> Matter:
    """The same for a transformer, which exchanges more gradients relative to its work than a CNN."""
    query = ask(replace(options, model=_TRANSFORMER))
    if isinstance(query.asked, LanguageQuery):
        return matter
    case = MattersCase(query=query.asked, asked=query.options, progress=progress, count=query.gpu_count)
    other = TOPICS[matter.topic](case)
    value = other.value if other.together is None else other.together
    many = f"{opening(query.gpu_count)} GPUs training a transformer ({_TRANSFORMER}, batch {case.step().batch})"
    where = (f" over {link}" if (link := asked_link(case)) else " at x8") if matter.topic == "pcie-lanes" else ""
    less = f" and {100 * lost_at_x4(case):.0f}% slower at x4" if where == " at x8" else ""
    more = f"{many} are {value:.0f}% {'faster with NVLink' if matter.topic == 'nvlink' else f'slower{where}{less}'}."
    if matter.topic == "nvlink" and value >= 100 * WORTH_A_BRIDGE and matter.answer.startswith("No: "):
        answer = f"It depends on the model. {matter.answer.removeprefix('No: ')}"
        return replace(matter, unit=f"{matter.unit}; {value:.0f}% for a transformer", answer=f"{answer} {more}")
    return replace(matter, answer=f"{matter.answer} {more}")


def _answer_for_text(query: MattersQuery, case: LanguageCase) -> MattersAnswer:
    names = text_topics(query.topics, case)
    sharing = names in (("memory-adds-up",), ("nvlink",))  # these say themselves whether the model fits
    return MattersAnswer(
        case=case.describe(),
        topics=tuple(TEXT_TOPICS[name](case) for name in names),
        assumptions=(*query.assumptions, *case.query.assumptions, *(() if sharing else case.room_note())),
        data_date=tables.data_date(),
    )


def _describe_case(model: str, step: Prediction) -> str:
    size = f"batch {step.batch}" + (f", sequence {step.seq}" if step.seq else "")
    return f"{model} ({step.mode}, {step.precision}, {size}) on {the(step.gpu.name)}"


matters = face(MattersOptions, answer)
