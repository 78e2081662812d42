"""What `watch` takes on the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

from gpuwise.questions.common.options import Names, Option

__all__ = ["WatchOptions"]

_PROMETHEUS = "A Prometheus server that scrapes DCGM exporters; look at all their GPUs."
_LAST = "How far back to look with --prometheus, such as 90s or 2h. [default: 10m]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Watch a training while it runs, and say at its end why it was slow, as `why` does. Ctrl-C ends it early.

    The exit code is that of the command; with --json the output of the command goes to stderr. With --prometheus: which GPUs of a
    cluster are idle, throttled, spilling or straggling.
    """

    command: Annotated[
        Names, Option(help="The command to run and watch.", argument=True, metavar="[--] COMMAND...", page=False)
    ] = field(default=(), kw_only=False)
    pid: Annotated[Optional[int], Option(help="Attach to a running process (no step times).", page=False)] = None
    prometheus: Annotated[str, Option(help=_PROMETHEUS, metavar="URL", page=False)] = ""
    last: Annotated[str, Option(help=_LAST, page=False)] = ""
    model: Annotated[str, Option(help="The model that runs; its step is compared with our prediction.", page=False)] = ""
    precision: Annotated[str, Option(help="The precision it runs in, for --model.", page=False)] = ""
    profile: Annotated[bool, Option(help="Record a few steps of torch programs.", flag="--profile/--no-profile", page=False)] = (
        True
    )
