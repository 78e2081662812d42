"""Write docs/checks/ from the docstrings of the checks, so that the pages stay up to date.

python tools/build_check_docs.py
"""

from __future__ import annotations

import importlib
from pathlib import Path

from gpuwise.diagnose.registry import CODES

FOLDER = Path(__file__).parents[1] / "docs" / "checks"
HEAD = """# What `gpuwise why` looks for

`tools/build_check_docs.py` writes this page from the checks themselves, and a test keeps it up to date. Shares refer to a mean
steady step and count overlapping intervals once. A gain is a speed-up factor: the upper end assumes that nothing else slows
the step down, and the lower end keeps the next limit in place.

| check | problem |
|---|---|
"""


def pages() -> dict[str, str]:
    """The current text of every page, by file name."""
    found = {f"{code}.md": _page(code) for code in CODES}
    rows = [f"| [`{code}`]({code}.md) | {_title(code)} |" for code in sorted(CODES)]
    return {"index.md": HEAD + "\n".join(rows) + "\n", **found}


def _docstring(code: str) -> str:
    return (importlib.import_module(f"gpuwise.diagnose.checks.{code}").__doc__ or "").strip()


def _title(code: str) -> str:
    return _docstring(code).partition("\n")[0].rstrip(".")


def _page(code: str) -> str:
    rest = _docstring(code).partition("\n")[2].strip()
    return f"# {code}: {_title(code)}\n\n{rest}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
