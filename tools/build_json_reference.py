"""Write docs/reference/json.md: the keys of every command's `--json`, read from real answers, so that the page stays up to date.

python tools/build_json_reference.py
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import build_examples
from gpuwise.surfaces.cli.app import app

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "json.md"
# One question per command. `bench`, `watch` and `doctor` depend on the machine, and `validate` depends on its file.
QUESTIONS = (
    "gpus 'RTX 3090'",
    "models llama",
    "capture resnet18 --batch 64 --precision amp",
    "predict resnet50 --gpu 'RTX 3090'",
    "predict resnet18 --gpu 'RTX 3090' --gpu 'GTX 1070' --batch 8,64 --precision fp32,amp",
    "fit resnet50 --gpu 'RTX 3090' --batch 2048",
    "compare 'RTX 3090' 'RTX 4070 Ti' --model resnet50 --price 'RTX 3090=700' --price 'RTX 4070 Ti=600'",
    "which --model resnet50 --budget 800",
    "charts --gpu 'RTX 3090' --gpu 'RTX 4090' --work cnn,llm",
    "matters pcie-lanes",
    "cost --gpu 'RTX 3090' --cloud-price 2.14 --utilization 0.15",
    "prices 'H100 SXM 80GB'",
    "build --gpu '4x RTX 3090' --psu 1600",
    "plan bert-base --cluster '2x RTX 3090'",
    "sweep models.txt --gpus 'RTX 3090' --batches 1..4 --out table.csv --on here",
    "tune batch resnet50 --gpu 'RTX 3090'",
    "why trace.json",
)
HEAD = """# JSON

`tools/build_json_reference.py` writes this page from real output, and a test keeps it up to date. With `--json`, every command
prints one JSON object to stdout and nothing else. `POST /api/…` on [the web page](../guides/page.md) returns the same object.
Keys may be added but are never renamed or removed.

Quantities are in SI units, and the key names the unit: `_s` (seconds), `_bytes`, `_flops` (a count), `_flops_per_s`,
`_bytes_per_s`, `_hz`, `_watts`, `_usd`, `_kwh`, `_kg`. Shares end in `_fraction` and are between 0 and 1. `[]` stands for
each entry in a list, and `{…}` for each entry in an object whose keys are names. A value may be null if it is unknown.
`assumptions` (`name`, `value`, `basis`, `effect`) lists everything you did not specify, and `data_date` is the date of the data.
"""
_COMMON = ("assumptions", "data_date")
_TYPES = {bool: "yes or no", int: "number", float: "number", str: "text", type(None): "null"}


def page() -> str:
    """The current content of the reference page."""
    with build_examples.reader_folder() as folder:
        _write_trace(folder / "trace.json")
        (folder / "models.txt").write_text("resnet18\n", encoding="utf-8")
        return "\n".join([HEAD, *(_section(question) for question in QUESTIONS)])


def _write_trace(path: Path) -> None:
    """Write a small trace made by the tests' generator."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        making = importlib.import_module("making_traces")
    finally:
        sys.path.remove(str(ROOT / "tests"))
    making.training(load_us=6000.0).write(path)


def _section(question: str) -> str:
    result = CliRunner().invoke(app, [*shlex.split(question), "--json"])
    if result.exit_code != 0:
        raise SystemExit(f"gpuwise {question}: {result.exception or result.output}")
    kinds: dict[str, set[str]] = {}
    for key, kind in _leaves(json.loads(result.stdout), ""):
        if key.split(".")[0].removesuffix("[]") not in _COMMON:
            kinds.setdefault(key, set()).add(kind)
    rows = [f"| `{key}` | {_joined(found)} |" for key, found in kinds.items()]
    return "\n".join([f"## gpuwise {question}", "", "| key | type |", "|---|---|", *rows, ""])


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        named = all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in value)
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}".lstrip(".") if named else f"{key}.{{…}}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{key}[]")
    else:
        yield key, "list" if isinstance(value, list) else "object" if isinstance(value, dict) else _TYPES[type(value)]


def _joined(kinds: set[str]) -> str:
    return " or ".join(sorted(kinds, key=lambda kind: (kind == "null", kind)))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
