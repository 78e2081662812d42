"""Questions as Python functions: `gpuwise.predict("resnet50", gpu="RTX 3090", batch=64)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_type_hints

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import declared

__all__ = ["face"]

P = ParamSpec("P")
Options = TypeVar("Options")
Answer = TypeVar("Answer")

_HOLDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "size": (int, str),
    "amount": (int, float, str),
    "whole": (int,),
    "number": (int, float),
    "flag": (bool,),
    "file": (str, Path),
}


def face(options: Callable[P, Options], answer: Callable[[Options], Answer]) -> Callable[P, Answer]:
    """A function that takes the fields of the options class as its arguments and returns the answer."""
    name = answer.__module__.split(".")[-2]

    def ask(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            asked = options(*args, **kwargs)
        except TypeError as fault:
            told = str(fault).partition("() ")[2]
            raise BadValue(f"{name}() {told}", hint=f"help(gpuwise.{name}) lists its arguments") from None
        _check(name, asked)
        return answer(asked)

    ask.__name__ = ask.__qualname__ = name
    ask.__module__ = "gpuwise"
    ask.__doc__ = options.__doc__
    ask.__signature__ = _signature(options)  # type: ignore[attr-defined]
    return ask


def _check(name: str, asked: Any) -> None:
    """Reject values of the wrong type; for example, `compile="no"` must not count as true."""
    kind: type = type(asked)
    for one in declared(kind):
        value = getattr(asked, one.name)
        if value is None and not one.required and (one.optional or one.default is None):
            continue
        if not _holds(one.kind, value):
            hint = f"help(gpuwise.{name}) describes it: {one.option.help}"
            raise BadValue(f"{name}(): {one.name}={value!r} has the wrong type", hint=hint)


def _holds(kind: str, value: object) -> bool:
    if kind == "names":
        parts = [value] if isinstance(value, (str, Path)) else value
        return isinstance(parts, Sequence) and all(isinstance(part, (str, Path)) for part in parts)
    allowed = _HOLDS[kind]
    return isinstance(value, allowed) and not (isinstance(value, bool) and bool not in allowed)


def _signature(options: Callable[..., object]) -> inspect.Signature:
    """That of the options class, with plain types."""
    hints = get_type_hints(options)
    given = inspect.signature(options)
    return given.replace(
        parameters=[one.replace(annotation=hints[one.name]) for one in given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
