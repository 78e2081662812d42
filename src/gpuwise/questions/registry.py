"""Every question by name: its options, its answer. A question is one folder here and one line below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["QUESTIONS", "Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question; its modules are imported when they are looked at. `page` where the page asks it too."""

    name: str
    page: bool = False

    @property
    def options(self) -> type:
        """The dataclass that declares what it takes: `questions/<name>/options.py`."""
        found: type = getattr(import_module(f"gpuwise.questions.{self.name}.options"), f"{self.name.capitalize()}Options")
        return found

    @property
    def answer(self) -> Callable[..., Any]:
        """From options (and a function that is told of progress) to the answer: `questions/<name>/answer.py`."""
        found: Callable[..., Any] = import_module(f"gpuwise.questions.{self.name}.answer").answer
        return found


QUESTIONS = {
    question.name: question
    for question in (
        Question("predict", page=True),
        Question("fit", page=True),
        Question("gpus", page=True),
        Question("prices"),
        Question("charts"),
        Question("build", page=True),
        Question("cost", page=True),
        Question("which", page=True),
        Question("compare", page=True),
        Question("plan", page=True),
        Question("matters", page=True),
        Question("capture"),
        Question("validate"),
        Question("doctor"),
        Question("why"),
        Question("bench"),
        Question("sweep"),
        Question("tune"),
        Question("watch"),
    )
}
