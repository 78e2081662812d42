"""Compare gpuwise with other tools on the same inputs in one run, and write the ratios to docs/benchmarks.md.

    python benchmarks/peers.py --evidence ../shared/evidence --traces ../shared/traces [--calculon DIR]

Each peer has its own environment under build/peers, made on first use. A peer that cannot be installed has no figure, and the
page says why. `--calculon` is a checkout of https://github.com/calculon-ai/calculon (PyPI has another package of that name).
`--only NAME` runs some of them and keeps the earlier results of the others. `--megabytes` and `--models` make it shorter.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import gpuwise
from gpuwise.core.files import write_whole

ROOT = Path(__file__).parents[1]
LIVE = "## Gains that `watch` predicts"
KEPT = ROOT / "build" / "peers"
sys.path.insert(0, str(Path(__file__).parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison. If it has no figures, `why` says what went wrong."""

    peer: str
    asked: str
    theirs: str = "–"
    ours: str = "–"
    ratio: str = "–"
    why: str = ""


class Absent(Exception):
    """Why a peer could not be measured."""


def environment(name: str, *packages: str, bare: tuple[str, ...] = ()) -> Path:
    """The Python of an environment with these packages (`bare` ones without their dependencies), which is created if
    necessary."""
    folder = KEPT / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            str(ROOT / "constraints.txt"),
        ]
        for command in ([*install, *packages], [*install, "--no-deps", *bare] if bare else []):
            done = subprocess.run(command, capture_output=True, text=True, check=False) if command else None  # noqa: S603
            if done is not None and done.returncode:
                raise Absent(f"it could not be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1][:200]}")
        (folder / "ready").touch()
    return python


# ---------------------------------------------------------------- the peers


def neusight(options: argparse.Namespace) -> list[Row]:
    """NeuSight's published predictions for its own labels, and ours from a fit that has not seen the row's GPU."""
    from gpuwise.evidence.e2e import questions
    from gpuwise.evidence.fits import left_out
    from gpuwise.evidence.score import score
    from gpuwise.evidence.tables import read_table
    from gpuwise.evidence.types import Table

    asked = "transformer training and inference steps in fp32"
    table = read_table(options.evidence / "e2e.csv")
    rows = [row for row, value in enumerate(table.columns.get("peer_prediction_ms", ())) if value]
    if not rows:
        raise Absent("the table of measurements contains none of its predictions")
    held = Table(kind=table.kind, columns={name: tuple(values[row] for row in rows) for name, values in table.columns.items()})
    found, skipped = questions(held, zoo_only=True)
    ours, theirs, unseen = [], [], left_out("gpu")
    for question in found:
        for answer in score([question], unseen.get(question.gpu.name)):
            ours.append(abs(answer.predicted_s / answer.measured_s - 1))
            theirs.append(abs(float(question.cells["peer_prediction_ms"]) / 1e3 / answer.measured_s - 1))
    if not ours:
        raise Absent("none of its rows could be predicted")
    gpus = ", ".join(sorted({question.gpu.name for question in found}))
    note = f"The comparison uses {len(ours)} of {len(rows)} rows. They were measured on these GPUs: {gpus}. NeuSight was "
    note += "trained on operators measured on the same GPUs, while each of our predictions comes from a fit without any rows for "
    note += "the GPU in question."
    if skipped:
        reasons = ", ".join(f"{reason} ({count} rows)" for reason, count in skipped.items())
        note += f" Rows that were left out: {reasons}."
    figures = [(name, pick(theirs), pick(ours)) for name, pick in (("median", np.median), ("mean", np.mean))]
    return [
        Row(
            peer="NeuSight",
            asked=f"{asked}: {name} error on the measurements that NeuSight published",
            theirs=f"{their:.1%}",
            ours=f"{own:.1%}",
            ratio=f"{own / their:.2f} times the error",
            why=note if name == "median" else "",
        )
        for name, their, own in figures
    ]


