"""Words for a command line that cannot be read: what is wrong, where to look, and a line that works."""

from __future__ import annotations

import difflib
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli.commands import COMMANDS

__all__ = ["usage_error"]

_EXAMPLES = {
    "gpus": 'gpuwise gpus "RTX 3090"',
    "capture": "gpuwise capture resnet50 --output resnet50.json",
    "predict": 'gpuwise predict resnet50 --gpu "RTX 3090"',
    "fit": 'gpuwise fit llama-2-7b --gpu "RTX 3090"',
    "compare": 'gpuwise compare "RTX 3090" "RTX 4070 Ti"',
    "which": "gpuwise which --model resnet50 --budget 800",
    "charts": "gpuwise charts --figure charts.html",
    "matters": "gpuwise matters pcie-lanes",
    "cost": 'gpuwise cost --gpu "RTX 3090" --cloud-price 2.14',
    "prices": "gpuwise prices",
    "build": 'gpuwise build --gpu "RTX 3090" --psu 850',
    "plan": 'gpuwise plan llama-2-7b --cluster "8x A100"',
    "sweep": "gpuwise sweep models.txt --gpus curated --batches 1..64 --out table.csv",
    "validate": "gpuwise validate",
    "why": "gpuwise why trace.json.gz",
    "watch": "gpuwise watch -- python train.py",
    "bench": "gpuwise bench",
    "tune": "gpuwise tune train.py",
    "serve": "gpuwise serve",
    "doctor": "gpuwise doctor",
}
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
    ("compare", "--gpu"): "the names alone",
    ("predict", ""): "--gpu",
    ("fit", ""): "--gpu",
}


def usage_error(fault: Any, command: str) -> BadValue:
    """What the parser of the command line says of a command, in our words; it is one of its `UsageError`s."""
    said = fault.format_message().split(" (Possible options")[0].rstrip(".")
    option = getattr(fault, "option_name", "") if "No such option" in said else ""
    if command not in COMMANDS:
        return _unknown_command(said)
    hints = []
    if meant := _MEANT.get((command, option)) if option or "unexpected extra argument" in said else None:
        hints.append(f"`gpuwise {command}` takes {meant} there")
    elif near := getattr(fault, "possibilities", None):
        hints.append(f"{difflib.get_close_matches(option, near, n=1, cutoff=0.0)[0]} is near")
    hints.append(f"for example `{_EXAMPLES[command]}`")
    return BadValue(
        f"gpuwise {command}: {said[:1].lower()}{said[1:]}",
        looked_in=f"what it takes (`gpuwise {command} --help`)",
        hint="; ".join(hints),
    )


def _unknown_command(said: str) -> BadValue:
    given = said.partition("'")[2].partition("'")[0]
    near = difflib.get_close_matches(given, COMMANDS, n=1)
    hint = f"did you mean `gpuwise {near[0]}`?" if near else "`gpuwise --help` says what each is for"
    return BadValue(f"gpuwise: {said[:1].lower()}{said[1:].split('.')[0]}", looked_in=", ".join(COMMANDS), hint=hint)
