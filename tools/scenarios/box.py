"""Power, slots and power supplies, and whether cards work in a given machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scenarios.asking import card, line, lines
from scenarios.types import Asked, Choice, Reply, scenario

__all__ = ["ENTRIES"]


@scenario(
    "S109",
    question="Will a GTX 1080 Ti work in an office machine with a 400 W power supply?",
    how="`build --psu 400`.",
    given=("psu_w",),
)
def _office(value: Mapping[str, Any]) -> Reply:
    found = line("psu", "GTX 1080 Ti", psu=str(value["psu_w"]))
    return {"fits": Choice(agrees=(found.verdict != "fail") is value["fits"], text=f"no: {found.text}")}


@scenario(
    "S110",
    question="How many two-slot cards fit on a board with four long slots?",
    how="`build --board 'slots=7,x16=4,spacing=2' --case-slots 7`: the largest number of cards that passes this check.",
)
def _board(value: Mapping[str, Any]) -> Reply:
    box = {"board": "slots=7,x16=4,spacing=2", "case_slots": 7, "lanes": "X99"}
    fitting = [count for count in range(1, 5) if line("slots", f"{count}x GTX 1080", **box).verdict == "pass"]
    return {"max_dual_slot": float(max(fitting, default=0))}


@scenario(
    "S116",
    question="Which cards work in a mini-ITX machine with a 350 W power supply?",
    how="`build --board itx --psu 350 --cpu-watts 65`.",
)
def _itx(value: Mapping[str, Any]) -> Reply:
    def works(gpu: str) -> bool:
        return not any(found.verdict == "fail" for found in lines(gpu, psu=str(value["psu_w"]), board="itx", cpu_watts=65))

    small, large = ("GTX 1050", "GTX 1050 Ti", "GTX 1060 6GB"), ("GTX 1080", "GTX 1080 Ti")
    able = [gpu for gpu in (*small, *large) if works(gpu)]
    return {"psu_w": Choice(agrees=set(small) <= set(able) and "GTX 1080 Ti" not in able, text=", ".join(able))}


@scenario(
    "S119",
    question="Is 1,300 W enough for four GPUs?",
    how="`build --gpu '4x GTX 1080 Ti' --psu 1300 --lanes X99`.",
    given=("n",),
    why="The sustained load is 94% of the rating, and the load during 100 µs spikes exceeds it. We recommend 1,600 W, as a "
    "later reader did.",
)
def _four(value: Mapping[str, Any]) -> Reply:
    found = line("psu", f"{value['n']}x GTX 1080 Ti", psu=str(value["psu_w"]), lanes="X99")
    return {"psu_w": Choice(agrees=found.verdict == "pass", text=f"{found.verdict}: {found.text}")}


@scenario(
    "S144",
    question="Is 1,300 W enough for three GTX 1080 cards?",
    how="`build --gpu '3x GTX 1080' --psu 1300 --lanes X99`.",
    given=("n",),
)
def _three(value: Mapping[str, Any]) -> Reply:
    found = [line(check, f"{value['n']}x GTX 1080", psu=str(value["psu_w"]), lanes="X99") for check in ("psu", "transients")]
    return {"psu_w": Choice(agrees=all(each.verdict == "pass" for each in found), text=found[0].text)}


@scenario("S189", question="What is the rated power of the RTX 2070 and the RTX 2080 Ti?", how="`gpus`.")
def _watts(value: Mapping[str, Any]) -> Reply:
    return {key: card(name).tdp_watts or 0.0 for key, name in (("tdp2070", "RTX 2070"), ("tdp2080ti", "RTX 2080 Ti"))}


@scenario(
    "S198",
    question="How hot do two open-air cards get next to each other?",
    how="`build --gpu '2x RTX 2060' --board slots=7,x16=2,spacing=2`: there is no gap, so we quote the temperature at which "
    "cards throttle.",
    why="gpuwise does not model temperatures. A card that gets too little air stays at the temperature at which it throttles.",
    quoted=True,
)
def _adjacent(value: Mapping[str, Any]) -> Reply:
    cooling = line("cooling", "2x RTX 2060", board="slots=7,x16=2,spacing=2")
    found = re.search(r"throttle at (\d+) °C", cooling.text)
    return {"temp": float(found[1])} if found and cooling.verdict != "pass" else {}


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
