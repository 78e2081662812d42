"""Marks the steps of a watched run. Python imports this file at start-up if its folder is on PYTHONPATH (see the `site`
module).

It does nothing unless `GPUWISE_WATCH` names the folder for the marks; `GPUWISE_SETTINGS` changes settings for a run of `gpuwise
tune`. The user's own sitecustomize runs as well.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

__all__: list[str] = []

_HERE = Path(__file__).resolve().parent


def _begin(folder: str) -> None:
    steps = importlib.import_module("gpuwise_steps")
    wanted = os.environ.get("GPUWISE_SETTINGS")
    first = importlib.import_module("gpuwise_settings").setting_hooks(wanted, Path(folder)) if wanted else {}
    steps.mark_imports(steps.Marks(folder, window=os.environ.get("GPUWISE_WATCH_WINDOW") == "1"), first)


def _run_the_next() -> None:
    """The sitecustomize that this one hides."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("GPUWISE_WATCH") and __name__ == "sitecustomize":
    try:
        _begin(os.environ["GPUWISE_WATCH"])
    except Exception as fault:  # a run must not fail because it is watched
        sys.stderr.write(f"gpuwise watch: steps cannot be counted: {fault}\n")
    _run_the_next()
