"""Text from outside (a user's exception, a workload file) made harmless: no character that a terminal would act on."""

from __future__ import annotations

import unicodedata

__all__ = ["plain"]

_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format (such as bidirectional marks), lone surrogates, line ends


def plain(text: str) -> str:
    """The text with control characters and lone surrogates written out.

    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(_written(letter) if unicodedata.category(letter) in _ACTING else letter for letter in text)


def _written(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
