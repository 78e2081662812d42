"""The cost of each set of GPUs, and the price at which it offers as much speed for the money as the first one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.box.parts import is_card
from gpuwise.core.text import are, both, either, share_of, the
from gpuwise.core.units import GIB
from gpuwise.money.costs import in_server
from gpuwise.money.prices import PriceBook, price_now, price_text
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.machines import is_module
from gpuwise.questions.compare.reasons import is_tie
from gpuwise.questions.compare.types import Deal, Pair
from gpuwise.questions.compare.verdict import WIDE, mean_ratio
from gpuwise.questions.compare.words import mean_speed

__all__ = ["deals_of", "describe_better_buy", "describe_price", "describe_prices"]

_CURRENT_DAYS = 730  # a price that is older, such as most launch prices, says little about what a card costs now

_EXAMPLES = {"datacenter": 5_000, "soc": 3_000}  # dollars: plausible prices, where $700 is none
_SAME_SPEED = 0.005  # what two digits cannot tell apart
_SAME_VALUE = 1.1  # speed for the money of sets of different sizes: a smaller difference is within the errors of both
_SAME_MEMORY = 0.02  # makers count gigabytes in two ways


def deals_of(rigs: Sequence[Rig], pairs: Sequence[Pair], book: PriceBook) -> tuple[Deal, ...]:
    """Return for each set its price, its speed and, if prices are current, the price at which a dollar buys as much speed as
    with the first set.
    """
    costs = [_cost(rig, book) for rig in rigs]
    base, _, base_is_current, _ = costs[0]
    found = []
    for rig, (usd, note, current, seen) in zip(rigs, costs, strict=True):
        speed = mean_speed(rig, pairs)
        comparable = _weighs(rigs[0], rig) and any(
            pair.gpu == rig.name and pair.comparable and not pair.helped for pair in pairs
        )  # a price for the speed of layers on the CPU says nothing about the GPU
        fair = base is not None and usd is not None and base_is_current and current and _weighs(rigs[0], rig)
        found.append(
            Deal(
                gpu=rig.name,
                price_usd=usd,
                price_low_usd=seen[0],
                price_high_usd=seen[1],
                price_note=note,
                price_is_current=current,
                speed=speed,
                value=speed * base / usd if fair and usd and base else None,
                even_ratio=speed if rig is not rigs[0] and comparable else None,
                even_usd=speed * base if fair and base is not None and rig is not rigs[0] and comparable else None,
                watts=rig.watts,
            )
        )
    return tuple(found)


def _weighs(base: Rig, rig: Rig) -> bool:
    """Return whether speed for the money is a fair comparison: equal numbers of GPUs of one kind each, so that it does not
    depend on how the work is divided, and not a whole laptop against a card.
    """
    return base.count == rig.count and len(base.parts) == len(rig.parts) == 1 and _is_laptop(base) == _is_laptop(rig)


def _is_laptop(rig: Rig) -> bool:
    return rig.gpu.segment == "laptop"


_Seen = tuple[float | None, float | None]


def _cost(rig: Rig, book: PriceBook) -> tuple[float | None, str, bool, _Seen]:
    """The price of all GPUs of a set, what it is, whether every part of it is from the last two years, and the range seen."""
    prices = [(price_now(gpu, book), count) for gpu, count in rig.parts]
    known = [(price, count) for price, count in prices if price is not None]
    if len(known) < len(prices):
        return None, "no published price", False, (None, None)
    notes = dict.fromkeys(price_text(price, book.today) for price, _ in known)
    current = all((book.today - price.dated).days <= _CURRENT_DAYS for price, _ in known)
    seen = (sum(price.low_usd * count for price, count in known), sum(price.high_usd * count for price, count in known))
    return sum(price.usd * count for price, count in known), "; ".join(notes), current, seen


# ---------------------------------------------------------------- sentences


def describe_price(deal: Deal, show: Callable[[float], str]) -> str:
    """`$669 used`."""
    if deal.price_usd is None or not deal.price_is_current:
        return "no current price"
    kind = deal.price_note.split(" price")[0]
    return f"{show(deal.price_usd)} {'new' if kind == 'shop' else kind}".removesuffix(" your")


def describe_prices(rigs: Sequence[Rig], deals: Sequence[Deal], pairs: Sequence[Pair], show: Callable[[float], str]) -> list[str]:
    """Below which price each set is the better buy; without current prices, how many times the first one's price it is worth."""
    if len({_is_laptop(rig) for rig in rigs}) > 1:  # the price of a laptop is that of a whole machine
        return []
    base, known = deals[0], [deal for deal in deals[1:] if deal.even_usd is not None]
    sold = [deal for deal in deals if deal.price_usd is not None and deal.price_is_current]
    uneven = any(not _weighs(rigs[0], rig) or _has_ended(rig) != _has_ended(rigs[0]) for rig in rigs)
    if (uneven or any(pair.helped for pair in pairs)) and len(sold) > 1:
        return [_describe_sold(sold, show)]
    if sold and len(rigs) == 2 and not any(pair.comparable for pair in pairs):  # without speeds, the prices alone
        return [_describe_sold(sold, show), *_describe_unknown(rigs, deals)]
    found = []
    if len(known) == 1 and _is_open(base, known[0], pairs):
        rig = next(rig for rig in rigs if rig.name == known[0].gpu)
        found.append(_describe_open((rigs[0], rig), (base, known[0]), show))
    elif len(known) == 1:
        found.append(_describe_one(base, known[0], show))
    elif known:
        found.append(_describe_several(base, known, show))
    return [*found, *_describe_unknown(rigs, deals)]


