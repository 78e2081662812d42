"""Helpers for printed text: escape control characters from outside, and list names in a sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["either", "plain"]

_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format (such as bidirectional marks), lone surrogates, line ends


def plain(text: str) -> str:
    """Return the text with control characters and lone surrogates escaped.

    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(_written(letter) if unicodedata.category(letter) in _ACTING else letter for letter in text)


def either(names: Iterable[str]) -> str:
    """Return the names as alternatives in a sentence, or an empty string if there are none.

    >>> either(["a"]), either(["a", "b"]), either(["a", "b", "c"])
    ('a', 'a or b', 'a, b or c')
    """
    known = list(names)
    return " or ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))


def _written(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
