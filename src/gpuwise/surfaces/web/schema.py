"""What a question takes over HTTP, made from the options it declares: the names of the command line, with types and bounds.

Left out: everything that names a file or code of the user. A request must not make the server read or run either.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Optional, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from gpuwise.questions.common.options import Declared, declared

__all__ = ["Body", "body_of"]

_Text = Annotated[str, Field(max_length=200)]
_Size = Annotated[str, Field(max_length=12)]


class Body(BaseModel):
    """A request body. Unknown fields are rejected, not ignored."""

    model_config = ConfigDict(extra="forbid")


@cache
def body_of(options: type) -> type[Body]:
    """The body of a question with these options."""
    offered: dict[str, Any] = {one.name: _field(one) for one in declared(options) if one.option.page}
    name = options.__name__.replace("Options", "Body")
    return create_model(name, __base__=Body, __doc__=options.__doc__, **offered)


def _field(one: Declared) -> tuple[Any, Any]:
    kind = _kind(one)
    if one.required:
        return kind, ...
    default = [] if one.kind == "names" else one.default
    return (Optional[kind] if one.optional else kind), default


def _as_list(given: object) -> object:
    """One name may be given without a list around it."""
    return [given] if isinstance(given, str) else given


def _kind(one: Declared) -> Any:
    option = one.option
    if one.kind == "names":
        return Annotated[list[_Text], BeforeValidator(_as_list), Field(min_length=option.least, max_length=option.most)]
    if one.kind == "size":
        return Union[_Size, Annotated[int, Field(ge=1, le=2**31 - 1)]]
    bounds = Field(ge=option.low, le=option.high, gt=option.above)
    if one.kind == "whole":
        return Annotated[int, bounds]
    if one.kind in ("number", "amount"):
        return Annotated[float, bounds, Field(allow_inf_nan=False)]
    return {"text": _Text, "flag": bool}[one.kind]
