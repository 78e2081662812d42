"""How many steps are predicted per second for ResNet-50 training, on the curated catalogue × 16 batch sizes × 4 precisions.

    python benchmarks/predictions.py

The same run also measures the import of numpy, which shows the speed of the machine. NeuSight's own figure is 0.11 s per
prediction.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.time.setting import default_stack
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings
from gpuwise.workload.store import zoo

PRECISIONS = ("fp32", "tf32", "amp", "bf16")
NEUSIGHT_S = 0.11


def main() -> None:
    """Load, predict, print."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = time.perf_counter() - begun
    gpus = load_catalog().curated
    setting = Setting(stack=default_stack(), host=find_host("desktop"))
    begun, count = time.perf_counter(), 0
    for precision in PRECISIONS:
        request = Request(model="resnet50", settings=Settings(precision=precision, optimizer="momentum"))
        steps = simulate(zoo.load("resnet50", request), gpus, setting, batch=2.0 ** np.arange(16), dtype=np.float32)
        count += steps.seconds.size
    taken = time.perf_counter() - begun
    print(f"{count:,} steps in {taken:.2f} s: {count / taken:,.0f} a second; NeuSight {1 / NEUSIGHT_S:.0f} a second")
    print(f"import numpy in the same run: {numpy_s * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
