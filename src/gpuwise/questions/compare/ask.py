"""Turns the options of `compare` into its question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import both, the
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu, supported
from gpuwise.money.prices import PriceBook
from gpuwise.questions.common.language.ask import asked_for_text
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.media.both import makes_media
from gpuwise.questions.common.options import names
from gpuwise.questions.common.rigs import Rig, find_rigs, in_one_machine
from gpuwise.questions.common.step import parse_batch
from gpuwise.questions.common.tuning import check_method
from gpuwise.questions.common.uses import trains
from gpuwise.questions.compare.jobs import COMMON_JOBS, SERVER_JOBS, ComparedJob
from gpuwise.questions.compare.language_jobs import TEXT_OPTIONS, check_text, in_one_engine, text_options
from gpuwise.questions.compare.options import CompareOptions
from gpuwise.step.time.engines import find_engine
from gpuwise.workload.store import zoo

__all__ = ["CompareQuery", "ask"]

_SERVED = "datacenter"  # the segment of GPUs that are used in servers
_SERVER = "server"
_TUNED_LENGTH = 1024  # tokens in a sequence for adapters, as in the task `llm-finetune`
_FOR_LANGUAGE = (*TEXT_OPTIONS, "method", "seq")
_BETWEEN = re.compile(r"(?:^|\s+)(?:vs\.?|versus|or)(?:\s+|$)", re.IGNORECASE)


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
    """Return the sets of GPUs and the jobs, checked; common jobs if no model is given."""
    named = _named(names(options.names))
    rigs, notes = find_rigs(named)
    if len(rigs) < 2:
        raise BadValue(
            f"`gpuwise compare` needs two different GPUs, but you gave {', '.join(named) or 'none'}",
            hint='try `gpuwise compare "RTX 3090" "RTX 4070 Ti"`',
        )
    rigs, machine = in_one_machine(rigs)
    notes += machine
    gpus = [gpu for rig in rigs for gpu, _ in rig.parts]
    book = PriceBook.of(prices=names(options.price), file=options.prices, currency=options.currency, gpus=gpus)
    served = all(gpu.segment == _SERVED for gpu in gpus)
    if served and not options.cpu:
        options = replace(options, cpu=_SERVER)
        notes.append(_server_note())
    jobs = _jobs(options, rigs, notes) if names(options.model) else _common_jobs(options, rigs, served, notes)
    return CompareQuery(rigs=rigs, jobs=jobs, stack=options.stack, cpu=options.cpu, book=book, assumptions=tuple(notes))


def _named(said: Sequence[str]) -> tuple[str, ...]:
    """Return the names without the words between them, because people type `3090 vs 4090`.

    >>> _named(("3090", "vs", "4090")), _named(("RTX 3090 vs. RTX 4090",))
    (('3090', '4090'), ('RTX 3090', 'RTX 4090'))
    """
    return tuple(name for text in said for name in _BETWEEN.split(text.strip()) if name)


def _server_note() -> Assumption:
    host = find_host(_SERVER)
    issues = f"it launches a layer in {host.launch_s * 1e6:.0f} µs"
    return assumed("cpu", host.described, f"data-centre GPUs are used in servers; {issues}; change it with `--cpu desktop`")


def _jobs(options: CompareOptions, rigs: Sequence[Rig], notes: list[Assumption]) -> tuple[ComparedJob, ...]:
    """The models of the user."""
    batch = parse_batch(options.batch)
    return tuple(_job(model, options, batch, rigs, notes) for model in names(options.model))


def _job(model: str, options: CompareOptions, batch: int | None, rigs: Sequence[Rig], notes: list[Assumption]) -> ComparedJob:
    """A model as the user asks for it: its text, or a step of it."""
    options = replace(options, mode="train") if trains(options) else options
    made = makes_media(model) if options.mode != "train" else ""
    if made:
        asked = LanguageOptions(model, mode=options.mode, weights=options.weights, kv=options.kv, engine=options.engine)
        asked = replace(asked, users=options.users, prompt=options.prompt, output=options.output, context=options.context)
        title = f"{model}, {'images' if made == 'images' else 'speech'}"
        return ComparedJob(title=title, model=model, mode="infer", precision=options.precision or None, batch=batch, media=asked)
    text = text_options(model, options, rigs[0].gpu)
    if text is not None:
        text, said = in_one_engine(text, _kinds(rigs))
        notes += said
        given = bool(options.weights or options.precision)
        return ComparedJob(title=f"{model}, tokens", model=model, mode="infer", text=text, format_given=given)
    return ComparedJob(
        title=model,
        model=model,
        mode=options.mode or "train",
        precision=options.precision or None,
        batch=batch,
        seq=options.seq or _usual_length(model, options, notes),
        method=check_method(options.method),
    )


def _usual_length(model: str, options: CompareOptions, notes: list[Assumption]) -> int | None:
    """The usual sequence for fine-tuning with adapters; otherwise, a model's own default."""
    if options.method in ("", "full") or not (zoo.has(model) and (zoo.entry(model).seq or 0) > _TUNED_LENGTH):
        return None
    notes.append(assumed("seq", str(_TUNED_LENGTH), "a common length for fine-tuning; change it with `--seq`"))
    return _TUNED_LENGTH