def describe_better_buy(
    rigs: Sequence[Rig], deals: Sequence[Deal], machines: Sequence[float], pairs: Sequence[Pair], show: Callable[[float], str]
) -> str:
    """Which set offers the most speed for its price, as a sentence, and the memory or software that speaks for another; empty
    where prices or speeds do not settle it."""
    if any(deal.price_usd is None or not deal.price_is_current for deal in deals):
        return ""
    prices = "these prices" if any("your price" in deal.price_note for deal in deals) else "current prices"
    if any(pair.helped for pair in pairs):
        return _describe_cheaper(rigs, deals, machines, pairs, prices)
    if len(rigs) == 2 and not _weighs(*rigs):
        return _describe_better_set(rigs, deals, machines, pairs, prices, show)
    if any(deal.even_usd is None for deal in deals[1:]):
        return ""
    if any(_is_open(deals[0], deal, pairs) for deal in deals[1:]):
        return _describe_choice(rigs, deals) if len(rigs) == 2 else ""
    order = sorted(((deal.value or 0.0, rig) for deal, rig in zip(deals, rigs, strict=True)), key=_most)
    (best, better), (second, _), *_ = order
    if is_tie(best / second):
        return _describe_roomier(rigs) if len(rigs) == 2 and not any(map(_has_ended, rigs)) else ""
    most = "more" if len(rigs) == 2 else "the most"
    others = [rig for rig in rigs if rig is not better]
    against = _describe_against(better, others)
    if against:
        next_best = [rig.name for _, rig in order if not _describe_against(rig, [one for one in rigs if one is not rig])]
        instead = (
            f". Among the others, {the(next_best[0])} offers the most speed for the money" if next_best and len(rigs) > 2 else ""
        )
        they = "they are" if are(better.name) == "are" else "it is"
        return (
            f" At {prices}, {_offers(better)} {most} speed for the money, but {they} not recommended, because {against}{instead}."
        )
    return f" At {prices}, {_offers(better)} {most} speed for the money{_describe_unless(better, others)}."


