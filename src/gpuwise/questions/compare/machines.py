"""What the sets of a comparison need around them: which GPUs are modules for servers, and what their machines cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.box.parts import is_card
from gpuwise.core.text import both, the
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import MACHINE_USD, in_server, machine_usd, server_for, servers_of
from gpuwise.money.prices import PriceBook, age_of_machine, price_now
from gpuwise.questions.common.rigs import Rig

__all__ = ["describe_machines", "describe_modules", "is_module", "machines_usd"]

_LARGE_SET = 3  # cards that no plain desktop holds
_SAME_MEMORY = 0.02  # makers count gigabytes in two ways


def is_module(gpu: Gpu) -> bool:
    """Return whether it fits on a server's board instead of in a slot."""
    return gpu.cooler == "module"


def describe_modules(rigs: Sequence[Rig], book: PriceBook) -> list[str]:
    """Return which of these GPUs is a module for servers, if others are cards, and what the same GPU costs as a card."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values()
    if all(map(is_module, gpus)):
        return []
    return [f"{the(gpu.name)} is a module for servers, not a card{_describe_card(gpu, book)}" for gpu in gpus if is_module(gpu)]


def _describe_card(gpu: Gpu, book: PriceBook) -> str:
    """The card with the same chip and as much memory, with its price."""
    for one in load_catalog().gpus:
        alike = one.chip == gpu.chip and abs(one.memory_bytes / gpu.memory_bytes - 1) < _SAME_MEMORY
        price = price_now(one, book) if alike and not is_module(one) and one.name.split()[0] == gpu.name.split()[0] else None
        if price is not None:
            return f"; the most similar card is the {one.name} ({book.currency.show(price.usd)})"
    return ""


def machines_usd(rigs: Sequence[Rig], book: PriceBook) -> list[float]:
    """Return what the rest of each set's machine costs, as in `cost`: servers, or the share of one that a few modules take. If
    no set needs a server, only what three or more cards need beyond a plain desktop.
    """
    served = any(_in_server(rig) for rig in rigs)
    whole = [_machine_usd(rig, book) for rig in rigs]
    return (
        whole if served else [usd - MACHINE_USD if rig.count >= _LARGE_SET else 0.0 for rig, usd in zip(rigs, whole, strict=True)]
    )


def _in_server(rig: Rig) -> bool:
    return any(in_server(gpu) for gpu, _ in rig.parts)


def _kind(rig: Rig) -> tuple[str, float]:
    """Which machine a set needs, and how much of it."""
    return (server_for(rig.gpu, rig.count).title, servers_of(rig.gpu, rig.count)) if _in_server(rig) else ("", rig.count)


def _machine_usd(rig: Rig, book: PriceBook) -> float:
    gpu = next((gpu for gpu, _ in rig.parts if in_server(gpu)), rig.gpu)
    if not (in_server(gpu) or all(is_card(one) for one, _ in rig.parts)):
        return 0.0
    return machine_usd(gpu, rig.count, age_of_machine(gpu, price_now(gpu, book), book.today))


def describe_machines(rigs: Sequence[Rig], machines: Sequence[float], show: Callable[[float], str]) -> list[str]:
    """Return what the machines cost if sets need different ones: their own price alone would make many small cards, or modules
    without their server, look cheap. Also which command checks a machine for many cards.
    """
    large = [rig for rig in rigs if rig.count >= _LARGE_SET and not _in_server(rig) and all(is_card(gpu) for gpu, _ in rig.parts)]
    if any(_in_server(rig) for rig in rigs) and len({_kind(rig) for rig in rigs}) > 1 and len(set(machines)) > 1:
        needs = both(f"{show(usd)} for {the(rig.name)}{_places(rig)}" for rig, usd in zip(rigs, machines, strict=True))
        return [f"these prices do not include the rest of the machine, about {needs}{_checked(large)}"]
    if not large:
        return []
    costs = [(rig, usd) for rig, usd in zip(rigs, machines, strict=True) if rig in large]
    needs = both(f"{the(rig.name)} need a machine that costs about {show(usd)}" for rig, usd in costs)
    return [f"{needs} more than a plain desktop; these prices do not include it{_checked(large)}"]


def _places(rig: Rig) -> str:
    """Which share of a server is counted, if it is not a whole one."""
    share = servers_of(rig.gpu, rig.count) if _in_server(rig) else 1
    return f" ({rig.count} of the {server_for(rig.gpu, rig.count).most_gpus} GPUs that a server holds)" if share < 1 else ""


def _checked(large: Sequence[Rig]) -> str:
    plain = next((rig.name for rig in large if len(rig.parts) == 1), "")
    return f'; `gpuwise build --gpu "{plain}"` checks such a machine' if plain else ""
