"""What a sweep asks: models × GPUs × batches × precisions, checked before anything is begun."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.runs.versions import Versions, versions
from gpuwise.questions.common.step import named_gpus, step_query
from gpuwise.questions.common.step_options import step_options
from gpuwise.questions.sweep.models_file import digests, read_models, stated
from gpuwise.workload import find
from gpuwise.workload.capture.settings import PRECISIONS

__all__ = ["ANY_MODERN_GPU", "SweepQuery", "SweepTask", "gpus_meant", "parse_batches", "sweep_query"]

ANY_MODERN_GPU = "A100 PCIe 40GB"  # defaults that depend on the GPU are chosen as for it
_GROUPS = ("all", "curated")
_MOST_BATCHES = 4096
_BATCHES = "for example `--batches 1..1024` (doubling), `--batches 8..64:8` (every eighth) or `--batches 1,24,32`"


class SweepTask(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one precision (empty: its own) on all GPUs at all batches: what one worker does at a time."""

    model: str
    stated: str
    precision: str
    gpus: tuple[str, ...]
    batches: tuple[int, ...]
    options: dict[str, Any]
    versions: Versions


class SweepQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The question. `gpus` are names, typed specs, `all` or `curated`; `options` go to every prediction."""

    models: tuple[str, ...]
    gpus: tuple[str, ...]
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    options: dict[str, Any]
    assumptions: tuple[Assumption, ...] = ()

    def tasks(self) -> list[SweepTask]:
        """Always the same ones in the same order. A model that has its own precision is asked once where none was given."""
        own = any(note.code == "precisions" for note in self.assumptions)
        return [
            SweepTask(
                model=model,
                stated=stated(model),
                precision=precision,
                gpus=self.gpus,
                batches=self.batches,
                options=self.options,
                versions=versions(),
            )
            for model in self.models
            for precision in (("",) if own and find.tells_itself(model) else self.precisions)
        ]

    def identity(self) -> dict[str, Any]:
        """All that the rows depend on: parts of another identity do not go together."""
        found = {name: getattr(self, name) for name in ("models", "gpus", "batches", "precisions", "options")}
        return {**found, "files": digests(self.models), **msgspec.structs.asdict(versions())}


def sweep_query(
    *,
    models: Path,
    gpus: Sequence[str],
    batches: str,
    precisions: str = "",
    on: str = "",
    mode: str = "",
    **options: Any,
) -> SweepQuery:
    """The question as typed. `options` are those of a prediction: optimizer, seq, image, compiled, channels_last, stack, cpu."""
    sizes, notes = parse_batches(batches)
    wanted = tuple(dict.fromkeys(word.strip().lower() for word in precisions.split(",") if word.strip()))
    for word in wanted:
        if word not in PRECISIONS:
            raise BadValue(f"'{word}' is no precision we know", looked_in=", ".join(PRECISIONS), hint="`--precisions fp32,amp`")
    if not wanted:
        wanted = ("fp32", "fp16" if mode == "infer" else "amp")
        effect = "files and scripts have their own; `--precisions` asks for others"
        notes.append(assumed("precisions", ", ".join(wanted), effect))
    named = tuple(dict.fromkeys(name.strip().lower() if name.strip().lower() in _GROUPS else name for name in gpus))
    gpus_meant(named)
    notes += named_gpus([name for name in named if name not in _GROUPS])[1]
    given = {name: value for name, value in {"mode": mode, **options}.items() if value not in (None, "", False)}
    probe = step_query(
        step_options({**given, "model": "resnet50", "gpu": ANY_MODERN_GPU, "precision": "fp32", "seq": None, "image": None})
    )
    notes += [note for note in probe.assumptions if note.code in ("stack", "cpu")]
    return SweepQuery(
        models=read_models(models, here=not on.startswith("dask://")),
        gpus=named,
        batches=sizes,
        precisions=wanted,
        options=given,
        assumptions=tuple(notes),
    )


def parse_batches(text: str) -> tuple[tuple[int, ...], list[Assumption]]:
    """`1..1024` doubles, `8..64:8` counts by eight, commas list; and what was taken for granted.

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
            raise BadValue(f"'{word.strip()}' is no batch or range of batches", hint=_BATCHES)
        low, high, by = int(first), int(last) if dots else int(first), int(step) if colon else 0
        if not 1 <= low <= high < 2**31 or (colon and by < 1) or (by and (high - low) // by > _MOST_BATCHES):
            raise BadValue(f"'{word.strip()}' cannot be swept", hint=f"{_BATCHES}; at most {_MOST_BATCHES:,} of them")
        doubled = doubled or (dots == ".." and not colon)
        found.update(dict.fromkeys(range(low, high + 1, by) if by else _doubling(low, high)))
    if len(found) > _MOST_BATCHES:
        raise BadValue(f"{len(found):,} batches are too many", hint=f"at most {_MOST_BATCHES:,}")
    effect = "a range doubles; `1..64:1` asks for every batch of it"
    shown = ", ".join(map(str, found)) if len(found) <= 12 else f"{len(found)} of them"
    return tuple(sorted(found)), [assumed("batches", shown, effect)] if doubled else []


def _doubling(low: int, high: int) -> list[int]:
    """From low by twos, and high itself."""
    sizes = [low]
    while sizes[-1] * 2 <= high:
        sizes.append(sizes[-1] * 2)
    return sizes if sizes[-1] == high else [*sizes, high]


@cache
def gpus_meant(names: tuple[str, ...]) -> tuple[Gpu, ...]:
    """The GPUs of these names, each once; all wrong names are told together."""
    catalog = load_catalog()
    found: dict[str, Gpu] = {}
    faults: list[GpuwiseError] = []
    for name in names:
        group = {"all": catalog.gpus, "curated": catalog.curated}.get(name)
        try:
            found.update((gpu.name, gpu) for gpu in group or (catalog.find(name).gpu,))
        except GpuwiseError as fault:
            faults.append(fault)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise BadValue("; ".join(fault.message for fault in faults), looked_in=faults[0].looked_in, hint=faults[0].hint)
    if not found:
        raise BadValue("no GPU was named", hint='`--gpus all`, `--gpus curated`, or `--gpus "RTX 3090" --gpus "RTX 4090"`')
    return tuple(found.values())
