"""From the options of `compare` to its question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.money.prices import PriceBook
from gpuwise.questions.common.options import names
from gpuwise.questions.common.rigs import Rig, find_rigs
from gpuwise.questions.common.step import parse_batch
from gpuwise.questions.compare.jobs import COMMON_JOBS, ComparedJob
from gpuwise.questions.compare.options import CompareOptions
from gpuwise.questions.compare.text_jobs import TEXT_OPTIONS, text_options

__all__ = ["CompareQuery", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareQuery:
    """Sets of GPUs, of which the first is the baseline, and the jobs to compare them on."""

    rigs: tuple[Rig, ...]
    jobs: tuple[ComparedJob, ...]
    stack: str
    cpu: str
    book: PriceBook
    assumptions: tuple[Assumption, ...]


def ask(options: CompareOptions) -> CompareQuery:
    """The sets of GPUs and the jobs, checked; common jobs where no model is given."""
    rigs, notes = find_rigs(names(options.names))
    if len(rigs) < 2:
        raise BadValue(
            f"`gpuwise compare` needs two different GPUs, but you gave {', '.join(names(options.names)) or 'none'}",
            hint='try `gpuwise compare "RTX 3090" "RTX 4070 Ti"`',
        )
    book = PriceBook.of(prices=names(options.price), file=options.prices, currency=options.currency)
    jobs = _jobs(options, rigs)
    if not options.model:
        notes.append(
            assumed("workloads", f"{len(jobs)} common jobs", "use `--model resnet50` to compare the GPUs on your own model")
        )
    return CompareQuery(rigs=rigs, jobs=jobs, stack=options.stack, cpu=options.cpu, book=book, assumptions=tuple(notes))


def _jobs(options: CompareOptions, rigs: Sequence[Rig]) -> tuple[ComparedJob, ...]:
    batch = parse_batch(options.batch)
    models = names(options.model)
    if models:
        return tuple(_job(model, options, batch, rigs[0]) for model in models)
    ignored = {"--mode": options.mode, "--precision": options.precision, "--batch": options.batch}
    ignored |= {f"--{name}": getattr(options, name) for name in TEXT_OPTIONS}
    for name, value in ignored.items():
        if value:
            raise BadValue(
                f"{name} works only with --model, because the common jobs set their own values",
                hint=f"try `--model {'llama-3-8b' if name[2:] in TEXT_OPTIONS else 'resnet50'} {name} {value}`",
            )
    return COMMON_JOBS


def _job(model: str, options: CompareOptions, batch: int | None, base: Rig) -> ComparedJob:
    """A model as the user asks for it: its text, or a step of it."""
    text = text_options(model, options, base.gpu)
    if text is not None:
        return ComparedJob(title=f"{model}, tokens", model=model, mode="infer", text=text)
    return ComparedJob(title=model, model=model, mode=options.mode or "train", precision=options.precision or None, batch=batch)
