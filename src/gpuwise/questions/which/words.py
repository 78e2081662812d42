"""The sentences of `which`: its verdict, remarks on each option, and why others are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from gpuwise.advise.candidates import Candidate, buyable, whole
from gpuwise.advise.choosing import NEARLY, WORTH_A_CHANGE, Selection, adds_up, best_bought, shortfall
from gpuwise.box.parts import usual_box
from gpuwise.box.power import smallest_psu
from gpuwise.box.types import Cards
from gpuwise.core.text import a, are, plural, the
from gpuwise.core.units import GIB, format_si
from gpuwise.evidence.ranges import SURE, TIED, pair_range, probability_above
from gpuwise.hardware.order import is_better
from gpuwise.hardware.types import supported
from gpuwise.money.costs import LAB_USD, in_server
from gpuwise.money.prices import NUMBERS
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.which.instead import (
    cheaper_rented,
    describe_age,
    describe_hired_pace,
    describe_hired_work,
    describe_limit,
    describe_sparing,
    in_time,
    nothing_better,
    rented_for_less,
    unpriced_macs,
)
from gpuwise.questions.which.labs import describe_servers, for_labs
from gpuwise.questions.which.language_words import cheapest_for_text, enough_for_users
from gpuwise.questions.which.nothing import nothing
from gpuwise.questions.which.remedied import Remedied, describe_spared
from gpuwise.questions.which.survey import (
    SAME,
    Survey,
    buys,
    failures,
    limited,
    owned_as,
    price_kind,
    roomy_buys,
    spent,
    yours,
)
from gpuwise.questions.which.types import Parts

__all__ = ["alike", "one_more", "renting", "sold_new", "verdict"]

_FAR_FASTER = 1.5  # times as fast: from here, renting is worth mentioning although it does not save money
_MOST_HOURS = 3.0  # times the hours of use: more than anybody would rent
_ALIKE = 1.05  # times as long: about as fast


# ---------------------------------------------------------------- verdict


def verdict(survey: Survey, chosen: Selection, shown: Sequence[Candidate], spared: Sequence[Remedied] = ()) -> Parts:
    """What to do and why, in parts that agree with the rows below; `spared` are cards that hold the jobs with remedies."""
    macs = survey.query.wanted.laptop or survey.query.vendor_given
    also = f"{describe_spared(survey, spared) if spared else ''}{unpriced_macs(survey) if macs else ''}"
    if (best := chosen.best) is None:
        return ("pick", nothing(survey, spared)), ("hire", _rent_instead(survey)), ("also", also)
    rents = best.kind == "rent" or (best.kind != "keep" and renting(survey, chosen, best))
    return (
        *_to_take(survey, chosen, best),
        ("together", _sooner_together(survey, best, shown)),
        ("new", sold_new(survey, best)),
        ("old", describe_age(best.gpu) if _uses_language(survey) and "bf16" not in supported(best.gpu) else ""),
        ("text", cheapest_for_text(survey, best) if survey.query.text else ""),
        ("enough", enough_for_users(survey, best) if survey.query.text else ""),
        ("lab", for_labs(survey, best) if (survey.query.limits.budget_usd or 0.0) >= LAB_USD else ""),
        ("hire", "" if rents else _rent_instead(survey)),
        ("also", also),
    )


def _to_take(survey: Survey, chosen: Selection, best: Candidate) -> Parts:
    run = best.run
    have = chosen.kept if chosen.kept and chosen.kept.run.fits and chosen.kept is not best else None
    own = f" ({format_si(have.run.seconds, 's')})" if have and not (survey.query.text or survey.query.media) else ""
    ratio = f", which is {have.run.seconds / run.seconds:.1f} times as fast as on {yours(survey, have)}{own}" if have else ""
    meets = in_time(survey, run, " and" if have else ", which") if survey.query.limits.deadline_s is not None else ""
    time = f"{_describe_ways(survey)}{survey.pace(run)}{ratio}{meets}"
    if best.kind == "keep":
        return ("pick", f"Keep {_every_own(survey, best)}: {time}. "), ("why", _sentence(nothing_better(survey, chosen, _sold)))
    if best.kind == "rent" and best.rent is not None:
        rate, why = survey.query.book.currency.show(best.rent.usd_per_gpu_hour, 2), cheaper_rented(survey, chosen, best)
        return ("pick", f"Rent {a(best.name)} ({rate} an hour{_for_all(best)}): {time}. "), ("why", _sentence(why))
    known = best.upfront_usd is not None
    price = f"{survey.money(best.upfront_usd)}{_for_all(best)}{_made_of(survey, best)}" if known else "price unknown"
    time = f"together with {f'your {best.run.beside[0].name}' if best.run.beside else 'yours'}, {time}" if best.added else time
    return (
        ("pick", f"Buy {one_more(best) or a(best.name)} ({price}): {time}. "),
        ("why", _sentence(_why_best(survey, chosen))),
        ("machine", _to_change(survey, best)),
        ("rent", renting(survey, chosen, best)),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _every_own(survey: Survey, best: Candidate) -> str:
    """All GPUs of the user, and that each works alone if one is faster than all together."""
    one = yours(survey, best)
    return one if one.startswith("your") else f"{one.removeprefix('one of ')}, one for each job"


def _uses_language(survey: Survey) -> bool:
    """Whether a language model generates text or is trained with adapters."""
    return survey.query.text is not None or any(priced.way in METHODS for priced in survey.priced)


def _describe_ways(survey: Survey) -> str:
    """Jobs that must be run in another way than usual because the usual way fits no card."""
    stands = f", which stands for {survey.query.task}," if survey.query.task and survey.query.text else ""
    told = [priced for priced in survey.priced if priced.skipped or priced.slower]
    ways = [f"{priced.job.model}{stands} runs {describe_sparing(priced)}" for priced in told]
    return f"{' and '.join(ways)}; " if ways else ""


def _to_change(survey: Survey, best: Candidate) -> str:
    """What the machine lacks for the recommended card."""
    failed, held = failures(survey, best), limited(survey, best)
    if not failed:
        return describe_limit(held, best) if held else _larger_supply(survey, best)
    where = "with your power supply" if survey.query.psu_watts else "in a typical machine"
    return f" This does not work {where}: {failed[0].text}; {failed[0].remedy or 'see `gpuwise build`'}."


def _larger_supply(survey: Survey, best: Candidate) -> str:
    """The power supply for a card that draws much more than the one in the user's machine."""
    query = survey.query
    if not query.have or query.psu_watts is not None or query.machine_given or whole(best.gpu) or in_server(best.gpu):
        return ""
    box = usual_box(best.gpu_count, None, query.region)
    needs, has = (smallest_psu([Cards(gpu=gpu, count=n) for gpu, n in parts], box) for parts in (best.run.parts, query.have))
    if needs is None or has is None or needs <= has:
        return ""
    they = "They need" if best.bought_count > 1 else "It needs"
    return f" {they} a power supply of {needs:,.0f} W."


