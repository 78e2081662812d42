"""Generate docs/reference/checks.md from the docstrings of the checks, so that the page stays up to date.

python tools/build_check_docs.py
"""

from __future__ import annotations

import importlib
from pathlib import Path

from gpuwise.diagnose.registry import CODES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "checks.md"
HEAD = """# What `gpuwise why` looks for

`tools/build_check_docs.py` generates this page from the checks, and a test keeps it up to date. Shares are fractions of the mean
time of a steady step, and overlapping intervals count only once. A gain is a speed-up factor. Its upper end assumes that nothing
else slows the step down, and its lower end assumes that the next bottleneck remains.

| check | problem |
|---|---|
"""


def page() -> str:
    """Return the current content of the page."""
    rows = [f"| [`{code}`](#{code}) | {_title(code)} |" for code in sorted(CODES)]
    return HEAD + "\n".join(rows) + "\n" + "".join(f"\n{_part(code)}\n" for code in sorted(CODES))


def _docstring(code: str) -> str:
    return (importlib.import_module(f"gpuwise.diagnose.checks.{code}").__doc__ or "").strip()


def _title(code: str) -> str:
    return _docstring(code).partition("\n")[0].rstrip(".")


def _part(code: str) -> str:
    """Return one section. Its heading is only the code, so that links stay short and still work if the title changes."""
    rest = _docstring(code).partition("\n")[2].strip().replace("## ", "### ")
    return f"## {code}\n{_title(code)}.\n\n{rest}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
