"""Error messages for an invalid command line: what is wrong, where to look, and a line that works."""

from __future__ import annotations

import difflib
import re
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.questions.registry import QUESTIONS
from gpuwise.surfaces.cli.commands import COMMANDS

__all__ = ["usage_error"]

# What people write, and what the command calls it. "" stands for a word too many.
_MEANT = {
    ("which", ""): "--model",
    ("which", "--gpu"): "--have",
    ("cost", ""): "--gpu",
    ("build", ""): "--gpu",
    ("plan", "--gpu"): "--cluster",
    ("plan", "--gpus"): "--cluster",
    ("sweep", "--gpu"): "--gpus",
    ("sweep", "--batch"): "--batches",
    ("sweep", "--precision"): "--precisions",
    ("compare", "--gpu"): "the names without an option",
    ("predict", ""): "--gpu",
    ("fit", ""): "--gpu",
}


def usage_error(fault: Any, command: str) -> BadValue:
    """What the parser of the command line says of a command, in our words; it is one of its `UsageError`s."""
    said = fault.format_message().split(" (Possible options")[0].rstrip(".")
    said = re.sub(r"Got (unexpected) extra (argument)(?:\(s\)|s)? \((.*)\)", r"\1 \2 '\3'", said)
    option = getattr(fault, "option_name", "") if "No such option" in said else ""
    if command not in COMMANDS:
        return _unknown_command(said)
    hints = []
    if meant := _MEANT.get((command, option)) if option or "unexpected" in said else None:
        hints.append(f"use {meant} instead.")
    elif near := getattr(fault, "possibilities", None):
        hints.append(f"did you mean {difflib.get_close_matches(option, near, n=1, cutoff=0.0)[0]}?")
    hints.append(f"{'Try' if hints else 'try'} `{_example(command)}`")
    return BadValue(
        f"gpuwise {command}: {said[:1].lower()}{said[1:]}",
        looked_in=f"the options listed by `gpuwise {command} --help`",
        hint=" ".join(hints),
    )


def _example(command: str) -> str:
    return QUESTIONS[command].example if command in QUESTIONS else f"gpuwise {command}"


def _unknown_command(said: str) -> BadValue:
    given = said.partition("'")[2].partition("'")[0]
    near = difflib.get_close_matches(given, COMMANDS, n=1)
    hint = f"did you mean `gpuwise {near[0]}`?" if near else "run `gpuwise --help` to list all commands"
    return BadValue(f"gpuwise: {said[:1].lower()}{said[1:].split('.')[0]}", known=", ".join(COMMANDS), hint=hint)
