"""What `which` says if it recommends keeping the present GPU, renting one or buying a used one instead of a new one."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from gpuwise.advise.candidates import Candidate, TaskRun
from gpuwise.advise.choosing import WORTH_A_CHANGE, Selection, UserLimits, best_bought, even_hours_per_week, shortfall
from gpuwise.advise.jobs import SHORT_WAYS
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.text import a, are, both, plural, the
from gpuwise.core.units import GIB, format_si
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.common.machine import speed_cost
from gpuwise.questions.which.language_paces import LanguagePace, format_rate, rate_text
from gpuwise.questions.which.survey import SAME, Survey, buys

__all__ = [
    "TROUBLE",
    "cheaper_rented",
    "describe_age",
    "describe_hired_pace",
    "describe_hired_work",
    "describe_limit",
    "describe_sparing",
    "faster",
    "in_time",
    "nothing_better",
    "rented_for_less",
    "unpriced_macs",
]

TROUBLE = "you have to upload your data and wait for a machine to become available"
_SLOWER = 1.05  # times as long: a smaller difference is not mentioned
_HARDLY_LESS = 0.10  # of the cost: a smaller saving is not worth two sentences


def nothing_better(survey: Survey, chosen: Selection, sold: Callable[[Survey, Candidate], str]) -> str:
    """Return why the user's own GPU is kept; `sold` names the group in which something has the lowest cost."""
    best, kept = chosen.bought or chosen.rented, chosen.kept
    if kept is None:
        return "no other option meets your limits"
    if best is None:
        return f"{_nothing_faster(survey, kept)}{_smaller_but_faster(survey, kept)}"
    gain, budget = kept.run.seconds / best.run.seconds, survey.query.limits.budget_usd
    if budget is None:
        if best is not chosen.bought:
            return _dearer_rented(survey, kept, best)
        among = sold(survey, best)
        if gain >= WORTH_A_CHANGE:
            return _cheaper_kept(survey, chosen, kept, best, among)
        has = "has" if best.gpu_count == 1 else "have"
        lowest = f"{a(best.name)}, which {has} the lowest cost per {survey.work} of all {among}"
        return f"{lowest}, {are(best.name)} {gain:.2f} times as fast"
    most = survey.money(budget)
    worth = f"the best card for {most}, {a(best.name)}, is only {gain:.2f} times as fast, which you would hardly notice"
    return f"{worth if gain > 1 else _nothing_faster(survey, kept)}{_smaller_but_faster(survey, kept)}"


def _nothing_faster(survey: Survey, kept: Candidate) -> str:
    budget = survey.query.limits.budget_usd
    within = "is for sale" if budget is None else f"is available for {survey.money(budget)} or less"
    if any(isinstance(pace, LanguagePace) and pace.offloaded for pace in kept.run.paces):  # only what needs no CPU was considered
        return f"nothing that holds the whole model {within}"
    return f"nothing faster with as much memory {within}"


def _cheaper_kept(survey: Survey, chosen: Selection, kept: Candidate, bought: Candidate, among: str) -> str:
    """Return why the user's own GPU is kept instead of a faster card, which would not be used enough to pay for itself; then
    the cost of a run on that card, and on a rented GPU if that is cheaper and faster.
    """
    hours = f"{plural(f'{168 * survey.query.terms.utilization:.3g}', 'hour')} a week"
    gain, rented = kept.run.seconds / bought.run.seconds, chosen.rented
    own = f"at {hours}, a {survey.work} costs {survey.money(kept.usd_per_run)}, less than on any of the {among}"
    dearer = f"{a(bought.name)} ({survey.money(bought.upfront_usd)}) {are(bought.name)} {gain:.1f} times as fast"
    dearer = f"{dearer[0].upper()}{dearer[1:]} at {survey.money(bought.usd_per_run)} per {survey.work}"
    if rented is None or (rented.usd_per_run or inf) >= (bought.usd_per_run or inf):
        return f"{own}. {dearer}"
    hired = f"a rented {rented.name} {kept.run.seconds / rented.run.seconds:.1f} times"
    return f"{own}. {dearer}, and {hired} at {survey.money(rented.usd_per_run)}"


