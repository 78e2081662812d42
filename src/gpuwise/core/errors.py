"""What can go wrong with a question, and how it is told.

    GpuwiseError                the question could not be answered (exit code 2)
    ├── UnknownName             a name that is in none of our tables
    ├── BadValue                a value that does not parse, or that physics rules out
    ├── BadFile                 a file that is missing, cut, or not what it claims to be
    └── MissingExtra            an optional dependency that is not installed

Every error says what happened with its values, where we looked or which values are known, and a hint the reader can act on.
"It does not fit" or "no GPU here" are answers, not errors.
"""

from __future__ import annotations

__all__ = ["BadFile", "BadValue", "GpuwiseError", "MissingExtra", "UnknownName"]


class GpuwiseError(Exception):
    """A question that could not be understood or answered."""

    def __init__(self, message: str, *, looked_in: str = "", known: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.looked_in = looked_in
        self.known = known
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        if self.looked_in:
            lines.append(f"  looked in: {self.looked_in}")
        if self.known:
            lines.append(f"  known values: {self.known}")
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)


class UnknownName(GpuwiseError):
    """A GPU, architecture, link, node or model name that no table holds."""


class BadValue(GpuwiseError):
    """A value that does not parse, or that physics rules out."""


class BadFile(GpuwiseError):
    """A file that is missing, cut, unreadable, or not what it claims to be."""


class MissingExtra(GpuwiseError):
    """An optional dependency that this question needs and that is not installed."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package '{package}', which is not installed",
            hint=f'pip install "gpuwise[{extra}]"',
        )
