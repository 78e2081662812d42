"""How long does it take to load a workload of the zoo, beside importing numpy in the same run?

.venv/bin/python benchmarks/zoo_load.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from gpuwise.workload import zoo

ROUNDS = 7


def main() -> None:
    """Print the median of each model's load and the slowest of all, as a share of an import of numpy."""
    spent = {}
    for name in zoo.names():
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            zoo.load(name)
            times.append(time.perf_counter() - start)
        spent[name] = median(times)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = time.perf_counter() - start
    slowest = max(spent, key=lambda name: spent[name])
    print(f"{len(spent)} models: median {median(spent.values()) * 1e3:.1f} ms, slowest {slowest} {spent[slowest] * 1e3:.1f} ms")
    print(f"import numpy: {numpy_s * 1e3:.0f} ms; slowest load is {spent[slowest] / numpy_s:.2f}x of it")


if __name__ == "__main__":
    main()
