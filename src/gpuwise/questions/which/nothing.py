"""What `which` says if no option is within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import MOST_ROWS, Selection, shortfall
from gpuwise.core.text import a, plural
from gpuwise.core.units import GIB
from gpuwise.questions.which.language_paces import LanguagePace
from gpuwise.questions.which.language_words import nothing_fits, smaller_with_ram
from gpuwise.questions.which.remedied import Remedied
from gpuwise.questions.which.survey import Survey, spent, time_text

__all__ = ["nearest_rows", "nothing"]


def nothing(survey: Survey, spared: Sequence[Remedied] = ()) -> str:
    """Where nothing is within the limits: the nearest option, and what to change; first the model that stands for a task."""
    main, said = survey.options[0].run.paces[0], _nearest(survey, spared)
    if not survey.query.task or not isinstance(main, LanguagePace):
        return said
    stands = f"{survey.query.jobs[0].model} with {main.weights} weights, which stands for {survey.query.task}"
    return f"For {stands}, {said[0].lower()}{said[1:]}"


def nearest_rows(survey: Survey, chosen: Selection) -> tuple[Candidate, ...]:
    """Return the options to show if none is within the limits, first those that the sentence about that names."""
    return tuple(dict.fromkeys((*_closest(survey), *(chosen.shown or _unpriced(survey)))))[:MOST_ROWS]


def _closest(survey: Survey) -> list[Candidate]:
    """The fastest option if none is fast enough, else the cheapest, and the cheapest to buy if that one is rented."""
    fitting, timely, done = _able(survey)
    if not done:
        return [min(timely or fitting, key=lambda option: option.run.seconds)] if fitting else []
    bought = [one for one in done if one.kind.startswith("buy")]
    found = [min(done, key=spent), *([min(bought, key=spent)] if bought else [])]
    return [one for one in found if spent(one) < inf]


def _unpriced(survey: Survey) -> tuple[Candidate, ...]:
    """Return the fastest options that only lack a price: shown if there is nothing else, so that the user knows what to look
    for.
    """
    lacking = [option for option in survey.options if shortfall(option, survey.query.limits) == "price"]
    return tuple(sorted(lacking, key=lambda option: option.run.seconds)[:MOST_ROWS])


def _able(survey: Survey) -> tuple[list[Candidate], ...]:
    """Options that fit, those of them that meet the deadline, and those of them that finish a run in the hours of use."""
    limits = survey.query.limits
    fitting = [option for option in survey.options if option.run.fits]
    timely = [option for option in fitting if limits.deadline_s is None or option.run.seconds <= limits.deadline_s]
    return fitting, timely, [option for option in timely if limits.horizon_s is None or option.run.seconds <= limits.horizon_s]


def _nearest(survey: Survey, spared: Sequence[Remedied]) -> str:
    limits = survey.query.limits
    fitting, timely, done = _able(survey)
    if not fitting and survey.query.text:
        return nothing_fits(survey)
    if not fitting:
        most = max(survey.options, key=lambda option: option.run.paces[0].usable_bytes)
        need = min(option.run.needed_bytes for option in survey.options)
        split = "" if spared else " Split the model over several GPUs (`gpuwise plan`), or try the remedies in `gpuwise fit`."
        return (
            f"Nothing fits. Even the method that saves the most memory needs {need / GIB:,.1f} GiB on one GPU, but "
            f"{a(most.name)} has only {most.run.paces[0].usable_bytes / GIB:.1f} GiB.{split}"
        )
    if not timely:
        fastest = min(fitting, key=lambda option: option.run.seconds)
        more = "Allow more time, or use more GPUs (see `gpuwise plan`)."
        return (
            f"No option meets the deadline. Even the fastest, {a(fastest.name)}, takes {time_text(fastest.run)} per run. {more}"
        )
    if not done:
        fastest = min(timely, key=lambda option: option.run.seconds)
        return (
            f"No option finishes a run in {survey.horizon}. Even the fastest, {a(fastest.name)}, takes {time_text(fastest.run)} "
            "of use. Set the size of your run with `--samples`, or use more GPUs (see `gpuwise plan`)."
        )
    cheapest = min(done, key=spent)
    if spent(cheapest) == inf:
        known = (
            f"No price is published for any GPU that fits, so the budget of {survey.money(limits.budget_usd)} cannot be checked"
        )
        fastest = min(done, key=lambda option: option.run.seconds)
        return f'{known}. These are the fastest GPUs; if you know a price, add it with `--price "{fastest.gpu.name}=…"`.'
    slow = any(option not in done and not spent(option) > (limits.budget_usd or 0.0) for option in timely)
    timed = " and meets the deadline" if limits.deadline_s is not None else " and finishes a run" if slow else ""
    what = f"the cheapest option that fits{timed} is {a(cheapest.name)} for {survey.money(spent(cheapest))}"
    what += f"; {smaller_with_ram(survey, cheapest)}" if survey.query.text and cheapest.kind != "rent" else ""
    if cheapest.kind != "rent":
        too_slow = f" and finishes a run in {survey.horizon}" if slow else ""
        known = " with a known price" if any(one.upfront_usd is None for one in done) else ""
        return f"No option{known} costs {survey.money(limits.budget_usd)} or less{too_slow}; {what}."
    terms, budget = survey.query.terms, survey.money(limits.budget_usd)
    span = f"{plural(f'{terms.years:g}', 'year')} at {plural(f'{168 * terms.utilization:.0f}', 'hour')} a week"
    bought = min((one for one in done if one.kind.startswith("buy")), key=spent, default=None)
    also = "" if bought is None else f", and the cheapest to buy is {a(bought.name)} for {survey.money(spent(bought))}"
    if slow:
        return f"Nothing for {budget} or less finishes a run in {survey.horizon}; {what} (rented){also}."
    if not survey.query.kinds & {"buy new", "buy used"}:
        return f"Renting any GPU for {span} costs more than {budget}; {what}."
    return f"Neither buying a GPU nor renting one for {span} costs {budget} or less; {what} (rented){also}."
