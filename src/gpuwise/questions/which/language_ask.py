"""Whether `which` is asked about a language model that generates text, and how it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuwise.advise.jobs import Job, find_task
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.money.costs import LAB_USD
from gpuwise.questions.common.language.ask import generates_unasked, language_shape
from gpuwise.questions.common.uses import SERVED_PRECISIONS, trains
from gpuwise.questions.which.language_paces import LanguageAsked
from gpuwise.questions.which.options import WhichOptions
from gpuwise.step.time.engines import find_engine
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.weight_formats import find_cache, find_format, published_format

__all__ = ["language_asked", "language_job"]

_NUMBERS = ("users", "prompt", "output", "context")
_USD_PER_USER = 1_000.0  # of a lab's budget, for each user that is served at the same time, assumed
_AT_HOME = "q4_k_m"  # the weights that people mostly run on their own cards (docs/decisions/0030)


def language_asked(
    options: WhichOptions, models: Sequence[str], notes: list[Assumption], budget_usd: float | None = None
) -> LanguageAsked | None:
    """How text is generated, where the options ask for it: by an option that only text has, by inference with language models
    and no option of a step, or by a task that generates text. A lab's budget is for several users, unless their number is given.
    """
    said = _said(options)
    if not models:
        task = find_task(options.task) if options.task else None
        if task is not None and task.prompt:
            return _as_at_home(_served(_checked(options, task.prompt, task.output), budget_usd, notes), notes)
        if said:
            raise BadValue(
                f"`{said}` needs a language model, but none was given",
                hint=f"try `--model llama-3-8b {said}`, or `--task llm-inference`",
            )
        return None
    if not said and not (_is_plain(options) and all(_writes(model, options.mode) for model in models)):
        return None
    for model in models:
        find_shape(model)  # says what it looked for
    if trains(options):
        given = f"--method {options.method}" if options.method else "--mode train"
        raise BadValue(f"`{given}` cannot be combined with text generation options", hint=f"leave out `{given}` or `{said}`")
    return _served(_checked(options, options.prompt, options.output), budget_usd, notes)


def _served(asked: LanguageAsked, budget_usd: float | None, notes: list[Assumption]) -> LanguageAsked:
    """The same for as many users as a lab's budget suggests: nobody spends it to generate text for one."""
    if asked.users is not None or budget_usd is None or budget_usd < LAB_USD:
        return asked
    users = int(budget_usd // _USD_PER_USER)
    effect = "one for every $1,000 of a budget of $10,000 or more; use `--users 1` for one user"
    notes.append(assumed("users", f"{users:,} at the same time", effect, code="users"))
    return replace(asked, users=users)


def _as_at_home(asked: LanguageAsked, notes: list[Assumption]) -> LanguageAsked:
    """The same with 4-bit weights for one user, unless something else was said about how the text is generated."""
    if asked.weights or asked.kv or asked.engine or (asked.users or 1) > 1:
        return asked
    notes.append(assumed("weights", _AT_HOME, "what most people run at home; use `--weights fp16` for 16 bits"))
    return replace(asked, weights=_AT_HOME)


def _said(options: WhichOptions) -> str:
    """The first option that only text has, as typed."""
    for name in ("weights", "kv", "engine"):
        if value := getattr(options, name):
            return f"--{name} {value}"
    return next((f"--{name} {getattr(options, name)}" for name in _NUMBERS if getattr(options, name) is not None), "")


def _is_plain(options: WhichOptions) -> bool:
    """Whether no option is given that only a step has."""
    steps = (options.batch, options.seq, options.image, options.phase, options.stack)
    served = not options.precision or options.precision in SERVED_PRECISIONS
    return served and not any(steps) and not trains(options)


def _writes(model: str, mode: str) -> bool:
    """Whether a model generates text: in inference, or if it does so by default."""
    return language_shape(model) is not None if mode == "infer" else generates_unasked(model)


def _checked(options: WhichOptions, prompt: int | None, output: int | None) -> LanguageAsked:
    """As typed, with names that no GPU could make sense of refused before any is looked at."""
    if options.weights:
        find_format(options.weights)
    if options.kv:
        find_cache(options.kv)
    if options.engine:
        find_engine(options.engine)
    free = options.context is None
    return LanguageAsked(
        weights=options.weights or (options.precision if options.precision in SERVED_PRECISIONS else ""),
        kv=options.kv,
        engine=options.engine,
        users=options.users,
        prompt=options.prompt if options.prompt is not None else prompt if free else None,
        output=options.output if options.output is not None else output if free else None,
        context=options.context,
    )


def language_job(model: str, tokens: float, text: LanguageAsked) -> Job:
    """A model that writes this many tokens: in fewer bits if that is better, unless the format was given or the model is published
    in few bits.
    """
    free = not text.weights and not published_format(model, find_shape(model))
    ways = ("usual", "int8", "int4") if free else ("usual",)
    return Job(model=model, samples=tokens, mode="infer", phase="decode", ways=ways)
