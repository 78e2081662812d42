"""The words of `which`: its verdict, why an option is what it is, why the obvious others are not there, what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.changes import even_hours_per_week, worth_usd
from gpuwise.advise.choosing import Limits, Selection, best_bought, shortfall
from gpuwise.advise.job_ways import WAYS
from gpuwise.advise.market import NEW_MONTHS
from gpuwise.advise.options import Option, Run
from gpuwise.api.paced import Priced
from gpuwise.api.question import Assumption, assumed
from gpuwise.api.which_question import WhichQuery
from gpuwise.evidence.ranges import knows
from gpuwise.money.age import age_text
from gpuwise.money.box.types import Line
from gpuwise.units import GIB, format_si

__all__ = ["Scene", "changes", "notes", "reasons", "rejections", "verdict"]

_FEW = 4
_ENOUGH_MEMORY = 0.75  # of the best buy's: a used card with less is another kind of card
_FASTER = 1.15  # times: less is not worth the next budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that was looked at. `refused` are sets of cards that no usual machine carries, `older` cards that are sold used only,
    without a published price; `build` is by option."""

    query: WhichQuery
    priced: tuple[Priced, ...]
    options: tuple[Option, ...]
    refused: tuple[Option, ...]
    older: tuple[Run, ...]
    build: dict[str, tuple[Line, ...]]

    def money(self, usd: float | None) -> str:
        return "unknown" if usd is None else self.query.book.currency.show(usd)


# ---------------------------------------------------------------- verdict


def verdict(scene: Scene, chosen: Selection, shown: Sequence[Option]) -> str:
    """One sentence that can be acted on."""
    if scene.query.general:
        return _general(scene, shown)
    if chosen.best is None:
        return _nothing(scene)
    best, run = chosen.best, chosen.best.run
    time = f"a run takes {_span(run)}"
    if best.kind == "keep":
        return f"Keep your {best.name}: {time}, and {_nothing_better(scene, chosen)}."
    ratio = f", {chosen.kept.run.seconds / run.seconds:.1f} times as fast as your {chosen.kept.name}" if chosen.kept else ""
    if best.kind == "rent" and best.rent is not None:
        rate = scene.query.book.currency.show(best.rent.usd_per_gpu_hour, 2)
        why = "its runs cost less than half of what any card to buy asks" if chosen.bought else _why_not_bought(scene)
        return f"Rent {_a(best.name)} ({rate} an hour{_several(best)}): {time}{ratio}; {why}."
    price = "price unknown" if best.upfront_usd is None else f"{scene.money(best.upfront_usd)}{_several(best)}"
    return f"Buy {_a(best.name)} ({price}): {time}{ratio}; {_why_best(scene, chosen)}."


def _span(run: Run) -> str:
    low, high = run.seconds * run.low, run.seconds * run.high
    return f"{format_si(run.seconds, 's')} ({format_si(low, 's')} to {format_si(high, 's')})"


def _several(option: Option) -> str:
    return " together" if option.gpu_count > 1 and option.kind != "rent" else " each" if option.gpu_count > 1 else ""


def _a(name: str) -> str:
    return (
        name
        if name[0].isdigit()
        else f"an {name}"
        if name[:3] in ("RTX", "RX ", "AI ", "Arc") or name[0] in "AHLM"
        else f"a {name}"
    )


def _why_best(scene: Scene, chosen: Selection) -> str:
    best, limits = chosen.best, scene.query.limits
    bought = [one for one in scene.options if one.kind.startswith("buy") and not shortfall(one, limits) and _alike(one, best)]
    fastest = min(bought, key=lambda one: one.run.seconds)
    if limits.budget_usd is None:
        known = best is not None and best.upfront_usd is not None
        return "its runs cost least over the years" if known else "nothing of the kind is faster, whatever it costs"
    if best is fastest:
        return f"nothing faster is sold for {scene.money(limits.budget_usd)}"
    more = (fastest.upfront_usd or 0.0) - ((best.upfront_usd if best else None) or 0.0)
    gain = (best.run.seconds / fastest.run.seconds - 1) if best else 0.0
    return f"{_a(fastest.name)} would be {gain:.0%} faster for {scene.money(more)} more"


