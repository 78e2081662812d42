"""Adapts drawings made for white paper to a page's own text and background colours, light or dark."""

from __future__ import annotations

from gpuwise.render import look

__all__ = ["page_inks"]

_ROLES = {look.INK: "1", look.MUTED: ".72", look.GREY: ".5", look.GRID: ".16"}  # colours of ink, as shares of the page's own


def page_inks(within: str) -> str:
    """Rules of CSS for the drawings that this selector finds. A rule outweighs a colour that is written as an attribute."""
    inks = [
        f'{within} [{paint}="{colour}"]{{{paint}:currentColor;{paint}-opacity:{opacity}}}'
        for colour, opacity in _ROLES.items()
        for paint in ("fill", "stroke")
    ]
    return "".join(inks) + f'{within}>rect[fill="{look.BACKGROUND}"]{{fill:none}}'
