"""Typical tasks as jobs of known models, for users who name no model."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.core.errors import UnknownName
from gpuwise.hardware.tables import parse_toml

__all__ = ["Job", "Task", "find_task", "tasks"]


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, run a number of samples. Sizes of None are the model's usual ones; `ways` says how it is run, best first."""

    model: str
    samples: float
    mode: str = "train"
    phase: str = ""
    batch: int | None = None
    seq: int | None = None
    ways: tuple[str, ...] = ("usual",)
    note: str = ""

    @property
    def unit(self) -> str:
        """What one sample is."""
        return "tokens" if self.phase == "decode" else "samples"


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that make up one run."""

    title: str
    jobs: tuple[Job, ...]
    name: str = ""


@cache
def tasks() -> dict[str, Task]:
    """Every task by name."""
    text = (files("gpuwise.advise") / "data" / "tasks.toml").read_text("utf-8")
    found = msgspec.convert(parse_toml(text), dict[str, Task])
    return {name: msgspec.structs.replace(task, name=name) for name, task in found.items()}


def find_task(name: str) -> Task:
    """The task of this name, case and spacing forgiven."""
    wanted = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if wanted not in tasks():
        near = difflib.get_close_matches(wanted, tasks(), n=2, cutoff=0.6)
        hint = "did you mean " + " or ".join(f"`{other}`" for other in near) + "?" if near else "or name a model with `--model`"
        raise UnknownName(f"unknown task '{name}'", looked_in=", ".join(tasks()), hint=hint)
    return tasks()[wanted]