def _alike(option: Option, best: Option | None) -> bool:
    """One GPU is held against single ones: several ask for other code."""
    return best is None or best.gpu_count > 1 or option.gpu_count == 1


def _nothing_better(scene: Scene, chosen: Selection) -> str:
    best = chosen.bought or chosen.rented
    if best is None or chosen.kept is None:
        return "nothing else keeps to your limits"
    gain = chosen.kept.run.seconds / best.run.seconds
    limit = f" for {scene.money(scene.query.limits.budget_usd)}" if scene.query.limits.budget_usd is not None else ""
    return f"the best there is{limit}, {_a(best.name)}, is {gain:.2f} times as fast: hardly felt"


def _why_not_bought(scene: Scene) -> str:
    return (
        "nothing that can be bought keeps to your limits"
        if scene.query.kinds & {"buy new", "buy used"}
        else "its runs cost least"
    )


def _general(scene: Scene, shown: Sequence[Option]) -> str:
    if not shown:
        return _nothing(scene)
    value = min(shown, key=lambda option: option.usd_per_run or 0.0)
    fastest = min(shown, key=lambda option: option.run.seconds)
    more = value.run.seconds / fastest.run.seconds
    faster = f"; {_a(fastest.name)} ({scene.money(fastest.upfront_usd)}) is {more:.1f} times as fast" if more > 1 else ""
    price = f"{scene.money(value.upfront_usd)}, {value.gpu.memory_bytes / GIB:.0f} GB"
    return (
        f"The best value is {_a(value.name)} ({price}): its runs cost least over the years{faster}. "
        "The others are the best that less or more money buys; name your model and budget for an answer of your own."
    )


def _nothing(scene: Scene) -> str:
    """The nearest that would do, and what to change."""
    limits = scene.query.limits
    fitting = [option for option in scene.options if option.run.fits]
    if not fitting:
        most = max(scene.options, key=lambda option: option.run.paces[0].usable_bytes)
        need = min(option.run.needed_bytes for option in scene.options)
        return (
            f"Nothing fits: in the most sparing way that was tried a GPU needs {need / GIB:.1f} GiB, and {_a(most.name)} has "
            f"{most.run.paces[0].usable_bytes / GIB:.1f}. Split the model over GPUs (`gpuwise plan`), or see `gpuwise fit`."
        )
    timely = [option for option in fitting if limits.deadline_s is None or option.run.seconds <= limits.deadline_s]
    if not timely:
        fastest = min(fitting, key=lambda option: option.run.seconds)
        more = "A longer deadline, or more GPUs: `gpuwise plan`."
        return f"Nothing is done in time: the fastest, {_a(fastest.name)}, takes {_span(fastest.run)} for a run. {more}"
    cheapest = min(timely, key=_spent)
    word = "rent of" if cheapest.kind == "rent" else "price of"
    done = " and is done in time" if limits.deadline_s is not None else ""
    what = f"the cheapest that fits{done} is {_a(cheapest.name)}, {word} {scene.money(_spent(cheapest))}"
    return f"Nothing is within {scene.money(limits.budget_usd)}: {what}."


def _spent(option: Option) -> float:
    spent = option.total_usd if option.kind == "rent" else option.upfront_usd
    return float("inf") if spent is None else spent


# ---------------------------------------------------------------- reasons


