"""Writes docs/reference/commands.md from the commands themselves, so that the page cannot drift.

python tools/build_reference.py
"""

from __future__ import annotations

from pathlib import Path

import typer.main

from gpuwise.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
HEAD = """# Commands

Written by `tools/build_reference.py`; a test keeps it true. Answers go to stdout, talk to stderr. Exit codes: 0 answered; 1 the
answer is "no" where `--strict` asks for it; 2 the question could not be understood or answered.
"""


def page() -> str:
    """The reference page as it should be now."""
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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
