"""The answer of `which`: at most seven options and a verdict, why the others are left out, what would change the verdict (with
numbers), and the assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuwise.advise.candidates import Candidate, whole
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
from gpuwise.advise.jobs import SHORT_WAYS, WAYS, JobPace, taken
from gpuwise.box.parts import usual_box
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import a, the
from gpuwise.core.units import format_si
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.hardware.types import supported
from gpuwise.money.costs import RENT_BELOW, RENT_FASTER, RENT_FASTER_BELOW, in_server, server_for
from gpuwise.money.prices import NEW_MONTHS, age_text, data_date, kinds_text
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.common.jobs import does_not_fit, way_text
from gpuwise.questions.common.machine import check_machine
from gpuwise.questions.face import face
from gpuwise.questions.which.ask import WhichQuery, ask
from gpuwise.questions.which.changes import changes
from gpuwise.questions.which.general import general
from gpuwise.questions.which.instead import describe_sparing
from gpuwise.questions.which.language_paces import LanguagePace
from gpuwise.questions.which.language_words import engine_of, shares
from gpuwise.questions.which.nothing import nearest_rows
from gpuwise.questions.which.options import WhichOptions
from gpuwise.questions.which.remedied import describe_remedy, remedied, wants_remedies
from gpuwise.questions.which.survey import SAME, Survey, failures, make_survey, spent, yours
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.questions.which.words import verdict
from gpuwise.scale.cluster.shape import takes_bridge

__all__ = ["answer", "choose", "notes", "which"]

_TIERS_USD = (300.0, 500.0, 800.0, 1200.0, 2000.0, 4000.0, 9000.0)  # recommended for where no budget is given


def answer(options: WhichOptions, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    return choose(ask(options), progress)


def choose(query: WhichQuery, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    survey = make_survey(query, progress)
    chosen = select(survey.options, query.limits)
    shown = _best_by_budget(survey.options) if query.general else chosen.shown if chosen.best else nearest_rows(survey, chosen)
    if query.general and shown:  # the verdict and what would change it are about a card that is shown
        chosen = replace(chosen, bought=min(shown, key=lambda option: option.usd_per_run or 0.0))
    simple = chosen.bought is not None and not query.have and not any(priced.skipped for priced in survey.priced)
    spared = remedied(survey, chosen, progress) if not simple and wants_remedies(survey, chosen) else ()
    decodes = any(priced.decodes for priced in survey.priced)
    builds = {
        option.key: _check_parts(option, query.psu_watts, query.region, decodes=decodes)
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
        reasons={option.key: _reasons(survey, option, chosen) for option in shown},
        rejected=_rejections(survey, shown, chosen),
        changes_if=changes(survey, chosen),
        remedied=tuple((one, describe_remedy(survey, one)) for one in spared),
        ways=tuple(priced.way for priced in survey.priced),
        every=survey.options,
        assumptions=(*query.assumptions, *notes(survey)),
        data_date=data_date(query.book),
    )


def _best_by_budget(options: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The best card at each of several budgets."""
    found: dict[str, Candidate] = {}
    for budget in _TIERS_USD:
        best = _pick_at(options, budget)
        if best is not None:
            found.setdefault(best.key, best)
    return tuple(found.values())


def _pick_at(options: Sequence[Candidate], budget_usd: float) -> Candidate | None:
    """The best single card for this budget."""
    limits = UserLimits(budget_usd=budget_usd)
    return best_bought([option for option in options if option.gpu_count == 1 and not shortfall(option, limits)], limits)


def _check_parts(option: Candidate, psu_watts: float | None, region: str, *, decodes: bool) -> tuple[CheckLine, ...]:
    """Every check of `gpuwise build` that concerns these jobs, so that both commands agree about the same machine."""
    cards = [Cards(gpu=gpu, count=count) for gpu, count in option.run.parts]
    found = check_machine(cards, usual_box(option.gpu_count, psu_watts, region), curve=False)
    return tuple(line for line in found.lines if decodes or line.check != "loader")


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
    if all(one.way in METHODS for one in survey.priced) and all("bf16" in supported(one.gpu) for one in survey.options):
        found["old"] = assumed("GPUs without bf16", "left out", "language models are trained in bf16, and others can be bought")
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


# ---------------------------------------------------------------- reasons


def _reasons(survey: Survey, option: Candidate, chosen: Selection) -> tuple[str, ...]:
    """Remarks on one option."""
    found = ["the verdict"] if option is chosen.best and not survey.query.general else []
    for priced, pace in zip(survey.priced, option.run.paces, strict=True):
        if taken(priced.way, pace) != "usual":
            way = SHORT_WAYS[priced.way] if chosen.best else describe_sparing(priced)  # the verdict has told why
            found.append(f"{priced.job.model} runs {way}")
    for priced, pace in zip(survey.priced, option.run.paces, strict=True):
        if not pace.fits:
            found.append(does_not_fit(priced, pace, _each(pace)))
        elif pace.micro_batch < pace.batch:
            found.append(f"{priced.job.model} runs in micro-batches of {pace.micro_batch}")
        elif pace.bound == "launch" and not survey.query.text:
            found.append(f"{priced.job.model} spends most of its time waiting for the CPU")
    if option.kind == "keep" and not yours(survey, option).startswith("your"):
        found.append("one of your GPUs alone is faster than all together, because the link slows down the exchange of gradients")
    found += engine_of(option, chosen.shown) if survey.query.text else []
    if option.gpu_count > 1:
        found.append(shares(option) if survey.query.text else option.run.held)
        if takes_bridge(option.gpu) and option.kind != "rent" and option.run.beside is None:
            found.append("these GPUs are assumed to have no NVLink bridge; `gpuwise matters nvlink` shows the gain from one")
    if in_server(option.gpu) and option.kind.startswith("buy"):
        found.append(f"the price includes {server_for(option.gpu, option.gpu_count).title}; `gpuwise build` checks only desktops")
    if whole(option.gpu) and not survey.query.wanted.laptop:
        found.append("this is a complete computer, so no other parts are added to its price")
    if option.gpu.vendor != "NVIDIA" and not option.gpu.is_cpu:
        found.append(f"this GPU needs {option.gpu.architecture.first_software.split()[0] or 'its own'} software instead of CUDA")
    found += [f"{line.text}; {line.remedy}" if line.remedy else line.text for line in failures(survey, option)]
    return tuple(found)


_FAR = 3.0  # times the budget: out of reach


def _rejections(survey: Survey, shown: Sequence[Candidate], chosen: Selection) -> tuple[tuple[str, str], ...]:
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
        return does_not_fit(survey.priced[option.run.paces.index(short)], short, _each(short))
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
    tier = next((usd for usd in _TIERS_USD if usd >= spent(option)), None)
    pick = None if tier is None else _pick_at(survey.options, tier)
    if tier is None or pick is None or pick.name == option.name:
        return (
            f"costs more than {survey.money(_TIERS_USD[-1])}" if tier is None else "cheaper than the option shown for its budget"
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


def _each(pace: JobPace) -> str:
    return " on each GPU" if isinstance(pace, LanguagePace) and pace.gpu_count > 1 else ""


which = face(WhichOptions, answer)
