"""The style shared by all charts: colours, type, distances. Series also differ in shape, for colour-blind readers."""

from __future__ import annotations

__all__ = [
    "BACKGROUND",
    "FAINT",
    "FONT",
    "GREY",
    "GRID",
    "INK",
    "MUTED",
    "PALETTE",
    "PLAIN",
    "SHAPES",
    "SIZES",
    "WIDTH",
    "text_width",
]

# After Okabe and Ito, "Color universal design" (2008): told apart with every common colour blindness. Its yellow is too pale on
# white and stands last, darkened.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#6F5B9C", "#9A8700")
SHAPES = ("circle", "square", "triangle", "diamond")
PLAIN = "#4C6A88"  # bars that stand for no series
BACKGROUND = "#FFFFFF"
INK = "#1F2933"
MUTED = "#5F6C7B"
GRID = "#E6EAEE"
GREY = "#A9B4C0"
FAINT = 0.35
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
SIZES = {"title": 20.0, "subtitle": 13.0, "panel": 13.5, "label": 12.0, "tick": 11.0, "footer": 11.0}
WIDTH = 1160.0

_NARROW = frozenset("iljtfrI.,:;|!'()[] -")
_WIDE = frozenset("mwMW%@")


def text_width(text: str, size: float) -> float:
    """About how wide a text is, in pixels: fonts differ, so on the wide side."""
    return size * sum(0.38 if letter in _NARROW else 0.92 if letter in _WIDE else 0.62 for letter in text)
