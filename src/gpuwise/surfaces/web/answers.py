"""From a question's name and its options to the answer as JSON. Runs in worker processes, so everything here can be pickled."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from gpuwise.core.encoding import to_json
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.questions.common.options import Question
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.predict.batches import sweep
from gpuwise.questions.registry import QUESTIONS as DECLARED
from gpuwise.surfaces.web.own_models import Own, described, lent, named, without_folder
from gpuwise.workload.find import only_read
from gpuwise.workload.language.find import is_known_name
from gpuwise.workload.store import zoo

__all__ = ["LIKELY", "QUESTIONS", "answer", "warm"]

Options = Mapping[str, Any]
# what the first view offers to click, and therefore what is asked first: each purpose, without and with each budget
_PURPOSES: tuple[dict[str, Any], ...] = (
    {"task": "kaggle"},
    {"task": "learning"},
    {"task": "vision"},
    {"task": "llm-finetune"},
    {"model": ["llama-3-8b"]},
    {"model": ["sdxl"]},
    {"task": "research"},
)
_BUDGETS = (300.0, 800.0, 2000.0, 10000.0, 50000.0)
LIKELY: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("which", purpose) for purpose in _PURPOSES),
    *(("which", {**purpose, "budget": budget}) for purpose in _PURPOSES for budget in _BUDGETS),
    *(("which", {"budget": budget}) for budget in _BUDGETS),
)
_OF_TEXT = ("predict", "fit", "compare", "which", "cost", "matters")


def answer(question: str, options: Options, own: Sequence[Own] = ()) -> tuple[int, bytes]:
    """A status and one JSON object: the answer, or what could not be understood. `own` are the files that the options name."""
    folder = ""
    try:
        _only_named_models(question, options, {one.handle for one in own})
        with lent(options, own) as (given, folder), only_read():
            status, content = _answered(QUESTIONS.get(question, described), given)
        return status, without_folder(content, folder)
    except GpuwiseError as error:  # of a file that could not be lent
        return _refused(error)


def _refused(error: GpuwiseError) -> tuple[int, bytes]:
    message = f"{error.message} (known values: {error.known})" if error.known else error.message
    return 400, to_json({"error": message, "looked_in": error.looked_in, "hint": error.hint})


def _answered(work: Callable[[Any], dict[str, Any]], given: Any) -> tuple[int, bytes]:
    try:
        return 200, to_json(work(given))
    except GpuwiseError as error:
        return _refused(error)
    except Exception as fault:  # ours, not the user's: said as such, and seen in the log
        traceback.print_exc()
        said = {
            "error": f"internal error: {type(fault).__name__}",
            "looked_in": "",
            "hint": "please report this bug, and include the request",
        }
        return 500, to_json(said)


def warm() -> None:
    """Load what every question needs, so that the first one does not wait for it."""
    answer("predict", {"model": "resnet50", "gpu": ["RTX 3090"]})
    answer("which", {})
    answer("build", {"gpu": ["RTX 3090"]})


def _only_named_models(question: str, options: Options, own: Collection[str]) -> None:
    """Refuse what would make this server read a file or run code: only models of the zoo are known by name alone, language
    models whose sizes are in our tables, where a question asks for their text, and files that were dropped on the page."""
    for name in named(options):
        if name not in own and not zoo.has(name) and not (question in _OF_TEXT and is_known_name(name)):
            near = ", ".join(zoo.close(name))
            hint = f"did you mean {near}?" if near else "drop the file of your own model on the page, or use the command line"
            raise BadValue(f"unknown model '{name}'", looked_in=f"{len(zoo.names())} built-in models", hint=hint)


def _given(options: Options) -> dict[str, Any]:
    """Options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _sweep(options: Options) -> dict[str, Any]:
    given = _given(options)
    batches = given.pop("batches")
    return sweep(step_query(StepOptions(**given)), batches).to_dict()


def _declared(question: Question, options: Options) -> dict[str, Any]:
    """A question whose options are declared."""
    found: dict[str, Any] = question.answer(question.options(**_given(options))).to_dict()
    return found


QUESTIONS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "sweep": _sweep,
}
for _one in DECLARED.values():
    if _one.page:
        QUESTIONS[_one.name] = partial(_declared, _one)
