"""Watches twelve slow training scripts, applies the fix from the first finding, and records the predicted and the actual gain.

    python tools/record_live.py                         # everything, into docs/benchmarks.md: 15 minutes on a quiet machine
    python tools/record_live.py --only keras --rounds 1 --no-page

Each script runs once under `gpuwise watch --json`. Then it runs unwatched, alternately with and without its fault, so that a busy
machine affects both equally. The overhead of watching is measured in the same way on the healthy script.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from gpuwise.core.files import write_whole
from live_scripts import SCRIPTS, Script

__all__ = ["HEADING", "main", "section", "spliced"]

ROOT = Path(__file__).parents[1]
HEADING = "## Gains that `watch` predicts, and gains from the fixes"
_MAJOR = 1.2  # the midpoint of a range above which a finding is major
_LONGEST_S = 300.0


def main() -> int:
    """Watch and fix each script, compare the gains and write the section. Exits with 1 if fewer than ten of the twelve fixes
    reach the lower end of their gain."""
    options = _options()
    chosen = [script for script in SCRIPTS if not options.only or script.name in options.only]
    rows = []
    for script in chosen:
        row = _row(script, options.rounds)
        rows.append(row)
        print(json.dumps(row), flush=True)
    cost = _cost(options.rounds) if any(not script.expected for script in chosen) else None
    text = section(rows, cost)
    if options.page is not None and not options.only:
        write_whole(options.page, spliced(options.page.read_text(encoding="utf-8"), text).encode())
    print(text)
    sick = [row for row in rows if row["fix"]]
    return 0 if sum(row["kept"] for row in sick) >= len(sick) * 10 / 12 else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the gains that watch predicts with the gains from the fixes.")
    parser.add_argument("--only", action="append", choices=[script.name for script in SCRIPTS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--no-page", dest="page", action="store_const", const=None)
    return parser.parse_args()


def _command(script: Script, state: str) -> list[str]:
    own = [str(ROOT / "tools" / "live_scripts.py"), script.name, state]
    if script.ranks == 1:
        return [sys.executable, *own]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={script.ranks}", *own]


def _ran(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"OMP_NUM_THREADS": "1", "GPUWISE_DATA": folder}
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=_LONGEST_S, check=False)  # noqa: S603


def _step_s(said: str) -> float:
    """The last step time that a script printed."""
    found = [line.split()[1] for line in said.splitlines() if line.startswith("seconds ")]
    if not found:
        raise SystemExit(f"a script printed no step time:\n{said[-2000:]}")
    return float(found[-1])


def _row(script: Script, rounds: int) -> dict[str, Any]:
    """What `watch` reports for one script, and the gain from its fix."""
    with tempfile.TemporaryDirectory() as folder:
        watch = [sys.executable, "-m", "gpuwise", "watch", "--json", "--", *_command(script, "sick")]
        done = _ran(watch, folder)
        if done.returncode or not done.stdout.strip():
            raise SystemExit(f"{script.name} under watch exited with {done.returncode}:\n{done.stderr[-3000:]}")
        findings = json.loads(done.stdout)["findings"]
        pairs = [
            (_step_s(_ran(_command(script, "sick"), folder).stdout), _step_s(_ran(_command(script, "fixed"), folder).stdout))
            for _ in range(rounds if script.expected else 0)
        ]
    major = [one for one in findings if (one["gain_low"] * one["gain_high"]) ** 0.5 >= _MAJOR]
    named = next((one for one in findings if one["code"] in script.expected), None)
    realised = median(sick / fixed for sick, fixed in pairs) if pairs else 1.0
    return {
        "script": script.name,
        "fix": script.fix,
        "first": findings[0]["code"] if findings else "",
        "right": (findings[0]["code"] in script.expected if findings else False) if script.expected else not major,
        "low": named["gain_low"] if named else None,
        "high": named["gain_high"] if named else None,
        "realised": realised,
        "kept": named is not None and realised >= named["gain_low"],
    }


def _cost(rounds: int) -> float:
    """How much longer a step of the healthy script takes while it is watched (marks and sampling, without the profiled steps)."""
    healthy = next(script for script in SCRIPTS if not script.expected)
    plain, watched = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(max(rounds, 1)):
            plain.append(_step_s(_ran(_command(healthy, "fixed"), folder).stdout))
            watch = [sys.executable, "-m", "gpuwise", "watch", "--json", "--no-profile", "--", *_command(healthy, "fixed")]
            watched.append(_step_s(_ran(watch, folder).stderr))
    return min(watched) / min(plain) - 1.0  # the runs that other work on the machine affected least


def section(rows: list[dict[str, Any]], cost: float | None) -> str:
    """The rows as a section of the page."""
    sick, well = [row for row in rows if row["fix"]], [row for row in rows if not row["fix"]]
    lines = [
        HEADING,
        "",
        f"This section was generated by `tools/record_live.py` ({date.today()}, {os.cpu_count()} CPU cores, no GPU). Each script",
        "has one known fault. We ran each script once under `gpuwise watch`. Then we ran it on its own, alternately with and",
        "without the fault.",
        "*Predicted* is the range of gains in the finding that names the fault, and *actual* is the median speed-up from the",
        "fix.",
        "",
        "| script | fix | first finding | predicted | actual | lower end reached |",
        "|---|---|---|---|---|---|",
    ]
    for row in sick:
        promised = f"{row['low']:.2f} to {row['high']:.2f}" if row["low"] is not None else "none"
        mark = "yes" if row["kept"] else "no"
        lines.append(
            f"| {row['script']} | {row['fix']} | {row['first'] or 'none'} | {promised} | {row['realised']:.2f} | {mark} |"
        )
    lines += [
        "",
        f"The first finding names the fault in {sum(row['right'] for row in sick)} of {len(sick)} scripts, and the fix "
        f"reached at least the lower end of the predicted range in {sum(row['kept'] for row in sick)} of {len(sick)}.",
    ]
    for row in well:
        lines.append(f"For a script without a fault, `watch` reported {'no' if row['right'] else 'a'} major finding.")
    if cost is not None:
        lines.append(
            f"Watching this script changed its step time by {cost:+.1%}. To compute this figure, we alternated watched and "
            "unwatched runs and compared the fastest of each, without the few profiled steps."
        )
    return "\n".join([*lines, ""])


def spliced(page: str, text: str, heading: str = HEADING) -> str:
    """The page with this section in place of the old one, or at the end. Later sections stay."""
    before, _, after = page.partition(heading)
    _, mark, others = after.partition("\n## ")
    return f"{before.rstrip()}\n\n{text.rstrip()}\n" + (f"\n## {others}" if mark else "")


if __name__ == "__main__":
    sys.exit(main())
