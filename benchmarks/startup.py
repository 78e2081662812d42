"""How long does `gpuwise gpus` take to answer, compared with importing numpy in the same run?

    .venv/bin/python benchmarks/startup.py

Runs both alternately, so that a noisy machine affects both equally, and prints medians and their ratio.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

COMMANDS = {
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "gpuwise --help": [sys.executable, "-m", "gpuwise", "--help"],
    "gpuwise gpus": [sys.executable, "-m", "gpuwise", "gpus"],
    "gpuwise gpus 3090": [sys.executable, "-m", "gpuwise", "gpus", "3090"],
    "gpuwise gpus --json": [sys.executable, "-m", "gpuwise", "gpus", "--json"],
}
ROUNDS = 15


def main() -> None:
    """Measure each command in turn for several rounds, not counting the first."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(ROUNDS + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
            if turn:
                seconds[name].append(time.perf_counter() - start)
    baseline = median(next(iter(seconds.values())))
    for name, times in seconds.items():
        print(f"{name:<26} {median(times) * 1e3:6.0f} ms  {median(times) / baseline:5.2f}x numpy")


if __name__ == "__main__":
    main()