def _dearer_rented(survey: Survey, kept: Candidate, rented: Candidate) -> str:
    """Return what a run on the user's own GPUs costs, and on the cheapest faster one to rent, if nothing faster is for sale."""
    own, other = survey.money(kept.usd_per_run), survey.money(rented.usd_per_run)
    gain = f"{kept.run.seconds / rented.run.seconds:.1f} times as fast"
    return f"a {survey.work} costs {own}; if you rented {a(rented.name)}, it would be {gain} and cost {other}"


def _smaller_but_faster(survey: Survey, kept: Candidate) -> str:
    """A single card that is much faster but has less memory than what the user has."""
    able = [one for one in buys(survey) if one.gpu_count == 1 and not shortfall(one, survey.query.limits)]
    fastest = min(able, key=lambda one: one.run.seconds, default=kept)
    gain = kept.run.seconds / fastest.run.seconds
    if gain < WORTH_A_CHANGE or fastest.gpu.memory_bytes >= kept.gpu.memory_bytes:
        return ""
    memory = f"{fastest.gpu.memory_bytes / GIB:.0f} GB instead of {kept.gpu.memory_bytes / GIB:.0f} GB"
    return f"; {a(fastest.name)} would be {gain:.1f} times as fast, but has {memory}"


def cheaper_rented(survey: Survey, chosen: Selection, rented: Candidate) -> str:
    """Why renting is recommended although something can be bought."""
    bought = chosen.bought
    if bought is None or not bought.usd_per_run or not rented.usd_per_run:
        return _why_not_bought(survey, rented)
    share = rented.usd_per_run / bought.usd_per_run
    if share >= 1:  # a smaller budget already rents it, and more money must not lead to something slower
        gain = f"{bought.run.seconds / rented.run.seconds:.1f} times as fast as {a(bought.name)}"
        return f"it is {gain}, the best purchase within the budget, which costs {1 - 1 / share:.0%} less per {survey.work}"
    less = f"a {survey.work} costs {1 - share:.0%} less than on {a(bought.name)}"
    limit = survey.query.limits.budget_usd
    what = "card" if bought.gpu_count == 1 else "set"
    which = f"the {what} with the lowest cost per run" if limit is None else f"the best {what} for {survey.money(limit)}"
    faster = rented.run.seconds / bought.run.seconds - 1
    only = "only " if faster < WORTH_A_CHANGE - 1 else ""
    longer = bought.run.seconds / rented.run.seconds
    pace = f"is {only}{faster:.0%} faster" if faster >= SAME else "is just as fast"
    pace = f"takes {longer:.{1 if longer >= _SLOWER else 2}f} times as long" if faster <= -SAME else pace
    which = which if survey.query.text is None else f"the best {'single GPU' if bought.gpu_count == 1 else 'set'} to buy"
    return f"{less}, {which}, which {pace}"


def _why_not_bought(survey: Survey, rented: Candidate) -> str:
    budget, bought = survey.query.limits.budget_usd, survey.query.kinds & {"buy new", "buy used"}
    if budget is None:
        several = any(one.kind == "rent" and one.gpu_count > 1 for one in survey.options)
        this = "this GPU has" if rented.gpu_count == 1 else "these GPUs have"
        lowest = f"{this} the lowest cost per {survey.work} of {'all GPUs and sets' if several else 'any single GPU'} for rent"
        return "no card for sale meets your limits" if bought else lowest
    years = plural(f"{survey.query.terms.years:g}", "year")
    rents = [one for one in survey.options if one.kind == "rent" and not shortfall(one, survey.query.limits)]
    fastest = min(rents, key=lambda one: one.run.seconds)
    gain = rented.run.seconds / fastest.run.seconds - 1
    spent = f"costs {survey.money(rented.total_usd)} over {years}"
    if gain < SAME:
        return f"no faster GPU can be rented within the budget (this one {spent})"
    more = (fastest.total_usd or 0.0) - (rented.total_usd or 0.0)
    price = f"{survey.money(abs(more))} {'more' if more >= 0 else 'less'}"
    return f"it {spent}, which is within the budget; {a(fastest.name)} would be {gain:.0%} faster for {price}"


