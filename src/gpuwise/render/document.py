"""An answer as one file to keep or send: an offline page without scripts, or Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import date
from urllib.parse import quote

from gpuwise import __version__
from gpuwise.render.inks import page_inks

__all__ = ["ENDINGS", "as_html", "as_markdown"]

ENDINGS = (".html", ".md")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_COLUMNS = re.compile(r"\S {2,}\S")
# Columns fold into each other when they wrap, so they scroll; sentences wrap, since nobody scrolls along a sentence. A figure
# that is drawn smaller than this cannot be read, so it scrolls too.
_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.2em;overflow-wrap:anywhere}pre{font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;margin:1.3em 0}"
    "pre.columns{white-space:pre;overflow-x:auto}pre.words{white-space:pre-wrap;overflow-wrap:anywhere}"
    "figure{margin:1.5em 0;overflow-x:auto}svg{display:block;max-width:100%;min-width:60em;height:auto}"
    "footer{color:GrayText;font-size:.9em}" + page_inks("figure svg")
)


def as_html(command: str, texts: Sequence[str], images: Sequence[str], today: date) -> str:
    """What was asked, the answer as it was printed, and its figures; everything is escaped."""
    said = "".join(_block(block) for text in texts for block in re.split(r"\n\s*?\n", _plain(text)))
    drawn = "".join(f"<figure>{image}</figure>\n" for image in images)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(command)}</title>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n'
        f"<h1><code>{html.escape(command)}</code></h1>\n{said}{drawn}<footer>{html.escape(_made(today))}</footer>\n</body></html>\n"
    )


def _block(block: str) -> str:
    """A table, or words."""
    kind = "columns" if _COLUMNS.search(block) else "words"
    return f'<pre class="{kind}">{html.escape(block)}</pre>\n'


def as_markdown(command: str, texts: Sequence[str], images: Sequence[tuple[str, str]], today: date) -> str:
    """The same for an issue or a wiki. `images` are titles and names of files beside this one: GitHub and most viewers show no
    image that is written into the Markdown itself."""
    said = [f"{_fence(text)}\n{_plain(text)}\n{_fence(text)}\n" for text in texts]
    shown = [f"![{_flat(title)}]({quote(name)})\n" for title, name in images]
    return "\n".join([f"# `{command}`\n", *said, *shown, f"{_made(today)}\n"])


def _plain(text: str) -> str:
    """Without the codes that make a terminal bold."""
    return _ESCAPES.sub("", text).strip("\n")


def _flat(title: str) -> str:
    """A title that cannot end the brackets it stands in, nor begin markup."""
    return re.sub(r"([\\\[\]<>`*_!])", r"\\\1", " ".join(title.split()))


def _fence(text: str) -> str:
    """Longer than any in the text."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _made(today: date) -> str:
    return f"gpuwise {__version__}, {today.isoformat()}. This report includes ranges, assumptions and data dates."
