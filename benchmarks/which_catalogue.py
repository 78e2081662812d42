"""How long it takes to rank every curated GPU on a task, with the fastest of twelve batch sizes and four precisions for each job.

    python benchmarks/which_catalogue.py

Prints the CPU time of the first question and of a second one in the same process, and that of importing numpy, which shows the
speed of the machine. The targets are 2 s and 0.3 s.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from gpuwise.advise.jobs import GRID, find_task
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.jobs import Asked, price_jobs

TASKS = ("learning", "nlp", "kaggle")


def ranked(task: str) -> int:
    """Rank the GPUs by the time of a run, and return their number."""
    jobs = find_task(task).jobs
    priced = price_jobs(jobs, load_catalog().curated, Asked(batch="auto", precision="auto"))
    names = set.intersection(*(set(found.paces) for found in priced))
    runs = {
        name: sum(job.samples / found.paces[name].samples_per_s for job, found in zip(jobs, priced, strict=True))
        for name in names
    }
    return len(sorted(runs, key=runs.__getitem__))


def main() -> None:
    """Rank, print."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    for task in TASKS:
        taken = []
        for _ in range(2):
            begun = time.process_time()
            count = ranked(task)
            taken.append(time.process_time() - begun)
        print(
            f"{task}: {count} GPUs, up to {len(GRID)} batches and 4 precisions: {taken[0]:.2f} s, then {taken[1]:.2f} s "
            f"({taken[0] / numpy_s:.1f} and {taken[1] / numpy_s:.1f} x import numpy)"
        )


if __name__ == "__main__":
    main()
