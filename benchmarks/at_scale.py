"""Measures the cost of one answer, one captured model, one gigabyte of trace and one row of a sweep on this machine, and computes
from it the cost of a million users a day or a whole model hub. The figures are in `docs/concepts/scale.md`.

    python benchmarks/at_scale.py [--megabytes 1000]

Costs are seconds of one CPU core, so that a busy machine matters less, and peak memory of the process. Values that are assumed or
taken from other sources are in `FACTS` with their basis.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpuwise
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.runs.spread import spread
from gpuwise.questions.common.runs.tables import write_table
from gpuwise.questions.sweep.answer import COLUMNS, columns_of
from gpuwise.questions.sweep.ask import ask
from gpuwise.questions.sweep.block import block_of, decode
from gpuwise.questions.sweep.options import SweepOptions
from gpuwise.workload.store import zoo

# Each with its basis.
FACTS = {
    "models on the hub": (2e6, "https://huggingface.co/docs/hub: over 2M models"),
    "dollars an hour for 32 vCPUs and 64 GiB": (
        1.3566,
        "AWS c7i-flex.8xlarge, us-east-1, skypilot-org/skypilot-catalog @e385a0d34",
    ),
    "the same as spot": (0.6149, "the mean of five zones, same source"),
    "vCPUs a core": (2.0, "two threads of a core; assumed to be worth one core here"),
    "questions of a user a day": (10.0, "assumed"),
    "of them predict": (6.0, "assumed"),
    "of them fit": (2.0, "assumed"),
    "of them which": (2.0, "assumed, half of them about a model that the process has not met"),
    "busiest hour over the mean": (3.0, "assumed"),
    "share of questions that are new": (0.5, "assumed; the others are answered from memory"),
    "use of a core at the busiest hour": (0.5, "assumed, so that answers do not queue"),
    "hours of a night": (8.0, "assumed"),
}
ANSWERS: dict[str, Callable[[int], Any]] = {
    "predict, one GPU": lambda n: gpuwise.predict(model=MODELS[n % 4], gpu=[GPUS[n % 5]], batch=str(8 + n)),
    "fit, one GPU": lambda n: gpuwise.fit(model=MODELS[n % 4], gpu=[GPUS[n % 5]], batch=str(8 + n)),
    "which, a model it has met": lambda n: gpuwise.which(model=[MODELS[n % 4]], budget=500.0 + 10 * n),
    "which, a new model": lambda n: gpuwise.which(model=[zoo.names()[n]], budget=1500.0),
}
MODELS = ("resnet50", "bert-base", "gpt2", "unet")
GPUS = ("RTX 3090", "RTX 4090", "H100 SXM 80GB", "T4", "GTX 1080 Ti")
CAPTURED = ("timm:resnet50", "timm:vit_base_patch16_224", "bert", "gpt2", "llama")
WHY = "import sys; import gpuwise; gpuwise.why([sys.argv[1]])"


@dataclass(frozen=True)
class Cost:
    """CPU seconds, peak memory in bytes, and bytes of output."""

    cpu_s: float
    memory_bytes: float
    out_bytes: float


def main() -> None:
    """Measure, then compute."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="of the trace")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answers = {name: answered(ask) for name, ask in ANSWERS.items()}
        rows, swept = sweep(Path(folder))
        part_bytes, write_s = written(Path(folder))
        captures = {name: captured(name, Path(folder)) for name in CAPTURED}
        trace = traced(Path(folder), options.megabytes)
    print("one answer, worked out anew")
    for name, cost in answers.items():
        print(f"  {name:28} {told(cost)}, compressed")
    torch = ran([sys.executable, "-c", "import torch"], lambda: 0, {})
    print(f"one captured model\n  {'of which: import torch':28} {told(torch)}")
    for name, cost in captures.items():
        print(f"  {name:28} {told(cost)}")
    print(f"one gigabyte of trace\n  {'why':28} {told(trace)}")
    rates = f"{rows / swept.cpu_s:,.0f} rows a CPU second, {swept.out_bytes / rows:.0f} B a row"
    print(f"a sweep\n  {f'{rows:,} rows into Parquet':28} {told(swept)}; {rates}")
    print(f"  {'of which: one row written':28} {write_s * 1e6:.1f} CPU µs; its part takes {part_bytes:.0f} B before that")
    task_s = scheduled()
    print(f"Dask's scheduler and client\n  {'one task':28} {task_s * 1e3:.2f} CPU ms")
    service(answers)
    hub(list(captures.values()), rows, swept)
    points = fact("models on the hub") * len(load_catalog().gpus) * 22
    whole_s, whole_bytes = points * write_s, points * part_bytes
    print(f"  by the one who asks: {whole_s / 3600.0:,.0f} core hours to write, {whole_bytes / 1e12:.1f} TB of parts before")
    print(f"  by its scheduler: {2 * fact('models on the hub') * task_s / 3600.0:.1f} core hours for two tasks a model")


