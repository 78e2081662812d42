"""The single place where answers become JSON. NaN and infinity are written as null, because JSON cannot represent them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["to_json"]


def to_json(answer: Any, *, indent: int = 0) -> bytes:
    """Encode the answer as JSON. Numbers that are not finite are unknown, so they become null.

    >>> to_json({"step_s": float("nan"), "gains": [1.5, float("inf")]})
    b'{"step_s":null,"gains":[1.5,null]}'
    """
    text = msgspec.json.encode(answer)
    return msgspec.json.format(text, indent=indent) if indent else text