def _describe_cheaper(
    rigs: Sequence[Rig], deals: Sequence[Deal], machines: Sequence[float], pairs: Sequence[Pair], prices: str
) -> str:
    """Whether the faster of two sets also costs less; with layers on the CPU, no price makes up for the difference in speed."""
    usd = [(deal.price_usd or 0.0) + machine for deal, machine in zip(deals, machines, strict=True)]
    faster = int(mean_ratio([pair.ratio for pair in pairs]) > 1)
    if len(rigs) > 2 or usd[faster] >= usd[1 - faster] or is_tie(usd[0] / usd[1]):
        return ""
    return f" At {prices}, {the(rigs[faster].name)} also {'cost' if are(rigs[faster].name) == 'are' else 'costs'} less."


def _describe_against(better: Rig, others: Sequence[Rig]) -> str:
    """Return what speaks against the better buy, if that is not true of all others: software that has ended, or no slot."""
    ended = _has_ended(better) and not all(map(_has_ended, others))
    module = is_module(better.gpu) and not all(in_server(rig.gpu) for rig in others)
    found = ["new releases of CUDA and PyTorch do not support it"] if ended else []
    return both([*found, *(["it is a module that fits only in servers"] if module else [])])


def _describe_roomier(rigs: Sequence[Rig]) -> str:
    """What decides between two that offer the same speed for the money."""
    less, more = sorted(rigs, key=lambda rig: rig.gpu.usable_memory_bytes)
    if more.gpu.usable_memory_bytes <= (1 + _SAME_MEMORY) * less.gpu.usable_memory_bytes:
        return ""
    its = "their" if are(more.name) == "are" else "its"
    return f" Both offer the same speed for the money, so choose {the(more.name)} for {its} larger memory."


def _most(entry: tuple[float, Rig]) -> float:
    return -entry[0]


def _describe_unless(better: Rig, others: Sequence[Rig]) -> str:
    """What speaks against the better buy: models for which only another set has the memory, and software for CUDA."""
    least = better.gpu.usable_memory_bytes
    found = []
    if any(rig.gpu.usable_memory_bytes > (1 + _SAME_MEMORY) * least for rig in others):
        found.append(f"your models need more than {least / GIB:.0f} GiB{' on each GPU' if better.count > 1 else ''}")
    if better.gpu.vendor != "NVIDIA" and any(rig.gpu.vendor == "NVIDIA" for rig in others):
        found.append("your software supports only CUDA")
    return f", unless {either(found)}" if found else ""


def _has_ended(rig: Rig) -> bool:
    """Whether new software does not run on it."""
    return bool(rig.gpu.architecture.last_software)


def _describe_choice(rigs: Sequence[Rig], deals: Sequence[Deal]) -> str:
    """What decides between an NVIDIA GPU and one of another vendor if their speeds are too uncertain: price, memory, software."""
    cuda = [rig.gpu.vendor == "NVIDIA" for rig in rigs]
    if sum(cuda) != 1:
        return ""
    own, other = cuda.index(True), cuda.index(False)
    more = rigs[other].gpu.memory_bytes > (1 + _SAME_MEMORY) * rigs[own].gpu.memory_bytes
    cheaper = not is_tie((deals[own].price_usd or 1.0) / (deals[other].price_usd or 1.0)) and (
        (deals[other].price_usd or 0.0) < (deals[own].price_usd or 0.0)
    )
    gains = either([*(["its lower price"] if cheaper else []), *(["its larger memory"] if more else [])])
    if not gains:
        return f" Choose {the(rigs[own].name)}: the other one is not cheaper, has no more memory, and supports less software."
    known = f"{the(rigs[own].name)}, whose speed is better known"
    return f" Choose {known}, unless you have tested your software on {the(rigs[other].name)} and want {gains}."