def faster(survey: Survey, kept: Candidate, bought: Candidate | None) -> str:
    """Return what a clearly faster card would cost, if the user's own card is kept because it is cheaper."""
    if survey.query.limits.budget_usd is not None:
        return ""
    if bought and kept.run.seconds >= WORTH_A_CHANGE * bought.run.seconds:
        return _more_use(survey, kept, bought)
    others = [one for one in buys(survey) if one.gpu_count == 1 and not shortfall(one, survey.query.limits)]
    quick = best_bought([one for one in others if kept.run.seconds >= WORTH_A_CHANGE * one.run.seconds], UserLimits())
    if quick is None or quick.upfront_usd is None:
        return ""
    return (
        f"{a(quick.name)} ({survey.money(quick.upfront_usd)}) would be {kept.run.seconds / quick.run.seconds:.2f} times as fast"
    )


def _more_use(survey: Survey, kept: Candidate, bought: Candidate) -> str:
    """Return from how many hours per week a faster card would cost less per run than the one that is kept."""
    if not bought.runs or bought.usd_per_run is None or kept.usd_per_run is None:
        return ""
    running = bought.running_usd / bought.runs
    if kept.usd_per_run <= running:
        return ""
    hours = 168 * survey.query.terms.utilization * (bought.usd_per_run - running) / (kept.usd_per_run - running)
    if hours >= 168:
        return ""
    price = survey.money(bought.upfront_usd)
    return f"above {plural(f'{hours:.0f}', 'hour')} of use a week, {a(bought.name)} ({price}) has a lower cost per {survey.work}"


def describe_limit(line: CheckLine, option: Candidate) -> str:
    """The power limit that an option needs, and why."""
    each = "each card" if option.gpu_count > 1 else "the card"
    stronger = "a circuit with a higher rating" if line.check == "outlet" else "a larger power supply"
    watts = line.power_limit_watts or 0.0
    lost = speed_cost([Cards(gpu=gpu, count=count) for gpu, count in option.run.parts], watts)
    return f" Limit {each} to {watts:.0f} W, which costs {lost}, or use {stronger}: {line.text}."


def describe_age(gpu: Gpu) -> str:
    """Say what a GPU without bf16 means for language models, most of which are published in bf16."""
    lacks = "has no bf16, so models run in fp16, and some programs do not support it (FlashAttention 2, for example)"
    return f" {the(gpu.name, first=True)} {lacks}."


def rented_for_less(survey: Survey, best: Candidate, rented: Candidate) -> str:
    """A rented GPU that costs less per run than the recommendation."""
    terms = survey.query.terms
    less = 1 - (rented.usd_per_run or 0.0) / (best.usd_per_run or 1.0)
    hours, slower = even_hours_per_week(best, rented, terms), rented.run.seconds / best.run.seconds
    reach = "at any number of hours" if hours is None else f"for up to {plural(f'{hours:.0f}', 'hour')} of use a week"
    if less < _HARDLY_LESS:
        pace = f" and takes {slower:.1f} times as long" if slower >= _SLOWER else ""
        quick = f", which is {1 / slower:.1f} times as fast," if slower * _SLOWER <= 1 else ""
        now = plural(f"{168 * terms.utilization:.0f}", "hour")
        return f" Renting {a(rented.name)}{quick} is cheaper {reach}, but it saves only {less:.0%} at {now} a week{pace}."
    pace = f" but takes {slower:.1f} times as long, and" if slower >= _SLOWER else ", but"
    pace = f" and is {1 / slower:.1f} times as fast, but" if slower * _SLOWER <= 1 else pace
    now = f"{plural(f'{168 * terms.utilization:.0f}', 'hour')} a week, it costs {less:.0%} less per {survey.work}"
    return f" Renting {a(rented.name)} is cheaper {reach}. At {now}{pace} {TROUBLE}."


