"""The one way in which answers become JSON: no NaN and no infinity can leave, because JSON has no word for them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["to_json"]


def to_json(answer: Any, *, indent: int = 0) -> bytes:
    """The answer as JSON; a number that is not finite is unknown, which is null.

    >>> to_json({"step_s": float("nan"), "gains": [1.5, float("inf")]})
    b'{"step_s":null,"gains":[1.5,null]}'
    """
    text = msgspec.json.encode(answer)
    return msgspec.json.format(text, indent=indent) if indent else text