def _describe_better_set(
    rigs: Sequence[Rig],
    deals: Sequence[Deal],
    machines: Sequence[float],
    pairs: Sequence[Pair],
    prices: str,
    show: Callable[[float], str],
) -> str:
    """Which of two sets offers more speed for the money with one job and with separate jobs; servers count, and the machine that
    three or more desktop cards need."""
    if any(_is_laptop(rig) or not (is_card(gpu) or is_module(gpu)) for rig in rigs for gpu, _ in rig.parts):
        return ""
    usd = [(deal.price_usd or 0.0) + machine for deal, machine in zip(deals, machines, strict=True)]
    shared = [pair for pair in pairs if pair.comparable]
    apart = [pair.ratio_separate for pair in shared if pair.ratio_separate is not None]
    if not shared or _is_open(deals[0], deals[1], pairs):
        return ""
    larger = sum(machines)
    rest = "a larger machine" if 0.0 in machines else "their machines"
    at = f" At {prices}{f', including {show(larger)} for {rest}' if larger else ''}, "
    if not apart:
        value = mean_ratio([pair.ratio for pair in shared]) * usd[0] / usd[1]
        return "" if _is_even(value) else f"{at}{_offers(rigs[value > 1])} more speed for the money."
    values = [mean_ratio(ratios) * usd[0] / usd[1] for ratios in ([pair.ratio for pair in shared], apart)]
    together, separate = (None if _is_even(value) else rigs[value > 1] for value in values)
    if together is separate and together is not None:
        both_ways = f"{_offers(together)} more speed for the money, in one job and in separate jobs"
        return f"{at}{both_ways}{_describe_unless(together, [rigs[together is rigs[0]]])}."
    chosen = separate or together
    unless = _describe_unless(chosen, [rigs[chosen is rigs[0]]]) if chosen is not None else ""
    if together is None:
        apart_too = f", but {_offers(separate)} more with separate jobs{unless}" if separate is not None else ""
        return f"{at}both offer about the same speed for the money{' with one job' if apart_too else ''}{apart_too}."
    rest = (
        "both offer about the same with separate jobs"
        if separate is None
        else f"{_offers(separate)} more with separate jobs{unless}"
    )
    return f"{at}{_offers(together)} more speed for the money with one job, but {rest}."


def _is_even(value: float) -> bool:
    """Whether two sets offer about the same speed for the money."""
    return 1 / _SAME_VALUE < value < _SAME_VALUE


def _offers(rig: Rig) -> str:
    return f"{the(rig.name)} {'offer' if are(rig.name) == 'are' else 'offers'}"


def _is_open(base: Deal, deal: Deal, pairs: Sequence[Pair]) -> bool:
    """Return whether the speed is so uncertain that either set may be the better buy: its range is wide and includes the ratio
    of the prices.
    """
    shared = [pair for pair in pairs if pair.gpu == deal.gpu and pair.comparable]
    low, high = (mean_ratio(ends) for ends in ([pair.ratio_low for pair in shared], [pair.ratio_high for pair in shared]))
    return high > WIDE * low and low < (deal.price_usd or 0.0) / (base.price_usd or 1.0) < high


def _describe_open(rigs: tuple[Rig, Rig], deals: tuple[Deal, Deal], show: Callable[[float], str]) -> str:
    """Return what two sets cost and how they differ in price and memory, without saying which is the better buy."""
    costs, once = _costs(deals, show)
    (usd, cheap, least), (more_usd, dear, most) = sorted(
        (deal.price_usd or 0.0, place, rig.gpu.memory_bytes) for place, (deal, rig) in enumerate(zip(deals, rigs, strict=True))
    )
    less = "less" if most < least else "more"
    differs = abs(most / least - 1) > _SAME_MEMORY
    memory = f"{abs(most - least) / GIB:.0f} GiB {less} memory" if differs else "the same memory"
    each = " on each GPU" if rigs[0].count > 1 and differs else ""
    return (
        f"{the(deals[cheap].gpu)} {costs[cheap]} and "
        f"{the(deals[dear].gpu)} {costs[dear]}{once}, which is {show(more_usd - usd)} more for {memory}{each}"
    )


