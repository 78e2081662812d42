"""The answer of `which`: at most seven options and a verdict, why the others are left out, what would change the verdict (with
numbers), and the assumptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import (
    CLEARLY_CHEAPER,
    NEARLY,
    TIED,
    WORTH_A_CHANGE,
    WORTH_SEVERAL,
    Selection,
    UserLimits,
    best_bought,
    select,
    shortfall,
)
from gpuwise.advise.jobs import WAYS, Job
from gpuwise.advise.thresholds import even_hours_per_week, price_flips
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import a, are, both, plural
from gpuwise.core.units import GIB
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.money.costs import DESK_USE, LAB_USE, RENT_BELOW, RENT_FASTER, RENT_FASTER_BELOW, WEEK_HOURS
from gpuwise.money.prices import NEW_MONTHS, age_text, data_date, kinds_text
from gpuwise.questions.common.jobs import Priced, way_text
from gpuwise.questions.face import face
from gpuwise.questions.which.ask import WhichQuery, ask
from gpuwise.questions.which.general import general
from gpuwise.questions.which.instead import TROUBLE, faster
from gpuwise.questions.which.language_paces import LanguagePace
from gpuwise.questions.which.language_words import more_for_text
from gpuwise.questions.which.nothing import nearest_rows
from gpuwise.questions.which.options import WhichOptions
from gpuwise.questions.which.remedied import describe_remedy, remedied, wants_remedies
from gpuwise.questions.which.survey import (
    Survey,
    alike,
    best_by_budget,
    buys,
    check_parts,
    failures,
    make_survey,
    one_more,
    spent,
)
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.questions.which.words import reasons, rejections, renting, verdict

__all__ = ["answer", "choose", "notes", "which"]


def answer(options: WhichOptions, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    return choose(ask(options), progress)


def choose(query: WhichQuery, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    survey = make_survey(query, progress)
    chosen = select(survey.options, query.limits)
    shown = best_by_budget(survey.options) if query.general else chosen.shown if chosen.best else nearest_rows(survey, chosen)
    if query.general and shown:  # the verdict and what would change it are about a card that is shown
        chosen = replace(chosen, bought=min(shown, key=lambda option: option.usd_per_run or 0.0))
    simple = chosen.bought is not None and not query.have and not any(priced.skipped for priced in survey.priced)
    spared = remedied(survey, chosen, progress) if not simple and wants_remedies(survey, chosen) else ()
    decodes = any(priced.decodes for priced in survey.priced)
    builds = {
        option.key: check_parts(option, query.psu_watts, query.region, decodes=decodes)
        for option in shown
        if option.key in survey.build
    }
    return WhichAnswer(
        query=query,
        said=(said := general(survey, chosen, shown) if query.general else verdict(survey, chosen, shown, spared)),
        verdict="".join(text for _, text in said),
        best=None if query.general else chosen.best,
        options=shown,
        build=builds,
        reasons={option.key: reasons(survey, option, chosen) for option in shown},
        rejected=rejections(survey, shown, chosen),
        changes_if=_changes(survey, chosen),
        remedied=tuple((one, describe_remedy(survey, one)) for one in spared),
        ways=tuple(priced.way for priced in survey.priced),
        every=survey.options,
        assumptions=(*query.assumptions, *notes(survey)),
        data_date=data_date(query.book),
    )


# ---------------------------------------------------------------- what it assumes beyond the question


def notes(survey: Survey) -> tuple[Assumption, ...]:
    """What the answer assumes beyond the question itself."""
    query = survey.query
    found: dict[str, Assumption] = {}
    for job, priced in zip(query.jobs, survey.priced, strict=True):
        for note in priced.notes:
            found.setdefault(note.name, note)
        if priced.way not in ("usual", "checkpoint") or priced.skipped or len(job.ways) > 1:
            found[f"way {job.model}"] = assumed(f"method for {job.model}", WAYS[priced.way], way_text(job, priced), code="way")
    if not query.asked.batch and query.text is None:
        found["batch"] = _batches(survey)
    if not query.general:
        found["rule"] = _rule(query)
    if query.limits.budget_usd is not None:
        found["budget"] = _budget_note(survey)
    if survey.build:
        effect = (
            "ok means that the build works, and tight means that it works if you address the named item; "
            "`gpuwise build` checks your own machine"
        )
        found["build"] = assumed("build", "a typical machine", effect)
    bought = [option.price for option in survey.options if option.price is not None and option.price.kind != "given"]
    if bought:
        yours = f'set your own with `--price "{bought[0].gpu}=…"`'
        effect = f"local prices may differ; {yours}; cards are assumed to be sold new for {NEW_MONTHS} months after launch"
        found["prices"] = assumed("prices", f"the latest known: {kinds_text(bought)}", effect)
    rents = [option.rent for option in survey.options if option.rent is not None]
    if rents:
        newest = max(rent.dated for rent in rents)
        dated = f"data from {newest.isoformat()}, {age_text(newest, query.book.today)}"
        effect = f"{dated}; individual offers differ by a factor of two to four"
        found["rents"] = assumed("rents", "the median cloud price", effect)
    unseen = [option.gpu for option in survey.options if query.text is None and not knows(option.gpu) and not option.gpu.is_cpu]
    for makers in (False, True):
        alike = [gpu for gpu in unseen if knows_vendor(gpu) != makers]
        names = ", ".join(dict.fromkeys(gpu.vendor if makers else gpu.architecture.generation for gpu in alike))
        if names and makers:
            low, high = UNMEASURED_RANGE
            effect = f"no GPU of these vendors was measured: {names}"
            found["assumed ranges"] = assumed(
                "ranges of unmeasured vendors", f"{low:g} to {high:g} times the predicted time", effect
            )
        elif names:
            value = "the same as for GPU generations left out of the fit"
            found["ranges"] = assumed("ranges", value, f"no GPU of these generations was measured: {names}")
    return tuple(found.values())


def _batches(survey: Survey) -> Assumption:
    """Return how many samples a step has; on small cards in parts."""
    sizes = [(priced.job.model, max((pace.batch for pace in priced.paces.values()), default=0)) for priced in survey.priced]
    value = str(sizes[0][1]) if len(sizes) == 1 else ", ".join(f"{model} {size}" for model, size in sizes)
    effect = "the usual size, split into micro-batches where it does not fit; set your own with `--batch`, or use `--batch auto`"
    return assumed("batch", value, effect)


def _rule(query: WhichQuery) -> Assumption:
    """The rule by which the recommendation is made."""
    budget, buying, effect = query.limits.budget_usd, bool(query.kinds & {"buy new", "buy used"}), list[str]()
    work = "run" if query.text is None else "million tokens"
    value = f"the {'card' if buying else 'rented GPU'} with the lowest cost per {work}"
    if budget is not None and buying:
        value = "the last purchase that is worth its price, from the cheapest to dearer ones"
        far = f"more than {1 / NEARLY - 1:.0%} faster if the cheaper one costs at most {CLEARLY_CHEAPER:.0%} as much"
        effect.append(f"a dearer one must be at least {TIED - 1:.0%} faster, or {far}")
    elif budget is not None:
        value = "the fastest GPU to rent within the budget"
        effect.append(f"one at least {NEARLY:.0%} as fast is preferred if its rent is at most {CLEARLY_CHEAPER:.0%} as much")
    if budget is not None:
        several = WORTH_SEVERAL if query.text is None else WORTH_A_CHANGE
        effect.append(f"several GPUs must be {several:g} times as fast as a cheaper single one")
    if "rent" in query.kinds and buying:
        rents = f"at least {NEARLY:.0%} as fast costs less than {RENT_BELOW:.0%} as much per {work} to rent as to buy"
        quick = f"less than {RENT_FASTER_BELOW:.0%} if it is {RENT_FASTER:g} times as fast"
        effect.append(f"renting is recommended only if a GPU {rents}, or {quick}")
    cheaper = f" and costs less per {work}" if budget is None else ""
    effect += [f"your own GPU is kept unless the new one is {WORTH_A_CHANGE:g} times as fast{cheaper}"] if query.have else []
    return assumed("rule", value, "; ".join(effect) or "no other rule applies")


def _budget_note(survey: Survey) -> Assumption:
    """What the budget covers."""
    query = survey.query
    whole = "the whole year" if query.terms.years == 1 else f"all {query.terms.years:g} years"
    rents = f"; if you rent, it must cover {whole}" if "rent" in query.kinds else ""
    what = "the cards and the rest of the machine" if query.machine_given else "the cards"
    effect = f"covers the upfront cost of {what}, but not electricity{rents}"
    return assumed("budget", survey.money(query.limits.budget_usd), effect)


which = face(WhichOptions, answer)


# ---------------------------------------------------------------- what would change it: prices, hours, budget, memory, more cards

_MANY_BYTES = 24 * GIB  # of a model in 16 bits: more than the usual cards hold
_FEW = 2  # prices that are named
_ABOUT_EQUAL = 1.05  # times as long: no difference in practice
_NEARLY_EQUAL = 1.02  # times as long still counts as equally fast
_MORE_MEMORY = 1.3  # times the memory is worth mentioning: 16 GB instead of 12 GB
_LITTLE_MORE = 1.25  # times the price
_FAR_SLOWER = 4.0  # times as long: another kind of machine
_WITHIN_REACH = 2.0  # times the budget: nobody spends more, assumed
_FASTER = 1.15  # times as fast: a smaller gain is not worth a larger budget


def _changes(survey: Survey, chosen: Selection) -> tuple[str, ...]:
    """What would change the recommendation: prices, hours, budget, memory, more cards."""
    taken, best = chosen.bought if survey.query.general else chosen.best, chosen.bought
    main = taken or best
    said = bool(best and best is taken and renting(survey, chosen, best))  # the verdict itself compares with renting
    hours = "" if said else _hours(survey, chosen)
    first, last = (hours, "") if _hangs_on_a_guess(survey, chosen) else ("", hours)
    larger, found = _larger(survey, taken), list[str]()
    if main:
        found = [first, larger, *_prices(survey, chosen, above=_budget(survey, main)), last]
        found += [faster(survey, chosen.kept, chosen.bought) if chosen.kept and chosen.best is chosen.kept else ""]
        found += [_budget(survey, main)]
    found += ["" if larger else _roomier(survey, best), _several_more(survey, best)] if best and best is taken else []
    return tuple(text for text in (*found, _adapters(survey), "" if larger else _memory(taken)) if text)


def _could_shrink(job: Job, priced: Priced) -> bool:
    """Return whether a model runs with 16-bit weights because no format was given, and they are many."""
    wide = [pace for pace in priced.paces.values() if isinstance(pace, LanguagePace) and pace.weights in ("fp16", "bf16")]
    return "int4" in job.ways and min((pace.memory_bytes * pace.gpu_count for pace in wide), default=0.0) > _MANY_BYTES


def _hangs_on_a_guess(survey: Survey, chosen: Selection) -> bool:
    """Return whether renting or buying is cheaper depends on which of the two usual numbers of hours is assumed."""
    guessed = any(note.code == "hours_per_week" for note in survey.query.assumptions)
    rented, bought = chosen.hired or chosen.rented, chosen.bought
    if not guessed or rented is None or bought is None:
        return False
    hours = even_hours_per_week(bought, rented, survey.query.terms)
    return hours is not None and DESK_USE * WEEK_HOURS <= hours <= LAB_USE * WEEK_HOURS


def _adapters(survey: Survey) -> str:
    """What smaller GPUs could do where all weights of a large model are trained, or used in 16 bits."""
    if survey.query.text is not None:
        large = [job.model for job, priced in zip(survey.query.jobs, survey.priced, strict=True) if _could_shrink(job, priced)]
        return f"with 4-bit weights (`--weights int4`), {both(large)} would fit on smaller GPUs" if large else ""
    jobs = zip(survey.query.jobs, survey.priced, strict=True)
    able = [job.model for job, priced in jobs if priced.way == "checkpoint" and "lora" in job.ways]
    return f"with LoRA adapters (`--method lora`), {both(able)} would fit on smaller GPUs" if able else ""


def _prices(survey: Survey, chosen: Selection, above: str) -> list[str]:
    """Return offered prices that would change the recommendation, except of a card that `above`, on a larger budget, names."""
    if chosen.best is None or not chosen.best.kind.startswith("buy") or survey.query.general:
        return []
    found = []
    for flip in price_flips(survey.options, survey.query.limits, survey.query.terms, chosen.best):
        price, at = flip.option.price, survey.money(flip.usd)
        if price is None:
            continue
        if at == survey.money(price.usd):  # the prices are at the very point where the recommendation changes
            other = flip.then if flip.option is chosen.best else flip.option
            found.append(f"at these prices, {a(other.name)} is as good a choice")
            continue
        if flip.option is chosen.best:
            who = "the estimate ranges from" if price.estimated else "sellers ask"
            span = f"{who} {survey.money(price.low_usd)} to {survey.money(price.high_usd)}"
            most = survey.query.limits.budget_usd or 0.0
            more = f"more than the {survey.money(most)} that you can spend" if at == survey.money(most) else f"{at} or more"
            found.append(f"if {a(flip.option.gpu.name)} costs {more} ({span}), {_instead(flip.then)} the better choice")
        elif f" {(named := flip.option.gpu.name)} " not in above:
            now = f"{'estimated at ' if price.estimated else 'now '}{survey.money(price.usd)}"
            found.append(f"if {a(named)} costs {at} or less ({now}), {_instead(flip.then, named)} the better choice")
    return list(dict.fromkeys(found))[:_FEW]


def _instead(option: Candidate, named: str = "") -> str:
    if option.kind == "keep":
        return "keeping what you have is"
    own = "it is" if option.name == named else f"{a(option.name)} {are(option.name)}"
    return f"renting {a(option.name)} is" if option.kind == "rent" else own


def _hours(survey: Survey, chosen: Selection) -> str:
    rented = chosen.best if chosen.best and chosen.best.kind == "rent" else chosen.hired or chosen.rented
    bought = chosen.bought
    if rented and bought and rented.run.seconds > _FAR_SLOWER * bought.run.seconds:
        return ""
    if rented is None or rented.rent is None or bought is None or bought.total_usd is None or chosen.best is chosen.kept:
        return ""
    hours = even_hours_per_week(bought, rented, survey.query.terms)
    rate = survey.query.book.currency.show(rented.rent.usd_per_gpu_hour, 2)
    who = f"{a(rented.name)} at {rate} an hour{' each' if rented.gpu_count > 1 else ''}"
    now = 168 * survey.query.terms.utilization
    if hours is None:
        return f"renting {who} is cheaper at any number of hours"
    use = plural(f"{hours:.0f}", "hour")
    if chosen.best is rented:
        return f"above {use} of use a week, buying {a(bought.name)} is cheaper"
    if hours <= now and (rented.usd_per_run or 0.0) < (bought.usd_per_run or 0.0):  # more hours than a week has would be rented
        work, longer = survey.work, f"{rented.run.seconds / bought.run.seconds:.1f} times as long"
        cheaper = f"renting {who} costs {1 - (rented.usd_per_run or 0.0) / (bought.usd_per_run or 1.0):.0%} less per {work}"
        return f"{cheaper}, but takes {longer}: running day and night, it does the work of {use} of use a week"
    if hours <= now:
        return f"below {use} of use a week, renting {who} is cheaper (this answer assumes {now:.0f})"
    return f"renting {who} is cheaper for up to {use} of use a week (this answer assumes {now:.0f}), but {TROUBLE}"


def _larger(survey: Survey, best: Candidate | None) -> str:
    """With a budget, what to buy for larger models, unless one that generates text was named: the fastest with more memory."""
    budget, text = survey.query.limits.budget_usd, survey.query.text
    if budget is None or best is None or best.kind == "rent" or (text and not (survey.query.task and (text.users or 1) == 1)):
        return ""
    able = [one for one in buys(survey) if one.run.fits and not shortfall(one, survey.query.limits)]
    able = [one for one in able if one.run.shared_bytes >= _MORE_MEMORY * best.run.shared_bytes and (text or alike(one, best))]
    if not able:
        return ""
    more = min(able, key=lambda one: one.run.seconds)
    each = "" if more.gpu_count == 1 else " in total" if text else " each"
    held = f"{a(more.name)} ({survey.money(more.upfront_usd)}, {more.run.shared_bytes / GIB:.0f} GB{each})"
    room = best.run.paces[0].usable_bytes * (best.gpu_count if text else 1)
    needs = f"models that need more than {room / GIB:.0f} GiB{'' if text else ' on one GPU'}"
    longer = more.run.seconds / best.run.seconds
    pace = f"takes {longer:.1f} times as long" if longer >= 1 else f"is {1 / longer:.1f} times as fast"
    pace = "takes about as long" if 1 / _ABOUT_EQUAL < longer < _ABOUT_EQUAL else pace
    return f"for {needs}, choose {held}; {'the same text' if text else 'a run'} then {pace}"


def _roomier(survey: Survey, best: Candidate) -> str:
    """The same speed with more memory, for slightly more money."""
    able = [
        one
        for one in buys(survey)
        if (one.gpu_count, one.run.beside) == (best.gpu_count, best.run.beside)
        and one.run.seconds <= _NEARLY_EQUAL * best.run.seconds
        and one.gpu.memory_bytes >= _MORE_MEMORY * best.gpu.memory_bytes
        and best.upfront_usd
        and best.upfront_usd <= (one.upfront_usd or float("inf")) <= _LITTLE_MORE * best.upfront_usd
    ]
    if not able:
        return ""
    more = min(able, key=spent)
    memory = f"{more.gpu.memory_bytes / GIB:.0f} GB instead of {best.gpu.memory_bytes / GIB:.0f} GB"
    return f"for {survey.money(spent(more) - spent(best))} more, you get {a(more.name)}, which is just as fast and has {memory}"


def _budget(survey: Survey, best: Candidate) -> str:
    """The next step up."""
    budget = survey.query.limits.budget_usd
    if budget is None:
        return ""
    better = [
        option
        for option in buys(survey)
        if shortfall(option, survey.query.limits) == "budget"
        and spent(option) <= _WITHIN_REACH * budget
        and best.run.seconds >= _FASTER * option.run.seconds
        and option.gpu.memory_bytes >= best.gpu.memory_bytes * (best.kind == "keep")
        and (alike(option, best) or option.added)
    ]
    more = best_bought(sorted(better, key=lambda option: option.upfront_usd or 0.0)[:1], UserLimits())
    if more is None:
        return ""
    over = survey.money((more.upfront_usd or 0.0) - budget)
    gain = best.run.seconds / more.run.seconds
    bought = one_more(more) or a(more.name)
    return f"for {over} more than your budget, you could buy {bought} and {survey.do} {gain:.2f} times as fast"


def _several_more(survey: Survey, best: Candidate) -> str:
    """A second one of the same."""
    two = [
        option
        for option in (*survey.options, *survey.refused)
        if (option.gpu.name, option.gpu_count) == (best.gpu.name, 2 * best.gpu_count)
        and not (best.run.beside or option.run.beside)
    ]
    bought = [option for option in two if option.kind == best.kind]
    failed = [line.text for line in failures(survey, bought[0])] if bought else []
    if not bought or not bought[0].run.fits or (best.gpu_count > 1 and failed):
        return ""
    gain = best.run.seconds / bought[0].run.seconds
    trouble = f", but a typical machine does not support it: {failed[0]}" if failed else ""
    more = (bought[0].upfront_usd or 0.0) - (best.upfront_usd or 0.0)
    cost = f" ({survey.money(more)} more)" if more > 0 and gain >= _FASTER else ""
    added = f"a second {best.gpu.name}{cost}" if best.gpu_count == 1 else f"{best.gpu_count} more {best.gpu.name} GPUs{cost}"
    if survey.query.text:
        return more_for_text(added, gain, gain >= _FASTER, trouble)
    if gain < _FASTER:
        slow = f"{gain:.2f} times as fast, because the link slows down the exchange of gradients"
        return f"{added} would not speed up a single job ({slow}), but separate jobs could run at the same time"
    used = "both" if best.gpu_count == 1 else "all of them"
    return f"{added} would make a run {gain:.2f} times as fast if your code uses {used}{trouble}"


def _memory(best: Candidate | None) -> str:
    if best is None or getattr(best.run.paces[0], "offloaded", False):
        return ""
    usable, needed = best.run.paces[0].usable_bytes, best.run.needed_bytes / GIB
    this = "this one" if len(best.run.paces) == 1 else "the largest job here"
    room, name, needs = usable, best.gpu.name, f"{this} needs {needed:.1f} GiB"
    if isinstance(best.run.paces[0], LanguagePace) and best.gpu_count > 1:
        parts = [count * gpu.usable_memory_bytes for gpu, count in best.run.parts]
        room, name = sum(parts) if best.run.beside else best.gpu_count * usable, best.name
        needs = f"{this} needs {needed:.1f} of the {usable / GIB:.1f} usable GiB on each GPU"
    return f"a model that needs more than {room / GIB:.0f} GiB would not fit on {a(name)} ({needs})"
