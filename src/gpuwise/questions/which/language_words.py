"""What `which` says only about GPUs that generate text: how several share a model, and what more of them bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import shortfall
from gpuwise.core.text import a
from gpuwise.core.units import GIB
from gpuwise.questions.common.language.groups import describe_groups
from gpuwise.questions.which.language_paces import LanguagePace, format_rate, rate_text
from gpuwise.questions.which.survey import Survey, buys, make_survey, price_kind, spent
from gpuwise.step.time.engines import engines

__all__ = ["cheapest_for_text", "engine_of", "enough_for_users", "more_for_text", "nothing_fits", "shares", "smaller_with_ram"]

_FLUENT_PER_S = 10.0  # tokens for each user: twice as fast as people read, assumed to be enough
_FAR_LESS = 1.5  # times the money of the cheapest option: enough to name that one too


def cheapest_for_text(survey: Survey, best: Candidate) -> str:
    """Without a budget, what runs the model for the least money upfront, where that is far less than what is recommended."""
    if survey.query.limits.budget_usd is not None or not best.kind.startswith("buy"):
        return ""
    least = _cheapest(survey) or best
    if spent(least) == inf or spent(least) * _FAR_LESS > spent(best):
        return ""
    vendor = f"{survey.query.wanted.vendor} " if survey.query.wanted.vendor else ""
    whole = f"{_describe(survey, least)}{_cheapest_of_any(survey, least)}"
    fits = f"The cheapest {vendor}option that has enough memory and works in a typical machine is {whole}"
    return f" {fits}; {smaller_with_ram(survey, best)}."


def smaller_with_ram(survey: Survey, best: Candidate) -> str:
    """How to learn what a smaller card would do with part of the model in RAM: only cards that hold all of it are considered."""
    main = best.run.paces[0]
    engine = f" --engine {main.engine.lower()}" if isinstance(main, LanguagePace) and main.engine.lower() in engines() else ""
    fit = f'gpuwise fit {survey.query.jobs[0].model} --gpu "RTX 3090"{engine}'
    return f"`{fit}` shows how fast a smaller card would be with part of the model in RAM"


def enough_for_users(survey: Survey, best: Candidate) -> str:
    """With a budget and several users, the cheapest that still generates faster than each of them reads, where it costs far
    less."""
    users = survey.users
    if users == 1 or survey.query.limits.budget_usd is None:
        return ""
    able = [one for one in buys(survey) if one.run.samples_per_s >= _FLUENT_PER_S * users]
    least = min((one for one in able if not shortfall(one, survey.query.limits)), key=spent, default=None)
    if least is None or spent(least) * _FAR_LESS > spent(best):
        return ""
    rate = f"{format_rate(least.run.samples_per_s / users)} tokens/s"
    cost = f"{survey.money(least.upfront_usd)}{price_kind(survey, least)}"
    return f" If {rate} for each user are enough, {a(least.name)} ({cost}) will do."


def _cheapest(survey: Survey) -> Candidate | None:
    """What costs least upfront of everything for sale that holds the model."""
    return min((one for one in buys(survey) if not shortfall(one, survey.query.limits)), key=spent, default=None)


def _cheapest_of_any(survey: Survey, least: Candidate) -> str:
    """The cheapest option of any vendor, if only one vendor was considered by default and another sells one for less."""
    query = survey.query
    if query.vendor_given or not query.wanted.vendor:
        return ""
    sold = replace(query, wanted=replace(query.wanted, vendor=""), kinds=query.kinds & {"buy new", "buy used"}, have=())
    found = _cheapest(make_survey(sold, lambda text: None))
    if found is None or spent(found) >= spent(least):
        return ""
    return f", and the cheapest from any vendor (`--vendor any`) is {_describe(survey, found)}"


def _describe(survey: Survey, option: Candidate) -> str:
    return f"{a(option.name)} ({survey.money(option.upfront_usd)}), at {rate_text(option.run)}"


def shares(option: Candidate) -> str:
    """How several GPUs hold one model."""
    main = option.run.paces[0]
    if isinstance(main, LanguagePace) and main.groups > 1:
        return f"these users are served fastest by {describe_groups(option.gpu_count, main.groups, main.batch)}"
    tensor = isinstance(main, LanguagePace) and main.split == "tensor"
    work = "and all GPUs work on every token" if tensor else "and one GPU works at a time"
    return f"each GPU holds part of the model, so their memory is pooled, {work}"


def engine_of(option: Candidate, shown: Sequence[Candidate]) -> list[str]:
    """The engine, where the options shown do not all run in the same one."""
    used = {one.run.paces[0].engine for one in shown if isinstance(one.run.paces[0], LanguagePace)}
    main = option.run.paces[0]
    return [f"runs in {main.engine}"] if isinstance(main, LanguagePace) and len(used) > 1 else []


def more_for_text(added: str, gain: float, is_faster: bool, trouble: str) -> str:
    """What as many GPUs again would do."""
    if is_faster:
        return f"{added} would generate text {gain:.2f} times as fast{trouble}"
    return f"{added} would not generate text faster for one user, but would fit larger models, longer contexts and more users"


def nothing_fits(survey: Survey) -> str:
    """Where no number of any GPU that was considered holds the model."""
    nearest = min(survey.options, key=lambda option: option.run.needed_bytes / option.run.paces[0].usable_bytes)
    each = " on each GPU" if nearest.gpu_count > 1 else ""
    need, has = nearest.run.needed_bytes / GIB, nearest.run.paces[0].usable_bytes / GIB
    return (
        f"Nothing fits. The closest option, {a(nearest.name)}, has {has:.1f} of the {need:.1f} GiB needed{each}. Use fewer bits "
        f"(`--weights q4_k_m`) or more GPUs (`--max-gpus 8`), or try the remedies that `gpuwise fit` lists."
    )