def answered(ask: Callable[[int], Any], count: int = 12) -> Cost:
    """The median over different questions, in a process that has answered before."""
    for number in range(4):  # one of each model
        ask(number)
    taken, size = [], 0
    for number in range(4, 4 + count):
        begun = time.process_time()
        text = json.dumps(ask(number).to_dict()).encode()
        taken.append(time.process_time() - begun)
        size = max(size, len(gzip.compress(text)))
    return Cost(statistics.median(taken), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, size)


def sweep(folder: Path) -> tuple[int, Cost]:
    """Eight models from the zoo on all GPUs at eleven batch sizes, in this process."""
    models = ("resnet50", "vgg16", "bert-base", "gpt2", "unet", "llama-2-7b", "resnet18", "bert-large")
    (folder / "models.txt").write_text("\n".join(models), encoding="utf-8")
    out, begun = folder / "rows.parquet", time.process_time()
    answer = gpuwise.sweep(folder / "models.txt", gpus="all", batches="1..1024", out=out, on="here")
    taken = time.process_time() - begun
    return answer.points, Cost(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, out.stat().st_size)


def written(folder: Path) -> tuple[float, float]:
    """Bytes per row in its part, and CPU seconds that the requesting process spends on each row of the table."""
    query = ask(SweepOptions(folder / "models.txt", gpus="all", batches="1..1024", out=folder / "again.parquet"))
    parts = [block_of(task) for task in query.tasks()[:6]]
    begun = time.process_time()
    write_table(folder / "again.parquet", COLUMNS, (columns_of(decode(data)) for data in parts))
    taken = time.process_time() - begun
    rows = len(parts) * len(load_catalog().gpus) * len(query.batches)
    return sum(map(len, parts)) / rows, taken / rows


def captured(name: str, folder: Path) -> Cost:
    """One model, captured again for a training step in fp32."""
    model = name
    if ":" not in name:
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps({"model_type": name}), encoding="utf-8")
        model = str(folder / name / "config.json")
    out = folder / f"{name.replace(':', '-')}.json.gz"
    command = [sys.executable, "-m", "gpuwise", "capture", model, "-o", str(out)]
    return ran(command, lambda: out.stat().st_size, {"GPUWISE_CACHE": str(folder / "cache")})


def traced(folder: Path, megabytes: int) -> Cost:
    """A Kineto trace from the tests' generator, repeated several times. The cost is scaled to a gigabyte."""
    sys.path.insert(0, str(Path(__file__).parent))
    from why import source_events, write_large

    path = folder / "large.json"
    write_large(path, source_events(None), megabytes * 10**6)
    size = path.stat().st_size
    cost = ran([sys.executable, "-c", WHY, str(path)], lambda: 0, {})
    return Cost(cost.cpu_s * 1e9 / size, cost.memory_bytes, 0)


def ran(command: Sequence[str], size: Callable[[], int], more: dict[str, str]) -> Cost:
    """A process and its child processes."""
    watch = (
        "import json, os, resource, subprocess, sys; command, more = json.loads(sys.argv[1]);"
        "done = subprocess.run(command, env={**os.environ, **more}, stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024); sys.exit(done.returncode)"
    )
    words = [sys.executable, "-c", watch, json.dumps([list(command), more])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.stderr}")
    cpu, memory = map(float, done.stdout.split())
    return Cost(cpu, memory, size())