def reasons(scene: Scene, option: Option, chosen: Selection) -> tuple[str, ...]:
    """What is to be known of one option."""
    found = []
    if option is chosen.best and not scene.query.general:
        found.append("the verdict")
    for priced, pace in zip(scene.priced, option.run.paces, strict=True):
        if not pace.fits:
            found.append(f"{priced.job.model} does not fit: {pace.memory_bytes / GIB:.1f} of {pace.usable_bytes / GIB:.1f} GiB")
        elif pace.micro_batch < pace.batch:
            found.append(f"{priced.job.model} in parts of {pace.micro_batch} samples")
        elif pace.bound == "launch":
            found.append(f"{priced.job.model} is held up by the host")
    if option.gpu_count > 1:
        found.append("memory does not add up: each GPU holds the model")
    if option.gpu.vendor != "NVIDIA" and not option.gpu.is_cpu:
        found.append(f"needs {option.gpu.architecture.first_software.split()[0] or 'its own'} software in place of CUDA")
    found += [f"{line.text}; {line.remedy}" if line.remedy else line.text for line in _warnings(scene, option)]
    return tuple(found)


def _warnings(scene: Scene, option: Option) -> list[Line]:
    return [line for line in scene.build.get(option.key, ()) if line.verdict == "fail"]


# ---------------------------------------------------------------- the others


def rejections(scene: Scene, shown: Sequence[Option], chosen: Selection) -> tuple[tuple[str, str], ...]:
    """Every GPU to buy that is not shown, with the reason; those nearest to the verdict first."""
    names = {option.name for option in shown}
    aim = chosen.best.run.seconds if chosen.best else 0.0
    looked_at = (*scene.options, *scene.refused)
    others = [option for option in looked_at if option.kind.startswith("buy") and option.name not in names]
    others.sort(key=lambda option: (option.gpu_count, abs(option.run.seconds - aim)))
    found = {option.name: _why_not(scene, option, chosen) for option in others}
    return tuple(found.items())


def _why_not(scene: Scene, option: Option, chosen: Selection) -> str:
    limits, broken = scene.query.limits, shortfall(option, scene.query.limits)
    if broken == "memory":
        short = next(pace for pace in option.run.paces if not pace.fits)
        model = scene.priced[option.run.paces.index(short)].job.model
        return f"{model} does not fit: {short.memory_bytes / GIB:.1f} of {short.usable_bytes / GIB:.1f} GiB"
    if broken == "deadline":
        return f"a run takes {format_si(option.run.seconds, 's')}, too long"
    if broken == "price":
        return "nobody published a price; give one with --price"
    if broken == "budget":
        over = (option.upfront_usd or 0.0) - (limits.budget_usd or 0.0)
        return f"{scene.money(option.upfront_usd)} is {scene.money(over)} over the budget"
    failed = _warnings(scene, option)
    if failed:
        return failed[0].text
    better = [other for other in chosen.front if other.kind.startswith("buy") and _beats(other, option)]
    if better:
        return f"slower and dearer than {better[0].name}"
    rent = [other for other in chosen.front if other.kind == "rent" and _beats(other, option) and not scene.query.general]
    return f"slower and dearer than renting {_a(rent[0].name)}" if rent else "between others that are shown"


def _beats(other: Option, option: Option) -> bool:
    if other.total_usd is None or option.total_usd is None:
        return False
    return other is not option and other.run.seconds <= option.run.seconds and other.total_usd <= option.total_usd


# ---------------------------------------------------------------- what would change it


def changes(scene: Scene, chosen: Selection) -> tuple[str, ...]:
    """What would turn the answer: prices, hours, money, memory, another maker."""
    best = chosen.bought
    if best is None:
        return ()
    found = [_used(scene, best), _hours(scene, chosen), _budget(scene, best), _several_more(scene, best), _memory(best)]
    return tuple(text for text in found if text)


def _used(scene: Scene, best: Option) -> str:
    """Used cards and what they may cost."""
    pairs = []
    for run in scene.older:
        price = worth_usd(run, scene.query.terms, best)
        enough = run.fits and run.gpu.memory_bytes >= _ENOUGH_MEMORY * best.gpu.memory_bytes
        if enough and price is not None:
            pairs.append((run, min(price, scene.query.limits.budget_usd or price)))
    pairs.sort(key=lambda pair: pair[0].seconds)
    told = [f"{run.gpu.name} ({run.gpu.memory_bytes / GIB:.0f} GB) below {scene.money(price)}" for run, price in pairs[:_FEW]]
    return "a used card is the better buy at a lower price: " + ", ".join(told) if told else ""