def _made_of(survey: Survey, option: Candidate) -> str:
    """Which price it is, and what else is paid upfront."""
    cards = 0.0 if option.price is None else option.price.usd * option.bought_count
    more = (option.upfront_usd or 0.0) - cards
    if more < 1 or option.price is None:
        return price_kind(survey, option)
    what = "a larger power supply" if option.gpu_count == 2 else "a workstation that holds them"
    what = describe_servers(option) if in_server(option.gpu) and not option.added else what
    what = "a server for eight PCIe cards" if option.gpu_count > 4 and not in_server(option.gpu) else what
    what = "the rest of the machine" if survey.query.machine_given else what
    each = " each" if option.bought_count > 1 else ""
    return f": {survey.money(option.price.usd)}{each}{price_kind(survey, option)}, and {survey.money(more)} for {what}"


def _why_best(survey: Survey, chosen: Selection) -> str:
    best, limits = chosen.best, survey.query.limits
    bought = [one for one in roomy_buys(survey) if not shortfall(one, limits) and alike(one, best)]
    fastest = min(bought, key=lambda one: one.run.seconds)
    if limits.budget_usd is None:
        if best is None or best.upfront_usd is None:
            return "no comparable card is faster at any price"
        if any(not _costs_less(best, one) for one in bought if one.usd_per_run is not None):
            return f"no rented GPU that is as fast costs clearly less per {survey.work}"
        what = "computer" if whole(best.gpu) else "card" if best.gpu_count == 1 else "set"
        return f"this {what} has the lowest cost per {survey.work} of all {_sold(survey, best)}"
    gain = best.run.seconds / fastest.run.seconds - 1 if best else 0.0
    if gain < SAME:
        several = any(not shortfall(one, limits) and one.run.seconds < fastest.run.seconds for one in roomy_buys(survey))
        most = survey.money(limits.budget_usd)
        able = [one for one in survey.refused if not shortfall(one, limits) and one.gpu.memory_bytes >= fastest.gpu.memory_bytes]
        held = [one for one in able if one.run.seconds * (1 + SAME) < fastest.run.seconds]
        if held and not several:
            faster = min(held, key=lambda one: one.run.seconds)
            lacks = failures(survey, faster)[0].text.partition(";")[0]
            where = "in a usual server" if survey.query.wanted.servers else "in a typical machine"
            where = "with your power supply" if survey.query.psu_watts else where
            return f"faster options for {most} or less, such as {faster.name}, do not work {where}: {lacks}"
        what = "single card" if several else "card or set of cards"
        what = "laptop" if survey.query.wanted.laptop else "computer" if best and whole(best.gpu) else what
        what += _as_roomy(survey)
        return f"no faster {what} is available for {most} or less{_odds(survey, best, bought)}"
    less = _against(fastest, best) if best and fastest.gpu_count > 1 else ""
    what = "single card" if best and best.gpu_count == fastest.gpu_count == 1 else "option"
    costs = f"costs {_difference(survey, fastest, best)}{f', but {less}' if less else ''}"
    return f"the fastest {what} within the budget, {a(fastest.name)}, is {gain:.0%} faster and {costs}"