def _describe_one(base: Deal, deal: Deal, show: Callable[[float], str]) -> str:
    several = are(deal.gpu) == "are"
    usd, even = deal.price_usd or 0.0, deal.even_usd or 0.0
    costs, once = _costs((deal, base), show)
    even_speed = abs(deal.speed - 1) < _SAME_SPEED
    speed = (
        "as fast" if even_speed else f"{deal.speed:.2f} times as fast" if deal.speed > 1 else f"{100 * deal.speed:.2g}% as fast"
    )
    if is_tie(usd / even):
        same = f"{the(deal.gpu)} {costs[0]} and {are(deal.gpu)} {speed} as {the(base.gpu)}, which {costs[1]}{once}"
        return f"{same}, so both offer the same speed for the money"
    return (
        f"{the(deal.gpu)} {are(deal.gpu)} {speed} as {the(base.gpu)}, which {costs[1]}, so {the(deal.gpu)} "
        f"{'would be' if usd > even else are(deal.gpu)} the better buy at any price below {show(even)}; "
        f"{'they' if several else 'it'} currently {costs[0]}{once}"
    )


def _costs(deals: Sequence[Deal], show: Callable[[float], str]) -> tuple[list[str], str]:
    """`costs $800 (used price in 2026-09, two months old)` for each; what all prices have in common is returned separately, to
    be said once.
    """
    notes = {deal.price_note for deal in deals}
    alike = len(notes) == 1 < len(deals)
    found = [
        f"{'cost' if are(deal.gpu) == 'are' else 'costs'} {show(deal.price_usd or 0.0)}{'' if alike else f' ({deal.price_note})'}"
        for deal in deals
    ]
    return found, f" ({notes.pop().replace(' price', ' prices')})" if alike else ""


def _describe_sold(deals: Sequence[Deal], show: Callable[[float], str]) -> str:
    """What each set costs, without a word on which is the better buy."""
    costs, once = _costs(deals, show)
    return both(f"{the(deal.gpu)} {cost}" for deal, cost in zip(deals, costs, strict=True)) + once


def _describe_several(base: Deal, deals: Sequence[Deal], show: Callable[[float], str]) -> str:
    """All break-even prices in one sentence."""
    first, *rest = (f"{show(deal.even_usd or 0.0)} (now {show(deal.price_usd or 0.0)}, {deal.price_note})" for deal in deals)
    even = both(
        [
            f"{the(deals[0].gpu)} would have to cost {first}",
            *(f"{the(one.gpu)} {usd}" for one, usd in zip(deals[1:], rest, strict=True)),
        ]
    )
    return f"{the(base.gpu)} {_costs([base], show)[0][0]}; to offer the same speed for the money, {even}"


def _describe_unknown(rigs: Sequence[Rig], deals: Sequence[Deal]) -> list[str]:
    """The break-even as a ratio for sets whose price, or that of the first set, is not current."""
    base = deals[0]
    unsure = [deal for deal in deals[1:] if deal.even_usd is None and deal.even_ratio is not None]
    unknown = [(rig, deal) for rig, deal in zip(rigs, deals, strict=True) if not deal.price_is_current]
    if not unknown or len(unsure) + (not base.price_is_current) == 0:
        return []
    own = unknown[0][0].gpu
    parts = [f"no current price is known for {either(the(deal.gpu) for _, deal in unknown)}"]
    if unsure:
        worth = [
            f"{the(one.gpu)} {are(one.gpu)} worth up to {share_of(one.speed, 'the price')} of {the(base.gpu)}"
            for one in unsure[:1]
        ]
        worth += [f"{the(one.gpu)} up to {share_of(one.speed, 'that price')}" for one in unsure[1:]]
        parts.append(f"by speed alone, {both(worth)}")
    parts.append(f'set prices with `--price "{own.name}={_EXAMPLES.get(own.segment, 700)}"`')
    return ["; ".join(parts)]