def _hours(scene: Scene, chosen: Selection) -> str:
    if chosen.rented is None or chosen.bought is None or chosen.rented.rent is None:
        return ""
    hours = even_hours_per_week(chosen.bought, chosen.rented, scene.query.terms)
    rate = scene.query.book.currency.show(chosen.rented.rent.usd_per_gpu_hour, 2)
    who = f"{_a(chosen.rented.name)} at {rate} an hour"
    if hours is None:
        return f"renting {who} does the same work for less at any number of hours"
    return f"below {hours:.0f} hours a week renting {who} does the same work for less"


def _budget(scene: Scene, best: Option) -> str:
    """The next step up."""
    budget = scene.query.limits.budget_usd
    if budget is None:
        return ""
    better = [
        option
        for option in scene.options
        if option.kind.startswith("buy")
        and shortfall(option, scene.query.limits) == "budget"
        and best.run.seconds >= _FASTER * option.run.seconds
        and _alike(option, best)
    ]
    if not better:
        return ""
    more = best_bought(sorted(better, key=lambda option: option.upfront_usd or 0.0)[:1], Limits())
    if more is None:
        return ""
    over = scene.money((more.upfront_usd or 0.0) - budget)
    return f"{over} more in the budget buys {_a(more.name)}, {best.run.seconds / more.run.seconds:.2f} times as fast"


def _several_more(scene: Scene, best: Option) -> str:
    """A second one of the same."""
    two = [
        option
        for option in (*scene.options, *scene.refused)
        if option.gpu.name == best.gpu.name and option.gpu_count == 2 * best.gpu_count
    ]
    bought = [option for option in two if option.kind == best.kind]
    if not bought:
        return ""
    failed = [line.text for line in _warnings(scene, bought[0])]
    gain = best.run.seconds / bought[0].run.seconds
    trouble = f", but {failed[0]}" if failed else ""
    return f"a second {best.gpu.name} makes it {gain:.2f} times as fast where the code shares its work{trouble}"


def _memory(best: Option) -> str:
    usable = best.run.paces[0].usable_bytes
    needed = best.run.needed_bytes / GIB
    return f"models that need more than {usable / GIB:.0f} GiB do not fit {_a(best.gpu.name)}; here {needed:.1f} are needed"


# ---------------------------------------------------------------- assumptions


def notes(scene: Scene) -> tuple[Assumption, ...]:
    """What the answer rests on beside what the question says."""
    query = scene.query
    found: dict[str, Assumption] = {}
    for priced in scene.priced:
        for note in priced.notes:
            found.setdefault(note["name"], note)
        if priced.way != "usual" or priced.skipped:
            tried = f"{', '.join(priced.skipped)} fits nothing within reach" if priced.skipped else "as this task is done"
            found[f"way {priced.job.model}"] = assumed(f"way of {priced.job.model}", WAYS[priced.way], tried)
    bought = [option.price for option in scene.options if option.price is not None]
    launch = [price for price in bought if price.kind == "launch"]
    if launch:
        yours = f'`--price "{launch[0].gpu}=…"` gives yours'
        effect = f"shops ask other prices; {yours}; a card is taken as sold new for {NEW_MONTHS} months"
        found["prices"] = assumed("prices", "launch prices", effect)
    rents = [option.rent for option in scene.options if option.rent is not None]
    if rents:
        newest = max(rent.dated for rent in rents)
        effect = f"of {newest.isoformat()}, {age_text(newest, query.book.today)}; single offers differ two to four times"
        found["rents"] = assumed("rents", "median of clouds", effect)
    unseen = [option.gpu for option in scene.options if not knows(option.gpu) and not option.gpu.is_cpu]
    if unseen:
        names = ", ".join(dict.fromkeys(gpu.architecture.generation for gpu in unseen))
        found["ranges"] = assumed("ranges", "wider than usual", f"no GPU of these generations was measured: {names}")
    return tuple(found.values())