def one_more(option: Candidate) -> str:
    """Return what is bought if it joins cards that the user has."""
    if option.run.beside is not None:
        return a(option.gpu.name)
    return f"{NUMBERS[option.added]} more {option.gpu.name}" if option.added else ""


def _difference(survey: Survey, other: Candidate, best: Candidate | None) -> str:
    """How much more or less another option costs."""
    more = spent(other) - ((best.upfront_usd if best else None) or 0.0)
    return f"{survey.money(abs(more))} {'more' if more >= 0 else 'less'}"


def _against(several: Candidate, best: Candidate) -> str:
    """What speaks against a set that is faster than the recommended option; empty if only its price does."""
    if several.gpu.memory_bytes < best.gpu.memory_bytes and not adds_up(several):
        small = f"each of these cards has only {several.gpu.memory_bytes / GIB:.0f} GB"
        return small if best.gpu_count > 1 else f"{small}, and your code would have to use all of them"
    if best.gpu_count == 1:
        whole = "" if adds_up(several) else ", and all of its memory is available to one model"
        return f"a single card is simpler to set up{whole}"
    return "more cards need more power and space" if several.gpu_count > best.gpu_count else ""


def alike(option: Candidate, best: Candidate | None) -> bool:
    """Return whether two options can be compared: a single GPU only with single ones."""
    return best is None or best.gpu_count > 1 or option.gpu_count == 1


def _odds(survey: Survey, best: Candidate | None, bought: Sequence[Candidate]) -> str:
    """How likely the recommended card is faster than the next one, where that is open."""
    others = [one for one in bought if best and one.gpu_count == best.gpu_count and one.gpu.name != best.gpu.name]
    if best is None or not others or adds_up(best):
        return ""
    rival = min(others, key=lambda one: one.run.seconds)
    span, ratio = pair_range(best.gpu, rival.gpu), rival.run.seconds / best.run.seconds
    chance = probability_above(ratio * span.low, ratio * span.high, middle=ratio)
    if chance >= SURE:
        return ""
    other = f"{a(rival.name)} at {survey.money(rival.upfront_usd)}"
    if chance < TIED and ratio <= 1 / NEARLY:
        return f", but {other} {are(rival.name)} about as fast"
    if ratio > 1 / NEARLY and is_better(best.gpu, rival.gpu):
        return ""
    return f" ({the(best.name)} {are(best.name)} {chance:.0%} likely to be faster than {other})"


