"""What every answer can do for a person who looks at it: print as text, show itself in a notebook, be a chart.

How it looks is known in `report/`, which is named here and not imported: answers must not depend on their looks
(docs/decisions/0019-answers-name-their-looks.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

__all__ = ["Shown"]

_LOOKS = "gpuwise.surfaces.notebook"


class Shown:
    """An answer that can be looked at. `TEXT` and `FIGURE` name the functions that render and draw it; `says_no` where the answer
    is "no", which `--strict` turns into an exit code."""

    __slots__ = ()
    TEXT: ClassVar[str]
    FIGURE: ClassVar[str] = ""

    @property
    def says_no(self) -> bool:
        return False

    @property
    def exit_code(self) -> int:
        """What the command line exits with: 0, or the code of a program that it ran for the answer."""
        return 0

    def __init_subclass__(cls) -> None:
        """IPython takes the first of `__repr__` and `_repr_pretty_` that it meets; a dataclass has a `__repr__` of its own."""
        cls._repr_pretty_ = Shown._repr_pretty_  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, in the names of the JSON contract."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The text that the command line prints."""
        return str(_looks().text_of(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same where IPython runs in a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The text and the chart, for Jupyter."""
        return str(_looks().html_of(self))

    def figure(self, **options: Any) -> Any:
        """The chart of this answer as a Plotly figure. `which` has three (`chart="value"`), `charts` some more,
        `validate` four groupings (`by`)."""
        return _looks().plotly_of(self, **options)


def _looks() -> Any:
    return import_module(_LOOKS)
