"""Records real CPU training runs that are slow for a known reason, and judges the diagnosis of `gpuwise why`.

    python tools/record_pathologies.py FOLDER            # record all cases and judge them
    python tools/record_pathologies.py FOLDER --judge    # judge earlier recordings

Each case is a training loop with one fault and the same loop without it. Both are timed without the profiler, so the actual gain
can be compared with the predicted range. One thread computes, and the machine's other cores are left for loader workers.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import torch

from gpuwise.diagnose.types import Finding
from gpuwise.questions.common.diagnosis import diagnose
from pathologies import CASES, Case

WARM_UP, ROUNDS = 3, 3


class Loop:
    """A training loop, one step at a time."""

    def __init__(self, case: Case, sick: bool) -> None:
        torch.manual_seed(0)
        self._with_stack = bool(case.where) or "compiling" in case.expected
        self._steps = case.steps
        batches, self._step = case.build(sick)
        self._feed = iter(batches)
        for _ in range(WARM_UP):
            self.step()

    def step(self) -> float:
        """One step, in seconds."""
        begun = time.perf_counter()
        self._step(next(self._feed))
        return time.perf_counter() - begun

    def record(self, path: Path) -> None:
        """Several steps under the profiler."""
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=0, warmup=2, active=self._steps, repeat=1),
            on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
            record_shapes=True,
            with_stack=self._with_stack,
        ) as profiler:
            for _ in range(self._steps + 2):
                self.step()
                profiler.step()


def run(case: Case, folder: Path, rank: int = 0, *, timed: bool = True) -> None:
    """Record the loop with the fault, and time both loops alternately, so that a busy machine affects both equally."""
    torch.set_num_threads(1)
    sick = Loop(case, True)
    sick.record(folder / f"{case.name}.rank{rank}.json")
    if not timed:
        return
    fixed = Loop(case, False)
    lengths: dict[str, list[float]] = {"sick": [], "fixed": []}
    for _ in range(ROUNDS):
        for _ in range(case.steps):
            lengths["sick"].append(sick.step())
        for _ in range(case.steps):
            lengths["fixed"].append(fixed.step())
    if rank == 0:
        seconds = {kind: mean(found) if case.uneven else quantiles(found, n=4)[0] for kind, found in lengths.items()}
        (folder / f"{case.name}.seconds").write_text(json.dumps(seconds), encoding="utf-8")


def _rank(rank: int, names: list[str], folder: str, ports: list[int], timed: bool) -> None:
    for name, port in zip(names, ports, strict=True):
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        case = next(case for case in CASES if case.name == name)
        torch.distributed.init_process_group("gloo", rank=rank, world_size=case.ranks)
        run(case, Path(folder), rank, timed=timed)
        torch.distributed.destroy_process_group()


def record(case: Case, folder: Path, *, timed: bool = True) -> None:
    """One case, on as many ranks as it needs."""
    if case.ranks == 1:
        run(case, folder, timed=timed)
    else:
        record_ranks([case], folder, timed=timed)


def record_ranks(cases: list[Case], folder: Path, *, timed: bool = True) -> None:
    """Run cases with the same number of ranks in the same processes, because starting processes takes longer than the cases."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in cases]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in sockets]
    names = [case.name for case in cases]
    torch.multiprocessing.spawn(_rank, args=(names, str(folder), ports, timed), nprocs=cases[0].ranks)


def first_finding(case: Case, folder: Path) -> tuple[str, tuple[Finding, ...]]:
    """The first finding that is more than minor, if any, and all findings."""
    answer = diagnose([str(path) for path in sorted(folder.glob(f"{case.name}.rank*.json"))])
    serious = [finding.code for finding in answer.findings if finding.severity != "minor"]
    return (serious or [""])[0], answer.findings


def is_right(case: Case, first: str) -> bool:
    """Whether the first finding names the fault, or there is no finding if there is no fault."""
    return first in case.expected if case.expected else not first


def is_located(case: Case, findings: Iterable[Finding]) -> bool:
    """Whether the finding that names the fault also names the function."""
    return any(case.where in finding.where for finding in findings if finding.code in case.expected) or not case.where


def judge(case: Case, folder: Path) -> dict[str, Any]:
    """What `why` reports, and whether the actual gain is in the range of the finding that names the fault."""
    first, findings = first_finding(case, folder)
    seconds = json.loads((folder / f"{case.name}.seconds").read_text(encoding="utf-8"))
    named = next((finding for finding in findings if finding.code in case.expected), None)
    realised = seconds["sick"] / seconds["fixed"]
    return {
        "case": case.name,
        "first": first or "-",
        "right": is_right(case, first) and is_located(case, findings),
        "realised": realised,
        "range": (named.gain.low, named.gain.high) if named else None,
        "inside": named is not None and named.gain.low <= realised <= named.gain.high,
    }


def main() -> None:
    """Record unless asked not to, then judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in CASES if options.case in ("", case.name)]
    for case in chosen:
        if not options.judge:
            record(case, options.folder)
    rows = [judge(case, options.folder) for case in chosen]
    for row in rows:
        low, high = row["range"] or (1.0, 1.0)
        marks = f"{'right' if row['right'] else 'WRONG':5}  {'inside' if row['inside'] else 'outside':7}"
        print(
            f"{row['case']:24} first {row['first']:22} {marks} realised {row['realised']:5.2f} predicted {low:.2f} to {high:.2f}"
        )
    sick = [row for row in rows if row["case"] != "healthy"]
    print(f"right cause first: {sum(row['right'] for row in sick)} of {len(sick)}; inside: {sum(row['inside'] for row in sick)}")


if __name__ == "__main__":
    main()
