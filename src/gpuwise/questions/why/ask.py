"""Turns the options of `why` into its question: one run, or many."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import names
from gpuwise.questions.why.options import WhyOptions

__all__ = ["FleetQuery", "RunQuery", "ask", "asks_many"]

_EACH = ("file", "folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The traces of one run, one for each rank; `compare` names the trace of another."""

    files: tuple[str, ...]
    model: str
    gpu: str
    compare: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetQuery:
    """Many runs; `each` says whether a run is a file or a folder."""

    files: tuple[str, ...]
    model: str
    gpu: str
    each: str
    on: str
    out: Path | None
    fresh: bool


def asks_many(options: WhyOptions) -> bool:
    """Whether each file or folder is a separate run."""
    return bool(options.each or options.on or options.out or options.fresh)


def ask(options: WhyOptions) -> RunQuery | FleetQuery:
    """Return the question, after checking it."""
    files = names(options.files)
    if not asks_many(options):
        return RunQuery(files=files, model=options.model, gpu=options.gpu, compare=options.compare)
    if options.compare:
        raise BadValue("--compare works only on a single run", hint="leave out --each, --on, --out and --fresh")
    each = options.each or "file"
    if each not in _EACH:
        raise BadValue(f"invalid --each '{each}'", known=", ".join(_EACH), hint="use `--each file` or `--each folder`")
    return FleetQuery(
        files=files, model=options.model, gpu=options.gpu, each=each, on=options.on, out=options.out, fresh=options.fresh
    )
