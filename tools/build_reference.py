"""Write docs/reference/commands.md from the commands, and the columns in catalogue.md from the reader of the tables, so that
both stay up to date.

python tools/build_reference.py
"""

from __future__ import annotations

from pathlib import Path

import typer.main

from gpuwise.hardware.tables import COLUMNS, OTHER_COLUMNS
from gpuwise.surfaces.cli.app import app

CATALOGUE = Path(__file__).parents[1] / "docs" / "reference" / "catalogue.md"
BEGIN, END = "<!-- columns: written by tools/build_reference.py -->\n", "<!-- end of columns -->\n"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
HEAD = """# Commands

`tools/build_reference.py` writes this page, and a test keeps it up to date. Answers go to stdout, and messages go to stderr.
Exit code 0 means that the question was answered. With `--strict`, exit code 1 means that the answer is "no". Exit code 2 means
that the question could not be understood or answered.
"""


def page() -> str:
    """The current content of the reference page."""
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {})
    return "\n".join([HEAD, *(_command(name, commands[name]) for name in commands)])


def _command(name: str, command: object) -> str:
    lines = [f"## gpuwise {name}", "", str(getattr(command, "help", "")), "", "| option | meaning |", "|---|---|"]
    for parameter in getattr(command, "params", []):
        spelling = ", ".join(f"`{option}`" for option in parameter.opts if option.startswith("-"))
        shown = spelling or f"`{parameter.metavar or parameter.name}`"
        lines.append(f"| {shown} | {parameter.help or ''} |")
    return "\n".join(lines) + "\n"


def catalogue() -> str:
    """The page about the tables, with the current columns."""
    head, _, rest = CATALOGUE.read_text(encoding="utf-8").partition(BEGIN)
    rows = [f"| `{header}` | `{column.field}` | {column.meaning} |" for header, column in COLUMNS.items()]
    rows += [f"| `{header}` | | {meaning} |" for header, meaning in OTHER_COLUMNS.items()]
    table = "\n".join(["| column | field of a `Gpu`, in SI | meaning |", "|---|---|---|", *rows])
    return f"{head}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    CATALOGUE.write_text(catalogue(), encoding="utf-8")