def _costs_less(one: Candidate, other: Candidate) -> bool:
    return one.usd_per_run is not None and other.usd_per_run is not None and one.usd_per_run <= other.usd_per_run


def _sold(survey: Survey, best: Candidate) -> str:
    """The group in which its cost per run is the lowest. Several cards may cost less per run, but need code that uses them all,
    or another machine."""
    able = [one for one in (*roomy_buys(survey), *survey.refused) if not shortfall(one, survey.query.limits)]
    cheaper = any(not _costs_less(best, one) for one in able if one.gpu_count > best.gpu_count and one.usd_per_run is not None)
    timely = " that meet the deadline" if survey.query.limits.deadline_s is not None else ""
    group = (
        "computers"
        if whole(best.gpu)
        else "cards"
        if not cheaper
        else "single cards"
        if best.gpu_count == 1
        else f"sets of up to {best.gpu_count} cards"
    )
    return f"{group} for sale{_as_roomy(survey)}{timely}"


def _as_roomy(survey: Survey) -> str:
    able = [one for one in buys(survey) if not shortfall(one, survey.query.limits)]
    return " with as much memory" if len(roomy_buys(survey)) < len(able) else ""


def renting(survey: Survey, chosen: Selection, best: Candidate) -> str:
    """Rented GPUs that cost less per run than the recommendation: the table shows them, so the verdict must mention them."""
    if not best.usd_per_run:
        return ""
    rents = [one for one in (chosen.hired, chosen.rented) if one and (one.usd_per_run or inf) < (1 - SAME) * best.usd_per_run]
    if survey.query.limits.budget_usd is not None:
        rents = [one for one in rents if one is chosen.hired]
    less = rented_for_less(survey, best, rents[0]) if rents else ""
    return less + _far_faster_rented(survey, best, rents[0] if rents else None)


def _far_faster_rented(survey: Survey, best: Candidate, told: Candidate | None) -> str:
    """The fastest rented GPU that does the same work for no more money, if it is much faster and not the one told already."""
    rents = [one for one in survey.options if one.kind == "rent" and one.gpu_count <= best.gpu_count and one.run.fits]
    able = [
        one for one in rents if not shortfall(one, survey.query.limits) and (one.usd_per_run or inf) <= (best.usd_per_run or 0.0)
    ]
    quick = min(able, key=lambda one: one.run.seconds, default=None)
    if quick is None or quick is told or quick.run.seconds * _FAR_FASTER > best.run.seconds:
        return ""
    less = 1 - (quick.usd_per_run or 0.0) / (best.usd_per_run or 1.0)
    cost = "costs about the same" if less < SAME else f"costs {less:.0%} less"
    return f" For the same work, renting {a(quick.name)} {cost} and is {best.run.seconds / quick.run.seconds:.1f} times as fast."


def _for_all(option: Candidate) -> str:
    """Whether a price is that of each GPU or of all, where there are several."""
    if option.kind == "rent":
        return " each" if option.gpu_count > 1 else ""
    return " in total" if option.bought_count > 1 else ""


