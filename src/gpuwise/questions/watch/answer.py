"""Why is the training run on this machine slow, or which GPUs in a cluster have problems?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.live.sample.command import follow, run_command
from gpuwise.live.sample.session import Session
from gpuwise.questions.watch.ask import ClusterQuery, CommandQuery, ProcessQuery, ask
from gpuwise.questions.watch.cluster import ClusterAnswer, watch_cluster
from gpuwise.questions.watch.judging import check_expected, judge
from gpuwise.questions.watch.options import WatchOptions
from gpuwise.questions.watch.types import WatchAnswer

__all__ = ["answer"]

_LONGEST_TITLE = 100  # characters: one line of text
Tick = Callable[[Session], None]
Lines = Callable[[str, bool], None]


def answer(
    options: WatchOptions,
    progress: Callable[[str], None] = lambda text: None,
    *,
    tick: Tick = lambda session: None,
    lines: Lines | None = None,
    stdout: int | None = None,
) -> WatchAnswer | ClusterAnswer:
    """Watch to the end and diagnose. `tick` is called periodically, `lines` with what a command prints; otherwise its output
    goes to the file `stdout`.
    """
    query = ask(options)
    if isinstance(query, ClusterQuery):
        progress(f"asking {query.url.rpartition('@')[2]}")
        return watch_cluster(query.url, last=query.last)
    check_expected(query.model, query.precision)
    if isinstance(query, ProcessQuery):
        return _watch_process(query, tick)
    return _watch_command(query, tick, lines, stdout)


def _watch_command(query: CommandQuery, tick: Tick, lines: Lines | None, stdout: int | None) -> WatchAnswer:
    run, session = run_command(query.command, window=query.profile, tick=tick, lines=lines, stdout=stdout)
    try:
        return judge(run, title=_title(query.command), model=query.model, precision=query.precision)
    finally:
        session.remove()


def _watch_process(query: ProcessQuery, tick: Tick) -> WatchAnswer:
    """A running process is observed from outside, so its steps are not visible."""
    run, session = follow(query.pid, tick=tick)
    session.remove()
    return judge(run, title=f"process {query.pid}", model=query.model, precision=query.precision)


def _title(command: Sequence[str]) -> str:
    """Return the command on one line of a readable length."""
    text = " ".join(" ".join(command).split())
    return text if len(text) <= _LONGEST_TITLE else text[: _LONGEST_TITLE - 1] + "…"