def hta(options: argparse.Namespace) -> list[Row]:
    """CPU time and peak memory of both tools when they read and diagnose the same large trace."""
    import why

    python = environment("hta", "HolisticTraceAnalysis")
    source = next(iter(sorted(options.traces.glob("kineto_resnet50_nw4*.json.gz"))), None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        why.write_large(path, why.source_events(source), options.megabytes * 10**6)
        size = path.stat().st_size / 1e6
        ours, theirs = why.alternately(path, str(python), rounds=3)
    asked = f"reading and diagnosing a {size:,.0f} MB Kineto trace"
    version = _version(python, "HolisticTraceAnalysis")
    note = f"HTA {version} loads the trace and computes four breakdowns. gpuwise loads the trace and runs all checks. "
    note += "We ran the two tools alternately, three times each. The table gives the lowest CPU time of each tool, gpuwise's "
    note += "highest memory peak and HTA's lowest."
    return [
        Row(
            peer="HTA",
            asked=f"{asked}: CPU time",
            theirs=f"{theirs[0]:.0f} s",
            ours=f"{ours[0]:.2f} s",
            ratio=f"{theirs[0] / ours[0]:.1f} times as fast",
            why=note,
        ),
        Row(
            peer="HTA",
            asked=f"{asked}: peak memory",
            theirs=f"{theirs[1] / 1e6:,.0f} MB",
            ours=f"{ours[1] / 1e6:,.0f} MB",
            ratio=f"{ours[1] / theirs[1]:.0%} of the memory",
        ),
    ]


def calculon(options: argparse.Namespace) -> list[Row]:
    """CPU time of both tools when they search all plans for Llama-2-70B on many GPUs."""
    import time

    import plan_search

    if options.calculon is None or not (options.calculon / "bin" / "calculon").exists():
        raise Absent("no checkout of it was given (`--calculon DIR`)")
    python = environment("calculon", "psutil", "numpy", "pandas")
    nodes, batch = options.calculon_nodes, 16 * options.calculon_nodes
    begun = time.process_time()
    tried = gpuwise.plan("llama-2-70b", cluster=f"{nodes}x8xH100 SXM", batch=batch, precision="bf16", scaling=False).tried
    ours = time.process_time() - begun
    try:
        theirs, count = plan_search.calculon(
            options.calculon, str(python), gpus=8 * nodes, batch=batch, seconds=options.calculon_seconds
        )
    except subprocess.CalledProcessError as fault:
        said = (fault.stderr + fault.stdout).strip().splitlines()
        raise Absent(f"its search failed: {said[-1][:200] if said else f'exit code {fault.returncode}'}") from None
    except subprocess.TimeoutExpired:
        raise Absent(f"its search took longer than {options.calculon_seconds:.0f} s by the clock of a busy machine") from None
    return [
        Row(
            peer="Calculon",
            asked=f"all plans for Llama-2-70B on {8 * nodes} H100 GPUs, batch size {batch}: CPU time",
            theirs=f"{theirs:.0f} s, {count:,} plans",
            ours=f"{ours:.1f} s, {tried:,} plans",
            ratio=f"{theirs / ours:.0f} times as fast, {(theirs / max(count, 1)) / (ours / tried):.1f} times as fast per plan",
            why="Each tool used one CPU core. We restricted Calculon to the part of its search space that is closest to ours, "
            "without offload, without overlap of tensor-parallel or data-parallel communication, and without debug records. "
            "The two tools define a plan differently.",
        )
    ]


def memory(options: argparse.Namespace) -> list[Row]:
    """Device memory for training timm models from families that we fitted nothing to."""
    import memory_estimators

    from gpuwise.evidence.memory import predicted_bytes

    python = environment(
        "memory", "torch", "accelerate", "numpy", "pyyaml", "pillow", "safetensors", bare=("timm", "torchvision")
    )
    asked = memory_estimators.chosen(options.evidence / "memory.csv", options.models)
    question = json.dumps([[entry.cells["model"], int(entry.batch)] for entry in asked])
    script = str(Path(__file__).with_name("peer_memory.py"))
    done = subprocess.run([str(python), script], input=question, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Absent(f"they failed: {done.stderr.strip().splitlines()[-1][:200]}")
    theirs = json.loads(done.stdout)
    measured = np.array([entry.measured_bytes for entry in asked])
    ours = np.median(np.abs(np.array([predicted_bytes(entry) for entry in asked]) / measured - 1))
    names = ", ".join(dict.fromkeys(str(entry.cells["model"]) for entry in asked))
    title = "device memory for training timm models on an A100: median error"
    note = f"The comparison uses {len(asked)} rows, for the smallest and largest batch sizes of {names}. "
    note += "This tool counts only weights, gradients and optimizer states."
    told = (
        ("accelerate estimate-memory", 0, note),
        (
            "torch MemTracker",
            1,
            "The comparison uses the same rows. This tool counts tensors, but not the overhead of the allocator or "
            "the CUDA context.",
        ),
    )
    return [
        Row(
            peer=f"{name} {_version(python, name.split()[0])}",
            asked=title,
            theirs=f"{(error := float(np.median(np.abs(np.array([row[place] for row in theirs]) / measured - 1)))):.1%}",
            ours=f"{ours:.1%}",
            ratio=f"{ours / error:.0%} of the error",
            why=why,
        )
        for name, place, why in told
    ]


PEERS: dict[str, tuple[str, Callable[[argparse.Namespace], list[Row]]]] = {
    "neusight": ("NeuSight", neusight),
    "hta": ("HTA", hta),
    "calculon": ("Calculon", calculon),
    "memory": ("accelerate estimate-memory, torch MemTracker", memory),
}


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


# ---------------------------------------------------------------- the page


def page() -> str:
    """The page with the stored results, in the order of the peers."""
    kept = {name: json.loads(path.read_text()) for name in PEERS if (path := KEPT / f"{name}.json").exists()}
    rows = [Row(**row) for entry in kept.values() for row in entry["rows"]]
    rows += [Row(peer=title, asked="not measured yet", why="") for name, (title, _) in PEERS.items() if name not in kept]
    runs = sorted({f"{entry['date']} at commit {entry['commit']}" for entry in kept.values()})
    lines = [
        "# Compared with other tools",
        "",
        f"This page was generated by `benchmarks/peers.py` ({'; '.join(runs)}; "
        f"Python {platform.python_version()}, {platform.machine()}).",
        "Each tool ran in its own environment and was measured in the same run as gpuwise, on a shared machine.",
        "The ratios are therefore more meaningful than the times.",
        "",
        "| tool | task and metric | tool result | gpuwise result | ratio |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {row.peer} | {row.asked} | {row.theirs} | {row.ours} | {row.ratio} |" for row in rows]
    notes = [f"- **{row.peer}**: {row.why}" for row in rows if row.why]
    return "\n".join([*lines, "", "## Notes", "", *notes, ""])


def keep(name: str, rows: list[Row]) -> None:
    """Store the results for one peer with the date and the commit."""
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"  # noqa: S603
    entry = {"date": str(date.today()), "commit": commit, "rows": [asdict(row) for row in rows]}
    KEPT.mkdir(parents=True, exist_ok=True)
    write_whole(KEPT / f"{name}.json", json.dumps(entry).encode())


def main() -> None:
    """Measure all peers, store their results and write the page."""
    options = _options()
    for name in options.only or PEERS:
        title, ask = PEERS[name]
        try:
            rows = ask(options)
        except Absent as reason:
            rows = [Row(peer=title, asked="not measured", why=str(reason))]
        keep(name, rows)
        print(*rows, sep="\n", flush=True)
    live = options.page.read_text(encoding="utf-8").partition(LIVE)  # written by tools/record_live.py
    write_whole(options.page, (page() + "".join(("\n", *live[1:]) if live[1] else ())).encode())
    print(f"written: {options.page}")


def _options() -> Any:
    parser = argparse.ArgumentParser(description="Compare gpuwise with its peers in one run.")
    parser.add_argument("--evidence", type=Path, required=True, help="folder with e2e.csv and memory.csv")
    parser.add_argument("--traces", type=Path, required=True, help="folder with Kineto traces")
    parser.add_argument("--calculon", type=Path)
    parser.add_argument("--calculon-seconds", type=float, default=1800.0)
    parser.add_argument("--calculon-nodes", type=int, default=64, help="nodes of eight GPUs that plans are searched for")
    parser.add_argument("--megabytes", type=int, default=480)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--only", action="append", choices=list(PEERS))
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
