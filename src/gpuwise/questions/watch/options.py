"""The options of `watch` on the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

from gpuwise.questions.common.options import Names, Option

__all__ = ["WatchOptions"]

_PROMETHEUS = "Check all GPUs that this Prometheus server collects from DCGM exporters."
_LAST = "How far back to look with --prometheus, such as 90s or 2h (default: 10m)."


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Watch a training run and explain at the end why it was slow, as `gpuwise why` does. Ctrl-C ends the run early.

    The exit code is that of the watched command. With --json, the command's output goes to stderr. With --prometheus,
    show which GPUs in a cluster are idle, throttled, out of memory or slower than their peers.
    """

    command: Annotated[
        Names, Option(help="The command to run and watch.", argument=True, metavar="[--] COMMAND...", page=False)
    ] = field(default=(), kw_only=False)
    pid: Annotated[Optional[int], Option(help="Watch a running process instead; step times are not available.", page=False)] = (
        None
    )
    prometheus: Annotated[str, Option(help=_PROMETHEUS, metavar="URL", page=False)] = ""
    last: Annotated[str, Option(help=_LAST, page=False)] = ""
    model: Annotated[str, Option(help="The model being run; its step time is compared with the prediction.", page=False)] = ""
    precision: Annotated[str, Option(help="The precision for --model.", page=False)] = ""
    profile: Annotated[bool, Option(help="Profile a few steps of torch programs.", flag="--profile/--no-profile", page=False)] = (
        True
    )
