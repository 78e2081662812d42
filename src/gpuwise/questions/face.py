"""Questions as Python functions: `gpuwise.predict("resnet50", gpu="RTX 3090", batch=64)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar, get_type_hints

__all__ = ["face"]

P = ParamSpec("P")
Options = TypeVar("Options")
Answer = TypeVar("Answer")


def face(options: Callable[P, Options], answer: Callable[[Options], Answer]) -> Callable[P, Answer]:
    """A function that takes the fields of the options class as its arguments, and answers."""

    def ask(*args: P.args, **kwargs: P.kwargs) -> Answer:
        return answer(options(*args, **kwargs))

    ask.__doc__ = options.__doc__
    ask.__signature__ = _signature(options)  # type: ignore[attr-defined]
    return ask


def _signature(options: Callable[..., object]) -> inspect.Signature:
    """That of the options class, with plain types."""
    hints = get_type_hints(options)
    given = inspect.signature(options)
    return given.replace(
        parameters=[one.replace(annotation=hints[one.name]) for one in given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
