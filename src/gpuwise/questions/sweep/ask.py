"""Turns the options of `sweep` into its question: models × GPUs × batches × precisions, checked before any work begins."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.gpu_list import named_gpus
from gpuwise.questions.common.options import names
from gpuwise.questions.common.runs.versions import Versions, versions
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.sweep.models_file import digests, read_models, resolve_model
from gpuwise.questions.sweep.options import SweepOptions
from gpuwise.workload import find
from gpuwise.workload.model.types import PRECISIONS

__all__ = ["ANY_MODERN_GPU", "SweepQuery", "SweepTask", "ask", "gpus_meant", "parse_batches"]

ANY_MODERN_GPU = "A100 PCIe 40GB"  # defaults that depend on the GPU are chosen as for it
_GROUPS = ("all", "curated")
_OF_EACH_TASK = ("model", "gpu", "precision")  # fields of a step that differ from task to task
_MOST_BATCHES = 4096  # a finer grid than this is a typing error
_BATCHES = "try `--batches 1..1024` (doubling), `--batches 8..64:8` (in steps of 8) or `--batches 1,24,32`"


class SweepTask(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one precision on all GPUs at all batches: what one worker does at a time. `model` is the line of the list,
    `step` how it is predicted; an empty precision there means the model's own."""

    model: str
    step: StepOptions
    gpus: tuple[str, ...]
    batches: tuple[int, ...]
    versions: Versions


class SweepQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The question. `gpus` are names, typed specs, `all` or `curated`; `step` holds what all predictions share."""

    models: tuple[str, ...]
    gpus: tuple[str, ...]
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    step: StepOptions
    out: Path
    on: str = ""
    fresh: bool = False
    assumptions: tuple[Assumption, ...] = ()

    def tasks(self) -> list[SweepTask]:
        """Always the same ones in the same order. A model that has its own precision is asked once where none was given."""
        own = any(note.code == "precisions" for note in self.assumptions)
        return [
            SweepTask(
                model=model,
                step=replace(self.step, model=resolve_model(model), precision=precision),
                gpus=self.gpus,
                batches=self.batches,
                versions=versions(),
            )
            for model in self.models
            for precision in (("",) if own and find.tells_itself(model) else self.precisions)
        ]

    def identity(self) -> dict[str, Any]:
        """All that the rows depend on: parts of another identity do not go together."""
        found = {name: getattr(self, name) for name in ("models", "gpus", "batches", "precisions")}
        options = {
            one.name: value
            for one in fields(self.step)
            if one.name not in _OF_EACH_TASK and (value := getattr(self.step, one.name)) != one.default
        }
        return {**found, "options": options, "files": digests(self.models), **msgspec.structs.asdict(versions())}


def ask(options: SweepOptions) -> SweepQuery:
    """The question, checked and completed with stated defaults."""
    sizes, notes = parse_batches(options.batches)
    precisions = _precisions(options, notes)
    named = tuple(
        dict.fromkeys(name.strip().lower() if name.strip().lower() in _GROUPS else name for name in names(options.gpus))
    )
    gpus_meant(named)
    notes += named_gpus([name for name in named if name not in _GROUPS])[1]
    step = _step(options)
    probe = step_query(replace(step, seq=None, image=None))
    notes += [note for note in probe.assumptions if note.code in ("stack", "cpu")]
    return SweepQuery(
        models=read_models(Path(options.models), here=not options.on.startswith("dask://")),
        gpus=named,
        batches=sizes,
        precisions=precisions,
        step=step,
        out=Path(options.out),
        on=options.on,
        fresh=options.fresh,
        assumptions=tuple(notes),
    )


def _precisions(options: SweepOptions, notes: list[Assumption]) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(word.strip().lower() for word in options.precisions.split(",") if word.strip()))
    for word in wanted:
        if word not in PRECISIONS:
            raise BadValue(f"unknown precision '{word}'", known=", ".join(PRECISIONS), hint="try `--precisions fp32,amp`")
    if wanted:
        return wanted
    usual = ("fp32", "fp16" if options.mode == "infer" else "amp")
    effect = "workload files and scripts keep their own precision; change it with `--precisions`"
    notes.append(assumed("precisions", ", ".join(usual), effect))
    return usual


def _step(options: SweepOptions) -> StepOptions:
    """What all predictions of a sweep share; model and precision stand for those of each task."""
    return StepOptions(
        "resnet50",
        gpu=ANY_MODERN_GPU,
        precision="fp32",
        mode=options.mode,
        optimizer=options.optimizer,
        seq=options.seq,
        image=options.image,
        compile=options.compile,
        channels_last=options.channels_last,
        stack=options.stack,
        cpu=options.cpu,
        timeout=options.timeout,
    )


def parse_batches(text: str) -> tuple[tuple[int, ...], list[Assumption]]:
    """`1..1024` doubles, `8..64:8` counts by eight, and commas separate a list. Also returns what was assumed.

    >>> parse_batches("1..20")[0], parse_batches("8..24:8,100")[0]
    ((1, 2, 4, 8, 16, 20), (8, 16, 24, 100))
    """
    found: dict[int, None] = {}
    doubled = False
    for word in text.split(","):
        first, dots, rest = word.strip().partition("..")
        last, colon, step = rest.partition(":")
        numbers = [first, *([last] if dots else []), *([step] if colon else [])]
        if not all(number.strip().isascii() and number.strip().isdigit() for number in numbers):
            raise BadValue(f"invalid batch size or range '{word.strip()}'", hint=_BATCHES)
        low, high, by = int(first), int(last) if dots else int(first), int(step) if colon else 0
        if not 1 <= low <= high < 2**31 or (colon and by < 1) or (by and (high - low) // by > _MOST_BATCHES):
            raise BadValue(
                f"the batch sizes '{word.strip()}' are out of range",
                hint=f"{_BATCHES}; at most {_MOST_BATCHES:,} sizes are allowed",
            )
        doubled = doubled or (dots == ".." and not colon)
        found.update(dict.fromkeys(range(low, high + 1, by) if by else _doubling(low, high)))
    if len(found) > _MOST_BATCHES:
        raise BadValue(f"too many batch sizes: {len(found):,}", hint=f"give at most {_MOST_BATCHES:,}")
    effect = "the size doubles within a range; use `1..64:1` for every batch size"
    shown = ", ".join(map(str, found)) if len(found) <= 12 else f"{len(found)} sizes"
    return tuple(sorted(found)), [assumed("batches", shown, effect)] if doubled else []


def _doubling(low: int, high: int) -> list[int]:
    """Doubling from low, and high itself."""
    sizes = [low]
    while sizes[-1] * 2 <= high:
        sizes.append(sizes[-1] * 2)
    return sizes if sizes[-1] == high else [*sizes, high]


@cache
def gpus_meant(wanted: tuple[str, ...]) -> tuple[Gpu, ...]:
    """The GPUs of these names, each once; one error names all unknown ones."""
    catalog = load_catalog()
    found: dict[str, Gpu] = {}
    faults: list[GpuwiseError] = []
    for name in wanted:
        group = {"all": catalog.gpus, "curated": catalog.curated}.get(name)
        try:
            found.update((gpu.name, gpu) for gpu in group or (catalog.find(name).gpu,))
        except GpuwiseError as fault:
            faults.append(fault)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise BadValue(
            "; ".join(fault.message for fault in faults),
            looked_in=faults[0].looked_in,
            known=faults[0].known,
            hint=faults[0].hint,
        )
    if not found:
        raise BadValue("no GPU was given", hint='use `--gpus all`, `--gpus curated`, or `--gpus "RTX 3090" --gpus "RTX 4090"`')
    return tuple(found.values())
