"""What would make a model fit on all sets of a comparison, and how they would then compare: fewer users, or smaller weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.common.fit_command import fit_command
from gpuwise.questions.common.language.answer import LanguagePrediction
from gpuwise.questions.common.media.both import makes_media
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.jobs import FEWER_BITS, ComparedJob, RunJob, on_gpus
from gpuwise.questions.compare.language_jobs import TEXT_OPTIONS
from gpuwise.questions.compare.verdict import describe_verdict

__all__ = ["describe_commands", "describe_remedied"]

_OF_IMAGES = ("int8", "int4")


def describe_remedied(ran: Sequence[RunJob], rigs: Sequence[Rig], again: Callable[[ComparedJob], RunJob]) -> dict[str, str]:
    """Return a sentence for each of the user's models that does not fit on all sets, if one option changes that, by the model.
    `again` runs a job."""
    found = {}
    for one in ran:
        remedied = _remedied(one, again)
        if remedied is not None:
            option, there = remedied
            name = "it" if len(ran) == 1 else one.job.model
            order = describe_verdict([there], rigs)
            order = order[0].lower() + order[1:] if order.startswith(("The ", "With ", "Neither ")) else order
            found[one.job.model] = f"With `{option}`, {name} fits on {'both' if len(rigs) == 2 else 'all of these'}: {order}"
    return found


def _remedied(one: RunJob, again: Callable[[ComparedJob], RunJob]) -> tuple[str, RunJob] | None:
    """Return the first option with which the job fits on all sets, and the job run with it."""
    if one.job.common or all(each.fits for each in one.found):
        return None
    for option, job in _changes(one):
        try:
            there = again(job)
        except GpuwiseError:  # the engine for these GPUs does not have the format
            continue
        if on_gpus(there.found):
            return option, there
    return None


def _changes(one: RunJob) -> Iterator[tuple[str, ComparedJob]]:
    """Yield options that need less memory, each with the job that they lead to."""
    job = one.job
    if job.media is not None and makes_media(job.model) == "images" and not job.media.weights:
        for weights in _OF_IMAGES:
            yield f"--weights {weights}", replace(job, media=replace(job.media, weights=weights))
    if job.text is None:
        return
    users = min(
        (each.slowest.generation.users_fit for each in one.found if isinstance(each.slowest, LanguagePrediction)), default=0
    )
    if 0 < users < (job.text.users or 1):
        yield f"--users {users}", replace(job, text=replace(job.text, users=users))
    for weights in FEWER_BITS if job.format_given else ():
        yield f"--weights {weights}", replace(job, text=replace(job.text, weights=weights))


def describe_commands(ran: Sequence[RunJob], rigs: Sequence[Rig]) -> list[str]:
    """Return which command shows what would make a model fit that fits on no set."""
    found = []
    for job in (one.job for one in ran if not one.job.common and not any(each.fits for each in one.found)):
        alone = all(rig.count == 1 for rig in rigs)
        asked = job.text or job.media
        command = fit_command(
            job.model,
            [rig.gpu for rig in rigs] if alone else [rigs[0].gpu],
            gpus=None if alone or rigs[0].count == 1 else rigs[0].count,
            mode=None if asked is not None else job.mode,
            precision=job.precision,
            batch=job.batch or None,
            **{name: getattr(asked, name) for name in TEXT_OPTIONS if asked is not None},
        )
        found.append(f"to see what would make {job.model} fit, run `{command}`")
    return found
