"""Jobs of known models that stand for kinds of work, for users who name no model. All are listed in `data/jobs.toml`."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.core.errors import UnknownName
from gpuwise.hardware.tables import parse_toml

__all__ = ["Job", "StandIn", "Task", "find_task", "stand_ins", "tasks"]


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


class StandIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model that stands for a kind of work. An empty `precision` is the usual one for each GPU; `precisions` are those that a
    chart shows; an empty `stack` is the usual software."""

    title: str
    model: str
    batch: int
    name: str = ""
    mode: str = "train"
    phase: str = ""
    seq: int | None = None
    precision: str = ""
    precisions: tuple[str, ...] = ("fp32", "16 bit")
    stack: str = ""


class _Jobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as it is written: tasks of `which`, and stand-ins by the question that uses them."""

    tasks: dict[str, Task]
    compare: tuple[StandIn, ...]
    charts: tuple[StandIn, ...]
    machine: tuple[StandIn, ...]


@cache
def _jobs() -> _Jobs:
    return msgspec.convert(parse_toml((files("gpuwise.advise") / "data" / "jobs.toml").read_text("utf-8")), _Jobs)


@cache
def tasks() -> dict[str, Task]:
    """Every task by name."""
    return {name: msgspec.structs.replace(task, name=name) for name, task in _jobs().tasks.items()}


def stand_ins(use: str) -> tuple[StandIn, ...]:
    """The jobs that stand for kinds of work in `compare`, in `charts`, or where a `machine` is judged."""
    found: tuple[StandIn, ...] = getattr(_jobs(), use)
    return found


def find_task(name: str) -> Task:
    """The task of this name, case and spacing forgiven."""
    wanted = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if wanted not in tasks():
        near = difflib.get_close_matches(wanted, tasks(), n=2, cutoff=0.6)
        hint = "did you mean " + " or ".join(f"`{other}`" for other in near) + "?" if near else "or name a model with `--model`"
        raise UnknownName(f"unknown task '{name}'", looked_in=", ".join(tasks()), hint=hint)
    return tasks()[wanted]
