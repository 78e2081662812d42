"""Writes charts to files: `.svg` and stand-alone pages (`.html`) need nothing else installed, `.png` needs an SVG renderer."""

from __future__ import annotations

import html
from importlib.util import find_spec
from pathlib import Path

from gpuwise.core.errors import BadValue, MissingExtra
from gpuwise.core.files import check_place, write_whole
from gpuwise.render.chart import Figure
from gpuwise.render.svg import draw

__all__ = ["ENDINGS", "check_figure", "save"]

ENDINGS = (".svg", ".html", ".png")
_ZOOM = 2.0  # of a PNG: sharp on screens of high density


def check_figure(path: Path) -> None:
    """Whether a figure can be written here: asked before long work, not after it."""
    if path.suffix.lower() not in ENDINGS:
        raise BadValue(
            f"{path} does not have a supported figure file extension",
            known=", ".join(ENDINGS),
            hint=f"try `--figure {path.stem or 'figure'}.svg`",
        )
    check_place(path, "figure.svg")
    if path.suffix.lower() == ".png" and find_spec("resvg_py") is None:
        raise MissingExtra("resvg-py", extra="figures", needed_for="a .png figure (unlike .svg or .html)")


def save(figure: Figure, path: Path) -> None:
    """Write the figure whole or not at all."""
    check_figure(path)
    write_whole(path, _encoded(figure, path.suffix.lower()))


def _encoded(figure: Figure, ending: str) -> bytes:
    image = draw(figure)
    if ending == ".png":
        import resvg_py

        return bytes(resvg_py.svg_to_bytes(svg_string=image, zoom=_ZOOM))
    return (image if ending == ".svg" else _page(figure, image)).encode()


def _page(figure: Figure, image: str) -> str:
    """The image in a page that needs no other file and no network."""
    style = "body{margin:0;background:#fff}svg{display:block;margin:auto;max-width:100%;height:auto}"
    head = f'<meta charset="utf-8"><title>{html.escape(figure.title)}</title><style>{style}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{image}</body></html>\n'
