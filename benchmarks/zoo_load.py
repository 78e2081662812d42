"""How long does it take to load a workload of the zoo, beside importing numpy in the same run, and which take too long?

.venv/bin/python benchmarks/zoo_load.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from gpuwise.workload.store import zoo

ROUNDS = 7
MOST_S = 0.020


def main() -> None:
    """Print the load of all models by the wall clock and, for busy machines, by the processor time of this process."""
    wall = {name: _load_s(name, time.perf_counter) for name in zoo.names()}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = time.perf_counter() - start
    _show("wall clock", wall)
    _show("processor", {name: _load_s(name, time.process_time) for name in zoo.names()})
    print(f"import numpy: {numpy_s * 1e3:.0f} ms; slowest load is {max(wall.values()) / numpy_s:.2f}x of it")


def _load_s(name: str, clock: Callable[[], float]) -> float:
    """The median of several loads in one process."""
    times = []
    for _ in range(ROUNDS):
        start = clock()
        zoo.load(name)
        times.append(clock() - start)
    return median(times)


def _show(clock: str, spent: dict[str, float]) -> None:
    slowest = ", ".join(f"{name} {spent[name] * 1e3:.1f}" for name in sorted(spent, key=lambda name: -spent[name])[:5])
    above = sum(seconds > MOST_S for seconds in spent.values())
    print(f"{clock}: {len(spent)} models, median {median(spent.values()) * 1e3:.1f} ms, slowest {slowest} ms")
    print(f"{clock}: {above} of {len(spent)} above {MOST_S * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
