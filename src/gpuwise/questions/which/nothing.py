"""What `which` says if no option is within the limits."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.text import a
from gpuwise.core.units import GIB
from gpuwise.questions.which.remedied import Remedied
from gpuwise.questions.which.survey import Survey, spent, time_text
from gpuwise.questions.which.text_words import nothing_fits

__all__ = ["nothing"]


def nothing(survey: Survey, spared: Sequence[Remedied] = ()) -> str:
    """Where nothing is within the limits: the nearest option, and what to change."""
    limits = survey.query.limits
    fitting = [option for option in survey.options if option.run.fits]
    if not fitting and survey.query.text:
        return nothing_fits(survey)
    if not fitting:
        most = max(survey.options, key=lambda option: option.run.paces[0].usable_bytes)
        need = min(option.run.needed_bytes for option in survey.options)
        split = "" if spared else " Split the model over several GPUs (`gpuwise plan`), or try the remedies in `gpuwise fit`."
        return (
            f"Nothing fits. Even the method that saves the most memory needs {need / GIB:.1f} GiB on one GPU, but "
            f"{a(most.name)} has only {most.run.paces[0].usable_bytes / GIB:.1f} GiB.{split}"
        )
    timely = [option for option in fitting if limits.deadline_s is None or option.run.seconds <= limits.deadline_s]
    if not timely:
        fastest = min(fitting, key=lambda option: option.run.seconds)
        more = "Allow more time, or use more GPUs (see `gpuwise plan`)."
        return (
            f"No option meets the deadline. Even the fastest, {a(fastest.name)}, takes {time_text(fastest.run)} per run. {more}"
        )
    done = [option for option in timely if limits.horizon_s is None or option.run.seconds <= limits.horizon_s]
    if not done:
        fastest = min(timely, key=lambda option: option.run.seconds)
        return (
            f"No option finishes a run in {survey.horizon}. Even the fastest, {a(fastest.name)}, takes {time_text(fastest.run)} "
            "of use. Set the size of your run with `--samples`, or use more GPUs (see `gpuwise plan`)."
        )
    cheapest = min(done, key=spent)
    if spent(cheapest) == float("inf"):
        known = (
            f"No price is published for any GPU that fits, so the budget of {survey.money(limits.budget_usd)} cannot be checked"
        )
        return f'{known}. These are the fastest GPUs; if you know a price, add it with `--price "{cheapest.gpu.name}=…"`.'
    slow = any(option not in done and not spent(option) > (limits.budget_usd or 0.0) for option in timely)
    timed = " and meets the deadline" if limits.deadline_s is not None else " and finishes a run" if slow else ""
    what = f"the cheapest option that fits{timed} is {a(cheapest.name)} for {survey.money(spent(cheapest))}"
    if cheapest.kind != "rent":
        too_slow = f" and finishes a run in {survey.horizon}" if slow else ""
        return f"No option costs {survey.money(limits.budget_usd)} or less{too_slow}; {what}."
    terms, budget = survey.query.terms, survey.money(limits.budget_usd)
    years = f"{terms.years:g} year{'' if terms.years == 1 else 's'} of rent at {168 * terms.utilization:.0f} hours a week"
    bought = min((one for one in done if one.kind.startswith("buy")), key=spent, default=None)
    also = "" if bought is None else f", and the cheapest to buy is {a(bought.name)} for {survey.money(spent(bought))}"
    if slow:
        return f"Nothing for {budget} or less finishes a run in {survey.horizon}; {what} (rented){also}."
    return f"Neither a purchase nor {years} costs {budget} or less; {what} (rented){also}."
