"""From a question's name and its options to the answer as JSON. Runs in worker processes, so everything here can be pickled."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpuwise.core.encoding import to_json
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.questions.common.options import Question
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.predict.batches import sweep
from gpuwise.questions.registry import QUESTIONS as DECLARED
from gpuwise.workload.language.find import is_known_name
from gpuwise.workload.store import zoo

__all__ = ["QUESTIONS", "answer", "warm"]

Options = Mapping[str, Any]
_OF_TEXT = ("predict", "compare", "cost")


def answer(question: str, options: Options) -> tuple[int, bytes]:
    """A status and one JSON object: the answer, or what could not be understood."""
    try:
        _only_named_models(question, options)
        return 200, to_json(QUESTIONS[question](options))
    except GpuwiseError as error:
        message = f"{error.message} (known values: {error.known})" if error.known else error.message
        told = {"error": message, "looked_in": error.looked_in, "hint": error.hint}
        return 400, to_json(told)
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
    answer("which", {"model": ["resnet50"]})
    answer("build", {"gpu": ["RTX 3090"]})


def _only_named_models(question: str, options: Options) -> None:
    """Refuse what would make this server read a file or run code: only models of the zoo are known by name alone, and language
    models whose sizes are in our tables, where a question asks for their text."""
    given = options.get("model") or []
    for name in [given] if isinstance(given, str) else [*given, *options.get("models", [])]:
        if not zoo.has(name) and not (question in _OF_TEXT and is_known_name(name)):
            near = ", ".join(zoo.close(name))
            hint = f"did you mean {near}?" if near else "use `gpuwise predict` on the command line for your own models"
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
