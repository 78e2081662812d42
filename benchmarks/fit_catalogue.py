"""How long it takes to fit one zoo model to every curated GPU: memory, largest batch and step time.

    python benchmarks/fit_catalogue.py

Prints CPU time, next to that of importing numpy in the same run, which shows the speed of the machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import gpuwise

MODELS = ("resnet50", "bert-base-uncased", "gpt2-xl")


def main() -> None:
    """Fit, print."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    for model in MODELS:
        begun = time.process_time()
        answer = gpuwise.fit(model, all=True)
        taken = time.process_time() - begun
        count = len(answer.results)
        print(f"{model}: {count} GPUs in {taken:.2f} s, {count / taken:,.0f} a second, {taken / numpy_s:.1f} x import numpy")


if __name__ == "__main__":
    main()
