"""Does watching name the cause, and does the fix give the predicted gain? Runs every example, slow and fixed, in turn.

    python benchmarks/examples.py [NAME...]

Each pair is run twice (slow, fixed, fixed, slow), and the less disturbed run of each is used. Prints the first finding of the
slow run, the range of its gain, the actual speed-up of the fixed run (ratio of mean steady steps), and the first finding of the
fixed run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
PAIRS = {
    "slow_loader": ("fast_loader", "input_starved"),
    "one_worker": ("more_workers", "input_starved"),
    "sync": ("no_sync", "host_sync"),
    "tiny_batch": ("full_batch", "launch_bound"),
}


def watched(name: str) -> dict[str, Any]:
    """What `gpuwise watch --json` reports for an example."""
    command = [sys.executable, "-m", "gpuwise", "watch", "--json", "--", sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _mean_s(answer: dict[str, Any]) -> float:
    return float(answer["steps"]["mean_s"])


def main() -> None:
    """Every pair, PyTorch first."""
    chosen = sys.argv[1:] or [prefix + name for prefix in ("", "keras_") for name in PAIRS]
    right = inside = 0
    for name in chosen:
        prefix = "keras_" if name.startswith("keras_") else ""
        fixed, code = PAIRS[name.removeprefix("keras_")]
        runs = [watched(each) for each in (name, prefix + fixed, prefix + fixed, name)]
        before, after = (min(pair, key=_mean_s) for pair in ((runs[0], runs[3]), (runs[1], runs[2])))
        first = before["findings"][0] if before["findings"] else {"code": "-", "gain_low": 1.0, "gain_high": 1.0}
        realised = _mean_s(before) / _mean_s(after)
        within = first["gain_low"] <= realised <= first["gain_high"]
        right, inside = right + (first["code"] == code), inside + within
        rest = next((finding for finding in after["findings"] if finding["code"] == code), None)
        left = f"; still {rest['share_fraction']:.0%} of the fixed step" if rest else ""
        print(
            f"{name:<18} {first['code']:<16} predicted {first['gain_low']:.2f} to {first['gain_high']:.2f}, "
            f"realised {realised:.2f} {'inside' if within else 'OUTSIDE'}; fixed run: "
            f"{after['findings'][0]['code'] if after['findings'] else 'nothing found'}{left}",
            flush=True,
        )
    print(f"right cause first {right} of {len(chosen)}, realised speed-up in the range {inside} of {len(chosen)}")


if __name__ == "__main__":
    main()
