"""How long does it take to load a workload of the zoo, beside importing numpy in the same run, and which take too long?

.venv/bin/python benchmarks/zoo_load.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from gpuwise.workload import zoo

ROUNDS = 7
MOST_S = 0.020


def main() -> None:
    """Print the median load over all models, the slowest, and how many take more than MOST_S."""
    spent = {name: median(_load_s(name) for _ in range(ROUNDS)) for name in zoo.names()}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = time.perf_counter() - start
    slowest = sorted(spent, key=lambda name: -spent[name])
    print(f"{len(spent)} models: median {median(spent.values()) * 1e3:.1f} ms")
    print("slowest: " + ", ".join(f"{name} {spent[name] * 1e3:.1f} ms" for name in slowest[:5]))
    print(f"above {MOST_S * 1e3:.0f} ms: {sum(seconds > MOST_S for seconds in spent.values())}")
    print(f"import numpy: {numpy_s * 1e3:.0f} ms; slowest load is {spent[slowest[0]] / numpy_s:.2f}x of it")


def _load_s(name: str) -> float:
    start = time.perf_counter()
    zoo.load(name)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