def unpriced_macs(survey: Survey) -> str:
    """The fastest MacBook, where laptops are asked for and its price is not known; how many Macs have no price, where only those
    are asked for.
    """
    if survey.query.wanted.vendor == "Apple" and not survey.query.wanted.laptop:
        return _other_macs(survey)
    macs = [one for one in survey.options if one.gpu.vendor == "Apple" and one.run.fits]
    fastest = min(macs, key=lambda one: one.run.seconds, default=None)
    if fastest is None or survey.query.wanted.vendor or any(one.upfront_usd is not None for one in macs):
        return ""
    speed = f"at {rate_text(fastest.run)}" if survey.query.text else f"in {format_si(fastest.run.seconds, 's')} per run"
    add = f'add yours with `--price "{fastest.gpu.name}=…"`'
    return f" No prices of MacBooks are known; one with {a(fastest.gpu.name)} would do the same work {speed} ({add})."


def _other_macs(survey: Survey) -> str:
    """How many Apple chips have no price, most of them in used Macs, and the one with the highest bandwidth."""
    known = {one.gpu.name for one in survey.options if one.upfront_usd is not None}
    lacking = [gpu for gpu in load_catalog().curated if gpu.vendor == "Apple" and gpu.name not in known]
    fastest = max(lacking, key=lambda gpu: gpu.memory_bytes_per_s, default=None)
    if fastest is None:
        return ""
    add = f'`--price "{fastest.name}=…"`'
    return f" {len(lacking)} other Apple chips, such as {the(fastest.name)}, have no known price; add yours with {add}."


def describe_sparing(priced: Priced) -> str:
    """The chosen way of running, how much memory the ways that fit nothing need, and how slow others would be."""
    taken = SHORT_WAYS[priced.way]
    needs = [f"or {need / GIB:,.0f} GiB {SHORT_WAYS[way]}" for way, need in priced.skipped]
    if priced.skipped:
        way, first = priced.skipped[0]
        text = any(isinstance(pace, LanguagePace) for pace in priced.paces.values())
        usual = "full training needs" if priced.way in METHODS else "the usual method needs"
        usual = "the published weights need" if text else usual
        even = ", even with recomputed activations" if way == "checkpoint" else ""
        needs[0] = f"{usual} {first / GIB:,.0f} GiB{even}"
        needs += ["even with one sample at a time"] if any(pace.batch > 1 for pace in priced.paces.values()) else []
    most = both(f"{format_rate(rate)} tokens/s with {name} weights on {a(on)}" for name, rate, on in priced.slower)
    why = "; ".join(part for part in (", ".join(needs), f"at most {most}" if most else "") if part)
    return f"{taken} ({why})" if why else taken


def describe_hired_work(survey: Survey, rented: Candidate, hours: float) -> str:
    """How many images or tokens this many rented hours produce."""
    count = hours * 3600 * rented.run.samples_per_s
    if survey.query.text:
        return f"{count / 1e6:,.0f} million tokens at {rate_text(rented.run)}"
    return f"{count:,.0f} images, one every {format_si(1 / rented.run.samples_per_s, 's')}"


def describe_hired_pace(survey: Survey, rented: Candidate) -> str:
    """How fast rented GPUs produce images or tokens, as the end of a sentence."""
    return (
        f", at {rate_text(rented.run)}"
        if survey.query.text
        else f", and an image takes {format_si(1 / rented.run.samples_per_s, 's')}"
    )


def in_time(survey: Survey, run: TaskRun, link: str) -> str:
    """Whether the expected time meets the deadline, and whether the slow end of the range does too. `link` begins the clause."""
    if (deadline := survey.query.limits.deadline_s) is None:
        return ""
    unless = "" if run.seconds * run.high <= deadline else " unless the run is slower than expected"
    return f"{link} meets the deadline of {format_si(deadline, 's')}{unless}{_by_then(survey, run, deadline)}"


def _by_then(survey: Survey, run: TaskRun, deadline_s: float) -> str:
    """How many samples are done by the deadline, if the user did not say how many there are."""
    guessed = any(note.code == "run" for note in survey.query.assumptions) and not survey.query.task
    if not guessed or len(survey.query.jobs) > 1:
        return ""
    count = f"{deadline_s / run.seconds * survey.query.jobs[0].samples:.2g}"
    unit = "samples" if survey.query.text is None else "tokens"
    return f" (enough time for {float(count):,.0f} {unit}; set your number with `--samples`)"