def _rent_instead(survey: Survey) -> str:
    """What the budget rents instead: of the GPUs that fit and are clearly faster than one's own, the cheapest per run."""
    budget, terms = survey.query.limits.budget_usd, survey.query.terms
    owned = min((one.run.seconds for one in survey.options if one.kind == "keep" and one.run.fits), default=inf)
    rents = [one for one in survey.options if one.kind == "rent" and shortfall(one, survey.query.limits) in ("", "budget")]
    rents = [one for one in rents if owned >= WORTH_A_CHANGE * one.run.seconds]
    best = min(rents, key=lambda one: one.usd_per_run or inf, default=None)
    hours = budget / best.rent.usd_per_gpu_hour / best.gpu_count if budget is not None and best and best.rent else inf
    if budget is None or best is None or best.rent is None or hours > _MOST_HOURS * terms.hours:
        return ""
    rate, weekly = survey.query.book.currency.show(best.rent.usd_per_gpu_hour, 2), 168 * terms.utilization
    makes = survey.query.text or (survey.query.media == "images" and len(survey.query.jobs) == 1)
    each = format_si(best.run.seconds, "s")
    if hours >= terms.hours:
        pace = describe_hired_pace(survey, best) if makes else f", and a run takes {each}"
        whole = f"{a(best.name)} for {survey.horizon} costs {survey.money(best.total_usd)}"
        return f" Renting {whole} ({rate} an hour{_for_all(best)}){pace}."
    weeks = plural(f"{hours / weekly:,.0f}", "week") if hours >= weekly else "less than a week"
    lasts = f"enough for {weeks} at {plural(f'{weekly:.0f}', 'hour')} a week"
    runs = hours * 3600 / best.run.seconds
    cost = f", {survey.money(best.usd_per_run)} each" if runs >= 1.5 else ""
    does = (
        f"{runs:,.0f} run{'s' if runs >= 1.5 else ''} of {each}{cost}" if runs >= 1 else f"less than one run, which takes {each}"
    )
    does = describe_hired_work(survey, best, hours) if makes else does
    hired = f"{a(best.name)} for {plural(f'{hours:,.0f}', 'hour')} at {rate} an hour{_for_all(best)}"
    instead = "instead " if survey.query.kinds & {"buy new", "buy used"} else ""
    return f" For {survey.money(budget)}, you could {instead}rent {hired}. That is {lasts}, or {does}."


def sold_new(survey: Survey, used: Candidate) -> str:
    """The best purchase that is sold new, where a used one is recommended: some people must not, or do not want to, buy those."""
    query = survey.query
    if used.kind != "buy used" or "buy new" not in query.kinds:
        return ""
    able = [
        one
        for one in roomy_buys(replace(survey, options=tuple(_offered_new(survey))))
        if one.kind == "buy new" and not (query.general and one.gpu_count > 1)
    ]
    found = best_bought(able, query.limits)
    if found is None:
        return ""
    if found.name == used.name:
        cost = f"{'costs' if used.bought_count == 1 else 'cost'} {survey.money(found.upfront_usd)}"
        return f" Bought new, {one_more(used) or the(used.name)} {cost}."
    slower = found.run.seconds / used.run.seconds
    pace = f"takes {slower:.1f} times as long" if slower >= _ALIKE else "is about as fast"
    pace = f"is {1 / slower:.1f} times as fast" if slower <= 1 / _ALIKE else pace
    each = f"{survey.money(found.upfront_usd)}, {found.gpu.memory_bytes / GIB:.0f} GB{' each' if found.bought_count > 1 else ''}"
    return f" The best option sold new (`--buy`) is {one_more(found) or a(found.name)} ({each}), which {pace}."


def _offered_new(survey: Survey) -> list[Candidate]:
    """Return what the user has, and everything that is also sold new at the price of new cards, with the same times."""
    query = survey.query
    gpus = {one.gpu.name: one.gpu for one in survey.options}
    prices = {gpu.name: price for gpu, price in buyable(list(gpus.values()), replace(query.wanted, condition="new"), query.book)}
    found = [one for one in survey.options if one.kind == "keep"]
    for one in buys(survey):
        price = prices.get(one.gpu.name)
        if one.gpu.name not in prices or one.price == price:
            found += [one] * (one.gpu.name in prices)
        elif one.added and price is not None:
            from gpuwise.questions.which import beside

            found += beside.joined(query, one.run, price, one.gpu_count - one.added)
        else:
            found.append(owned_as(query, one.run, price, "buy new"))
    return found


# ---------------------------------------------------------------- beside it: several cheaper cards, rent


def _sooner_together(survey: Survey, best: Candidate, shown: Sequence[Candidate]) -> str:
    """Several cards that are faster than the single one that is recommended, and why they are not."""
    if not best.kind.startswith("buy") or best.gpu_count > 1 or best.upfront_usd is None:
        return ""
    first = min((one for one in shown if one.kind.startswith("buy")), key=lambda one: one.run.seconds)
    faster = best.run.seconds / first.run.seconds
    if first.gpu_count == 1 or faster < 1 + SAME or spent(first) == inf:
        return ""
    pace = f"{faster - 1:.0%} faster" if faster < 2 else f"{faster:.1f} times as fast"
    return f" {first.name} would be {pace} for {_difference(survey, first, best)}, but {_against(first, best)}."
