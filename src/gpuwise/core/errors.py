"""The errors that gpuwise raises, and their text.

    GpuwiseError                the request could not be answered (exit code 2)
    ├── UnknownName             a name that is not in any table
    ├── BadValue                a value that cannot be parsed or is physically impossible
    ├── BadFile                 a file that is missing, truncated, or not what it claims to be
    └── MissingExtra            an optional dependency that is not installed

Every error says what happened and with which values, where gpuwise looked or which values are known, and what the user can do.
"It does not fit" and "no GPU here" are results, not errors.
"""

from __future__ import annotations

__all__ = ["BadFile", "BadValue", "GpuwiseError", "MissingExtra", "UnknownName"]


class GpuwiseError(Exception):
    """A request that could not be understood or answered."""

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
    """A GPU, architecture, link, node or model name that is not in any table."""


class BadValue(GpuwiseError):
    """A value that cannot be parsed or is physically impossible."""


class BadFile(GpuwiseError):
    """A file that is missing, truncated, unreadable, or not what it claims to be."""


class MissingExtra(GpuwiseError):
    """An optional dependency that is needed but not installed."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package '{package}', which is not installed",
            hint=f'run `pip install "gpuwise[{extra}]"`',
        )
