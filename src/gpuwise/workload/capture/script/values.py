"""Supplies neutral values when a script reads a tensor that has none, and notes the line that asked.

Numbers are 1, so that a script can divide by them, take their logarithm and use them as sizes; conditions are false, except that
`isfinite` is true. If the size of a result depends on values (`x[mask]`, `nonzero`), every element counts as selected.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

__all__ = ["Values"]

_MOST_LINES = 4


class Values:
    """Neutral values for one script, and the notes about them."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._lines: dict[str, list[str]] = {}

    @property
    def notes(self) -> list[str]:
        """Return one note for each kind of access, with the first lines that did it."""
        return [f"{text} ({', '.join(lines)})" for text, lines in self._lines.items()]

    def scalar(self, dtype: torch.dtype) -> float | int | bool | complex:
        """Return the value of a one-element tensor."""
        if dtype is torch.bool:
            self.note("a branch depends on tensor values, which are not available during a capture; false is assumed")
            return False
        if _called_by("grad_scaler.py"):
            return 0.0  # no infinite gradient: the step is taken
        self.note("data-dependent: a tensor value was read; 1 is assumed")
        return 1.0 if dtype.is_floating_point else 1j if dtype.is_complex else 1

    def array(self, tensor: torch.Tensor) -> Any:
        """Return a numpy array in place of the values of a whole tensor."""
        import numpy as np

        self.note("data-dependent: tensor values were read; 0 is assumed")
        name = str(tensor.dtype).removeprefix("torch.")
        return np.zeros(
            tuple(tensor.shape), dtype=name if hasattr(np, name) and name != "bool" else bool if name == "bool" else "float32"
        )

    def selection(self, func: Any, args: Any, kwargs: dict[str, Any], run: Callable[..., Any]) -> Any:
        """Return the result of an op whose size depends on values, as if every element were selected; NotImplemented if
        unknown.
        """
        self.note("data-dependent: the number of selected tensor elements is unknown; all are assumed")
        name, x = func._opname, args[0]
        if name == "nonzero":
            return x.new_empty((x.numel(), x.dim()), dtype=torch.int64)
        if name == "masked_select":
            return x.new_empty(math.prod(torch.broadcast_shapes(x.shape, args[1].shape)))
        if name == "index":
            return run(func, (x, [index for entry in args[1] for index in _positions(entry)], *args[2:]), kwargs)
        if name in ("_unique2", "unique_consecutive"):
            counted = x.new_empty(x.numel(), dtype=torch.int64)
            return x.new_empty(x.numel()), x.new_empty(x.shape, dtype=torch.int64), counted
        if name == "repeat_interleave" and len(args) == 1:
            return x.new_empty(x.numel(), dtype=torch.int64)
        return NotImplemented

    def note(self, text: str) -> None:
        """Remember that this happened, and at which line of the user's files."""
        line = self.line() or "in a library"
        lines = self._lines.setdefault(text, [])
        if line not in lines and len(lines) < _MOST_LINES:
            lines.append(line)

    def line(self) -> str:
        """Return the innermost line of the user's own files that is running."""
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self._folder) and "site-packages" not in name:
                return f"{Path(name).name} line {frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""


def _called_by(file: str) -> bool:
    frame, depth = sys._getframe(1), 0
    while frame is not None and depth < 12:
        if frame.f_code.co_filename.endswith(file):
            return True
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return False


def _positions(entry: Any) -> list[Any]:
    """Return the index tensors that a mask would represent if it were true everywhere."""
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8):
        return [entry.new_empty(entry.numel(), dtype=torch.int64) for _ in range(max(1, entry.dim()))]
    return [entry]
