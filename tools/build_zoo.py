"""Captures the models in the zoo and writes them to `src/gpuwise/workload/data/zoo/`, with an index.

    python tools/build_zoo.py                 capture missing models
    python tools/build_zoo.py resnet50 gpt2   capture these again
    python tools/build_zoo.py --force         capture all again
    python tools/build_zoo.py --verify        compare every stored graph with a direct capture at a size not used in its fit

Needs torch, torchvision, timm and transformers. Runs one process per core and can be stopped and restarted: each model is written
when it is done. Prints the size, time, coverage and unknown ops of each.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.edit import workload_of
from gpuwise.workload.store import packing, zoo

DATA = Path(zoo.__file__).parents[1] / "data" / "zoo"
BUDGET_BYTES = 3_000_000


class Report(msgspec.Struct):
    """What is printed about one model."""

    name: str
    cpu_s: float
    lines: list[str]
    entry: zoo.Entry | None = None


def main() -> int:
    """Build or verify the models, and print the results."""
    arguments = _arguments()
    wanted = _wanted(arguments)
    print(f"{len(wanted)} models, {arguments.jobs} processes", flush=True)
    failed, started, cpu_s = [], time.monotonic(), 0.0
    for report in _run(verify if arguments.verify else build, wanted, arguments.jobs):
        print(f"{report.name}  {report.cpu_s:.0f} s", *report.lines, sep="\n    ", flush=True)
        cpu_s += report.cpu_s
        if report.entry is not None:
            _write_index(report.entry)
        elif not arguments.verify or report.lines:
            failed.append(report.name)
    _finish(failed, time.monotonic() - started, cpu_s)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Capture the models of the zoo.")
    parser.add_argument("names", nargs="*", help="models to build anew; without names, those that are missing")
    parser.add_argument("--force", action="store_true", help="build all anew")
    parser.add_argument("--verify", action="store_true", help="compare with direct captures instead of building")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    return parser.parse_args()


def _catalogue() -> dict[str, Any]:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    from zoo.catalogue import models

    return models()


def _wanted(arguments: argparse.Namespace) -> list[str]:
    known = list(_catalogue())
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        sys.exit(f"error: no model called {', '.join(unknown)} in tools/zoo")
    if arguments.names:
        return list(arguments.names)
    stored = [name for name in known if (DATA / f"{name}.json.gz").exists() and name in _index()]
    if arguments.verify:
        return stored
    return known if arguments.force else [name for name in known if name not in stored]


def _run(work: Any, names: list[str], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(work, names)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(work, name) for name in names]):
            yield future.result()


# ---------------------------------------------------------------- one model, in a process of its own


def build(name: str) -> Report:
    """Capture, check the number of parameters, write the file."""
    started, lines = time.process_time(), []
    try:
        from zoo.recording import recordings

        model = _catalogue()[name]
        recorded = list(recordings(model))
        parameters = recorded[0].workload.parameters
        if model.published and abs(parameters - model.published) > model.tolerance * model.published + 0.5:
            raise ValueError(f"{parameters:,} parameters, published are {model.published:,}")
        data = packing.pack([found.graph for found in recorded])
        (DATA / f"{name}.json.gz").write_bytes(data)
        lines.append(f"{len(data) / 1e3:.1f} kB, {parameters:,} parameters")
        lines += [_line(found) for found in recorded]
        lines += dict.fromkeys(f"note: {note}" for found in recorded for note in found.workload.notes)
        return Report(name, time.process_time() - started, lines, _entry(model, recorded))
    except Exception as fault:  # one model that fails must not stop the others
        where = traceback.extract_tb(fault.__traceback__)[-1]
        return Report(
            name, time.process_time() - started, [f"FAILED {type(fault).__name__}: {fault} ({where.filename}:{where.lineno})"]
        )


def _line(found: Any) -> str:
    seen = coverage(found.workload)
    wish, size = found.wish, f"{len(found.workload.calls):6} calls {len(found.workload.ops):5} ops"
    what = f"{wish.mode:5} {wish.precision:4} {wish.phase or '-':7} {size}"
    known = f"known: {seen.calls_fraction:.2%} of calls, {seen.bytes_fraction:.2%} of bytes"
    sizes = "" if found.workload.symbols else "  NOT AFFINE"
    unknown = f"  unknown: {dict(Counter(seen.unknown))}" if seen.unknown else ""
    return f"{what}  {known}{sizes}{unknown}"


def _entry(model: Any, recorded: list[Any]) -> zoo.Entry:
    shared = tuple(note for note in recorded[0].workload.notes if all(note in found.workload.notes for found in recorded))
    return zoo.Entry(
        name=model.name,
        title=model.title,
        family=model.family,
        source=model.source,
        parameters=recorded[0].workload.parameters,
        batch=model.batch,
        optimizer=model.optimizer,
        aliases=model.aliases,
        seq=model.seq,
        longest=model.longest,
        image=model.image,
        options=dict(model.options),
        notes=shared,
        graphs=tuple(_stored(model, found, shared) for found in recorded),
    )


def _stored(model: Any, found: Any, shared: tuple[str, ...]) -> zoo.Stored:
    return zoo.Stored(
        mode=found.wish.mode,
        precision=found.wish.precision,
        phase=found.wish.phase,
        batch=found.batch if found.batch != model.batch else None,
        seq=(found.seq or 0) if found.seq != model.seq else None,
        symbols=found.workload.symbols,
        notes=tuple(note for note in found.workload.notes if note not in shared),
    )


def verify(name: str) -> Report:
    """Capture each stored graph at an unseen size and compare call by call, buffer by buffer."""
    started, lines = time.process_time(), []
    try:
        from zoo.model import Wish
        from zoo.recording import difference, record, unseen

        model, entry = _catalogue()[name], _index()[name]
        data = (DATA / f"{name}.json.gz").read_bytes()
        for number, stored in enumerate(entry.graphs):
            if not stored.symbols:
                lines.append(f"{stored.mode} {stored.precision} {stored.phase} is not symbolic: {' '.join(stored.notes)}")
                continue
            wish = Wish(stored.mode, stored.precision, stored.phase)
            point = unseen(model.subject(wish))
            direct = record(model, wish, [point]).workload
            ours = workload_of(
                packing.unpack(data, number, name),
                **{key: getattr(direct, key) for key in ("model", "source", "mode", "precision", "batch", "seq", "parameters")},
                symbols=stored.symbols,
            )
            apart = difference(ours, direct, point)
            if apart:
                lines.append(f"{stored.mode} {stored.precision} {stored.phase} at {point}: {apart}")
    except Exception as fault:
        lines.append(f"FAILED {type(fault).__name__}: {fault}")
    return Report(name, time.process_time() - started, lines)


# ---------------------------------------------------------------- the index


def _index() -> dict[str, zoo.Entry]:
    path = DATA / "index.json"
    if not path.exists():
        return {}
    rows = msgspec.json.decode(path.read_bytes(), type=dict[str, list[zoo.Entry]])["models"]
    return {entry.name: entry for entry in rows}


def _write_index(entry: zoo.Entry) -> None:
    order = {name: number for number, name in enumerate(_catalogue())}
    rows = {name: row for name, row in _index().items() if name in order} | {entry.name: entry}
    text = ",\n".join(msgspec.json.encode(rows[name]).decode() for name in sorted(rows, key=order.__getitem__))
    draft = DATA / "index.json.new"
    draft.write_text(f'{{"models":[\n{text}\n]}}\n', encoding="utf-8")
    draft.replace(DATA / "index.json")


def _finish(failed: list[str], seconds: float, cpu_s: float) -> None:
    sizes = {path.name: path.stat().st_size for path in DATA.glob("*.json*")}
    total = sum(sizes.values())
    largest = ", ".join(f"{name} {size / 1e3:.0f} kB" for name, size in Counter(sizes).most_common(8))
    print(f"{len(sizes) - 1} models, {total / 1e6:.2f} MB of {BUDGET_BYTES / 1e6:.0f} MB; largest: {largest}")
    print(f"{seconds / 60:.1f} minutes, {cpu_s / 60:.1f} of one core" + (f"; failed: {', '.join(failed)}" if failed else ""))


if __name__ == "__main__":
    sys.exit(main())
