"""Helpers for printed text: escape control characters from outside, list names, and add articles and plurals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["a", "are", "both", "counted", "either", "opening", "plain", "plural", "share_of", "the"]

_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format (such as bidirectional marks), lone surrogates, line ends
_SEVERAL = re.compile(r"\d+ ?x[ A-Z]|.* \+ ")  # "2x T4", "RTX 3090 + T4"
_WORD = re.compile(r"[A-Za-z]?[a-z]+")
_OPENINGS = "No One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()
_SPOKEN_WITH_A_VOWEL = "AEFHILMNORSX"  # letters whose names begin with a vowel, as in "an RTX 3090"


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


def both(names: Iterable[str]) -> str:
    """Return the names as a list in a sentence, or an empty string if there are none.

    >>> both(["a"]), both(["a", "b"]), both(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    known = list(names)
    return " and ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))


def plural(number: str, noun: str) -> str:
    """Return a number, as it is shown, with its noun, which is in the plural unless the number is 1.

    >>> plural("1", "hour"), plural("1.5", "day"), plural("2", "copy"), plural("0", "process")
    ('1 hour', '1.5 days', '2 copies', '0 processes')
    """
    if number == "1":
        return f"{number} {noun}"
    many = f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {many}"


def counted(count: float, noun: str) -> str:
    """Return a rounded count with its noun.

    >>> counted(1, "kernel"), counted(1234, "kernel")
    ('1 kernel', '1,234 kernels')
    """
    return plural(f"{count:,.0f}", noun)


def opening(count: int) -> str:
    """Return a count that begins a sentence, in words up to twelve.

    >>> opening(2), opening(1024)
    ('Two', '1,024')
    """
    return _OPENINGS[count] if 0 <= count < len(_OPENINGS) else f"{count:,}"


def _written(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


# ---------------------------------------------------------------- names of devices in a sentence


def a(name: str) -> str:
    """Return the name with its indefinite article. A set of several GPUs takes none.

    >>> a("RTX 3090"), a("T4"), a("Arc A770"), a("Ryzen 7 5800X"), a("2x T4")
    ('an RTX 3090', 'a T4', 'an Arc A770', 'a Ryzen 7 5800X', '2x T4')
    """
    if _several(name):
        return name
    spelled = _WORD.match(name) is None
    return f"{'an' if name[:1] in (_SPOKEN_WITH_A_VOWEL if spelled else 'AEIOaeio') else 'a'} {name}"


def the(name: str, *, first: bool = False) -> str:
    """Return the name with its definite article, capitalised if it comes `first` in its sentence. A set of several GPUs takes
    none.

    >>> the("T4"), the("T4", first=True), the("2x T4"), the("RTX 3090 + T4")
    ('the T4', 'The T4', '2x T4', 'RTX 3090 + T4')
    """
    return name if _several(name) else f"{'The' if first else 'the'} {name}"


def are(name: str) -> str:
    """Return the verb for one GPU or for several.

    >>> are("T4"), are("2x T4")
    ('is', 'are')
    """
    return "are" if _several(name) else "is"


def share_of(ratio: float, what: str) -> str:
    """Return a ratio in words: a multiple from 1 upwards, a percentage below 1.

    >>> share_of(1.5, "the bandwidth"), share_of(0.42, "the bandwidth")
    ('1.50 times the bandwidth', '42% of the bandwidth')
    """
    return f"{ratio:.2f} times {what}" if ratio >= 0.995 else f"{100 * ratio:.2g}% of {what}"


def _several(name: str) -> bool:
    return _SEVERAL.match(name) is not None
