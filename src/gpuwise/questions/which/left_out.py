"""Why `which` leaves out the GPUs that it does not show."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import Selection, shortfall
from gpuwise.advise.jobs import JobPace
from gpuwise.core.text import a, the
from gpuwise.core.units import GIB, format_si
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.which.survey import SAME, TIERS_USD, Survey, failures, pick_at, spent
from gpuwise.questions.which.text_paces import TextPace

__all__ = ["does_not_fit", "rejections"]

_FAR = 3.0  # times the budget: out of reach


def rejections(survey: Survey, shown: Sequence[Candidate], chosen: Selection) -> tuple[tuple[str, str], ...]:
    """Every GPU on sale (or for rent, where nothing is bought) that is not shown, with the reason; those nearest to the
    recommendation first, or without one the cheapest."""
    names = {option.name for option in shown}
    kinds = survey.query.kinds & {"buy new", "buy used"} or {"rent"}
    others = [option for option in (*survey.options, *survey.refused) if option.kind in kinds and option.name not in names]
    best, far = chosen.best, _FAR * (survey.query.limits.budget_usd or float("inf"))
    others.sort(
        key=lambda one: (one.gpu_count, spent(one) > far, abs(one.run.seconds - best.run.seconds) if best else spent(one))
    )
    found: dict[str, str] = {}
    for option in others:
        found.setdefault(option.name, _why_not(survey, option, shown, chosen))
    return tuple(found.items())


def _why_not(survey: Survey, option: Candidate, shown: Sequence[Candidate], chosen: Selection) -> str:
    limits, broken = survey.query.limits, shortfall(option, survey.query.limits)
    if broken == "memory":
        short = next(pace for pace in option.run.paces if not pace.fits)
        return does_not_fit(survey.priced[option.run.paces.index(short)], short)
    if broken == "deadline":
        return f"a run takes {format_si(option.run.seconds, 's')}, which is longer than the deadline"
    if broken == "horizon":
        return f"a run takes {format_si(option.run.seconds, 's')} of use, which is longer than {survey.horizon}"
    if broken == "price":
        return "no price is published; add one with `--price`"
    if broken == "budget":
        over = spent(option) - (limits.budget_usd or 0.0)
        return f"at {survey.money(spent(option))}, it is {survey.money(over)} over the budget"
    failed = failures(survey, option)
    return failed[0].text if failed else _describe_rival(survey, option, shown, chosen)


def _describe_rival(survey: Survey, option: Candidate, shown: Sequence[Candidate], chosen: Selection) -> str:
    """What beats this option: one that is shown before one that is not, of the same number of GPUs before others."""
    if option.total_usd is None:
        return "no price is published, and it is slower than the options shown"
    if survey.query.general:
        return _not_a_pick(survey, option)
    rivals = [other for other in (*shown, *chosen.front) if other.kind == option.kind or other.kind.startswith("buy")]
    better = [other for other in rivals if _beats(other, option)]
    if better:
        return f"slower and more expensive than {the(min(better, key=lambda other: other.gpu_count != option.gpu_count).name)}"
    rent = [other for other in chosen.front if other.kind == "rent" and _beats(other, option)]
    if rent:
        return f"slower and more expensive than renting {a(rent[0].name)}"
    faster = max((one for one in shown if one.run.seconds < option.run.seconds), key=lambda one: one.run.seconds, default=None)
    slower = min((one for one in shown if one.run.seconds >= option.run.seconds), key=lambda one: one.run.seconds, default=None)
    between = f"between {the(faster.name)} and {the(slower.name)}" if faster and slower else "outside the options shown"
    return f"{between} in time and cost; the table shows only a selection"


def _not_a_pick(survey: Survey, option: Candidate) -> str:
    """What is recommended instead at the lowest budget that buys this one."""
    tier = next((usd for usd in TIERS_USD if usd >= spent(option)), None)
    pick = None if tier is None else pick_at(survey.options, tier)
    if tier is None or pick is None or pick.name == option.name:
        return (
            f"costs more than {survey.money(TIERS_USD[-1])}" if tier is None else "cheaper than the option shown for its budget"
        )
    ratio = option.run.seconds / pick.run.seconds
    pace = (
        f"{ratio:.2f} times as fast" if ratio >= 1 + SAME else "just as fast" if ratio > 1 - SAME else f"{1 - ratio:.0%} slower"
    )
    return f"at a budget of {survey.money(tier)}, {a(pick.name)} is better: {pace} for {survey.money(pick.upfront_usd)}"


def _beats(other: Candidate, option: Candidate) -> bool:
    if other.total_usd is None or option.total_usd is None:
        return False
    return other is not option and other.run.seconds <= option.run.seconds and other.total_usd <= option.total_usd


def does_not_fit(priced: Priced, pace: JobPace) -> str:
    """How much memory a job lacks on a GPU."""
    part = f" even at {pace.micro_batch} of {pace.batch} samples at a time" if pace.micro_batch < pace.batch else ""
    fits = "does not fit" if pace.memory_bytes > pace.usable_bytes else "may not fit"
    needs = f"it needs {pace.memory_bytes / GIB:.1f} GiB{part}"
    each = " on each GPU" if isinstance(pace, TextPace) and pace.gpu_count > 1 else ""
    return f"{priced.job.model} {fits}: {needs}{each}, but only {pace.usable_bytes / GIB:.1f} GiB is usable"
