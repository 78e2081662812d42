"""Turns the options of `watch` into its question: a command to run, a running process, or a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import names
from gpuwise.questions.watch.options import WatchOptions

__all__ = ["ClusterQuery", "CommandQuery", "ProcessQuery", "ask"]

_USUAL_WINDOW = "10m"  # long enough for stable averages, short enough to describe the present


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuery:
    """A command to run to its end."""

    command: tuple[str, ...]
    model: str
    precision: str
    profile: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQuery:
    """A process that is already running."""

    pid: int
    model: str
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuery:
    """The GPUs that a Prometheus server knows, over a recent period."""

    url: str
    last: str


def ask(options: WatchOptions) -> CommandQuery | ProcessQuery | ClusterQuery:
    """Return the question, checked: exactly one thing to watch, with options that apply to it."""
    command = names(options.command)
    if bool(command) + (options.pid is not None) + bool(options.prometheus) != 1:
        raise BadValue(
            "give either a command, --pid or --prometheus",
            hint="try `gpuwise watch -- python train.py`",
        )
    if options.prometheus:
        if options.model or options.precision or not options.profile:
            raise BadValue(
                "--model, --precision and --no-profile work only when you watch a command",
                hint="leave them out; a process ID or a Prometheus server provides no step times to compare",
            )
        return ClusterQuery(url=options.prometheus, last=options.last or _USUAL_WINDOW)
    if options.last:
        raise BadValue(
            "--last works only with --prometheus", hint="try `gpuwise watch --prometheus http://localhost:9090 --last 2h`"
        )
    if options.pid is not None:
        return ProcessQuery(pid=options.pid, model=options.model, precision=options.precision)
    return CommandQuery(command=command, model=options.model, precision=options.precision, profile=options.profile)