# ---------------------------------------------------------------- common jobs


def _common_jobs(options: CompareOptions, rigs: Sequence[Rig], served: bool, notes: list[Assumption]) -> tuple[ComparedJob, ...]:
    """Return the jobs used if no model is given. Those for servers have large batches and many users."""
    ignored = {f"--{name}": getattr(options, name) for name in ("mode", "precision", "method", "batch", "seq")}
    ignored |= {f"--{name}": getattr(options, name) for name in TEXT_OPTIONS}
    for name, value in ignored.items():
        if value:
            raise BadValue(
                f"{name} works only with --model, because the common jobs set their own values",
                hint=f"try `--model {'llama-3-8b' if name[2:] in _FOR_LANGUAGE else 'resnet50'} {name} {value}`",
            )
    gpus = _kinds(rigs)
    jobs = [_served(_split(job, rigs), options.cpu, rigs, notes) for job in (SERVER_JOBS if served else COMMON_JOBS)]
    without = [gpu.name for gpu in gpus if "fp32" not in supported(gpu)]
    if without:
        jobs = [job for job in jobs if job.precision != "fp32"]
        notes.append(assumed("fp32 jobs", "left out", f"{both(map(the, without))} cannot run fp32", overrides=True))
    effect = "use `--model resnet50` to compare the GPUs on your own model"
    desktop = [gpu.name for gpu in gpus if gpu.segment != _SERVED]
    if served:
        effect = f"with the batch sizes of a server, because these are all data-centre GPUs; {effect}"
    elif len(desktop) < len(gpus):
        effect = f"with the batch sizes of a desktop, because {the(desktop[0])} is not a data-centre GPU; {effect}"
    notes.append(assumed("workloads", f"{len(jobs)} {'data-centre' if served else 'common'} jobs", effect))
    return tuple(jobs)


def _split(job: ComparedJob, rigs: Sequence[Rig]) -> ComparedJob:
    """A job that generates text on sets of several GPUs: an engine splits the model among them, so it need not fit on each."""
    if job.text is not None or job.phase != "decode" or all(rig.count == 1 for rig in rigs):
        return job
    return replace(job, text=LanguageOptions(job.model, mode="infer"))


def _served(job: ComparedJob, cpu: str, rigs: Sequence[Rig], notes: list[Assumption]) -> ComparedJob:
    """Return a job that generates text in a way that all of these GPUs support: in its engine, or step by step in PyTorch if
    the engine cannot.
    """
    if job.text is None:
        return job
    asked = replace(job.text, cpu=cpu)
    try:
        text, said = _runnable(asked, rigs)
    except GpuwiseError as fault:
        plain = replace(job, title=f"LLM generation ({job.model} decode)", text=None)
        split = _split(plain, rigs)
        if asked.engine and split.text is not None:  # another engine may run on all sets
            return _served(split, cpu, rigs, notes)
        batch = f"batch {job.batch}{' or less' if job.batch != 1 else ''}"
        notes.append(assumed("LLM serving", f"decoding in PyTorch at {batch}", fault.message, overrides=True))
        return plain
    notes += said
    engine = find_engine(text.engine).title
    effect = f"prompts of {text.prompt:,} and outputs of {text.output:,} tokens, {text.weights} weights, {engine}"
    alone = job.text.users is None
    users = "1 user" if alone else f"{text.users} users, or as many as fit on all GPUs"
    notes.append(assumed("LLM generation" if alone else "LLM serving", users, effect))
    title = f"LLM generation in {engine} ({job.model})" if alone else job.title  # what fits depends on the engine
    return replace(job, title=title, text=text)


def _runnable(asked: LanguageOptions, rigs: Sequence[Rig]) -> tuple[LanguageOptions, list[Assumption]]:
    """Return the same with nothing left open, in one engine that runs on all sets."""
    gpus = _kinds(rigs)
    text, notes = in_one_engine(asked, gpus)
    check_text(rigs, text)
    query = asked_for_text(text, gpus=gpus)
    if query is None:
        return text, notes
    one = query.serving
    text = replace(text, engine=one.engine.name, weights=query.format_name, users=one.users, prompt=one.prompt, output=one.output)
    return text, notes


def _kinds(rigs: Sequence[Rig]) -> list[Gpu]:
    """Every GPU of these sets once."""
    return list({gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values())