def nothing(number: int) -> bytes:
    """A task that costs nothing except its transport."""
    return b""


def scheduled(count: int = 4000) -> float:
    """CPU seconds that Dask's client and scheduler, both in this process, spend on a task."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        begun = time.process_time()
        tasks = dict(enumerate(range(count)))
        spread(nothing, tasks, client.get_executor(), done=lambda number, data: None, lost=lambda task, reason: b"")
        return (time.process_time() - begun) / count


def told(cost: Cost) -> str:
    """As a line."""
    out = f", {cost.out_bytes / 1e3:,.0f} kB out" if cost.out_bytes else ""
    return f"{cost.cpu_s:7.3f} CPU s, {cost.memory_bytes / 1e9:.2f} GB{out}"


def fact(name: str) -> float:
    """A figure that is not measured here."""
    return FACTS[name][0]


def core_hour_usd(kind: str = "dollars an hour for 32 vCPUs and 64 GiB") -> float:
    """What a core costs for an hour."""
    return fact(kind) / 32.0 * fact("vCPUs a core")


def service(answers: dict[str, Cost]) -> None:
    """A million users a day."""
    each = {name: cost.cpu_s for name, cost in answers.items()}
    which_s = (each["which, a model it has met"] + each["which, a new model"]) / 2.0
    mix = {"predict": each["predict, one GPU"], "fit": each["fit, one GPU"], "which": which_s}
    answer_s = sum(fact(f"of them {name}") * taken for name, taken in mix.items()) / fact("questions of a user a day")
    asked = 1e6 * fact("questions of a user a day")
    busiest = asked / 86400.0 * fact("busiest hour over the mean")
    cores = busiest * fact("share of questions that are new") * answer_s / fact("use of a core at the busiest hour")
    memory = max(cost.memory_bytes for cost in answers.values())
    print("\na public service for a million users a day")
    print(f"  {asked:,.0f} questions a day, {busiest:,.0f} a second at the busiest hour, {answer_s:.2f} CPU s each")
    print(f"  {cores:,.0f} cores, {cores * memory / 1e9:,.0f} GB of memory with one worker a core")
    print(f"  {asked * max(cost.out_bytes for cost in answers.values()) / 1e9:,.0f} GB sent a day at most")
    print(f"  ${cores * 24.0 * core_hour_usd():,.0f} a day for the cores by the hour")


def hub(captures: list[Cost], rows: int, swept: Cost) -> None:
    """Every model of the hub on all GPUs in two precisions, every night."""
    models = fact("models on the hub")
    gpus = len(load_catalog().gpus)
    points = models * gpus * 11 * 2
    capture_s = 2 * statistics.mean(cost.cpu_s for cost in captures)  # once for each precision
    price_s = points / models * swept.cpu_s / rows
    hours = models * (capture_s + price_s) / 3600.0
    cores = hours / fact("hours of a night")
    memory = cores * max(cost.memory_bytes for cost in captures)
    print(f"\na nightly sweep of the hub: {models:,.0f} models × {gpus:,} GPUs × 11 batches × 2 precisions")
    print(f"  {points / 1e9:,.0f} billion rows, {points * swept.out_bytes / rows / 1e12:,.1f} TB")
    print(f"  a model: {capture_s:.1f} CPU s to capture, {price_s:.1f} CPU s to price")
    for name, share in (("all captured anew", 1.0), ("captures kept", 0.0)):
        whole = models * (share * capture_s + price_s) / 3600.0
        usd, spot = (whole * core_hour_usd(kind) for kind in ("dollars an hour for 32 vCPUs and 64 GiB", "the same as spot"))
        print(
            f"  {name}: {whole:,.0f} core hours, {whole / fact('hours of a night'):,.0f} cores, ${usd:,.0f} ({spot:,.0f} as spot)"
        )
    print(f"  memory: {memory / 1e12:.1f} TB over {cores:,.0f} cores, by the largest capture")


if __name__ == "__main__":
    main()
