"""Parses the parts of a box as people type them, checks them and fills in stated defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.box.checks import usual_ram_bytes
from gpuwise.box.parts import (
    box_sources,
    efficiencies,
    find_board,
    find_outlet,
    psu_standards,
    usual_box,
)
from gpuwise.box.power import continuous_watts, least_limit, smallest_psu
from gpuwise.box.types import COOLERS, Board, Box, Cards, Outlet, Platform
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import plural
from gpuwise.core.units import GIB, parse, parse_memory
from gpuwise.money.costs import DEFAULT_REGION, find_region
from gpuwise.questions.build.host import pcie_name, with_cpu, with_platform
from gpuwise.questions.build.options import BuildOptions
from gpuwise.questions.common.gpu_list import named_gpus
from gpuwise.questions.common.options import names

__all__ = ["BuildQuery", "ask"]

_MOST_CARDS = 16
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_BOARD_KEYS = ("slots", "x16", "spacing", "case", "switch")
_BOARD_EXAMPLE = "`--board slots=7,x16=4,spacing=2`"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildQuery:
    """Cards in a box."""

    cards: tuple[Cards, ...]
    box: Box
    assumptions: tuple[Assumption, ...] = ()


def ask(options: BuildOptions) -> BuildQuery:
    """The question as typed; what was left out is assumed, and listed."""
    notes: list[Assumption] = []
    cards = _cards(names(options.gpu), notes)
    watts, label, standard = _psu(options.psu)
    place = find_region(options.region or DEFAULT_REGION).name
    box = usual_box(sum(each.count for each in cards), watts, place)
    box = _with_psu(box, label, options.psu_standard or standard, options.psu_standard, notes)
    box = with_platform(box, options.lanes, pcie_name(options.chipset_link, "--chipset-link"), options.cpu, notes)
    box = with_cpu(box, options.cpu, options.cpu_watts, notes)
    box = _with_board(box, options.board, options.case_slots, notes)
    box = replace(
        box,
        riser=_riser(options.riser, box.platform),
        nvme_count=_whole(options.nvme, "--nvme", 0, 16, box.nvme_count),
        cooler=_cooler(options.cooler),
        card_slots=None if options.card_slots is None else _whole(options.card_slots, "--card-slots", 1, 6, 2),
        ram_bytes=_ram(options.ram),
        outlet=_outlet(options.outlet, box.outlet, place, notes),
        room_m2=_room(options.room),
        power_limit_watts=_limit(options.power_limit, cards, notes),
    )
    notes += _further(box, cards)
    if options.nvme is None:
        notes.append(assumed("disks", f"{box.nvme_count} NVMe", "each uses 4 lanes; set the number with `--nvme 2`"))
    return BuildQuery(cards=cards, box=box, assumptions=tuple(notes))


# ---------------------------------------------------------------- cards


def _cards(given: Sequence[str], notes: list[Assumption]) -> tuple[Cards, ...]:
    if not given:
        raise BadValue("no GPU was given", hint='try `--gpu "4x RTX 3090"`')
    read = [_parse_count(name) for name in given]
    total = sum(count for count, _ in read)
    if total > _MOST_CARDS:
        raise BadValue(
            f"{total:,} cards are too many for one machine",
            hint=f"give between 1 and {_MOST_CARDS} cards, such as `4x {read[0][1]}`",
        )
    found: dict[str, Cards] = {}
    for count, name in read:
        (gpu,), taken = named_gpus([name])
        if gpu.is_cpu:
            raise BadValue(f"'{name}' is a CPU, not a card", hint=f'use `--cpu "{gpu.name}"` for the CPU, and `--gpu` for a GPU')
        notes += [note for note in taken if note not in notes]
        before = found[gpu.name].count if gpu.name in found else 0
        found[gpu.name] = Cards(gpu=gpu, count=before + count)
        if gpu.devices_per_board > 1:
            effect = f"each {gpu.name} is one card with {gpu.devices_per_board} GPUs"
            notes.append(assumed(f"{gpu.name} count", f"{count} {'card' if count == 1 else 'cards'}", effect, code="card_count"))
    return tuple(found.values())


def _parse_count(text: str) -> tuple[int, str]:
    """`4x RTX 3090` -> 4 and the name."""
    match = re.fullmatch(r"\s*([-+]?\d{1,9})\s*[x×*]\s*(\S.*?)\s*", text)
    if match is None:
        return 1, text.strip()
    if int(match[1]) < 1:
        raise BadValue(f"invalid number of cards in '{text}'", hint=f'try `--gpu "2x {match[2]}"`')
    return int(match[1]), match[2]


def _limit(text: str, cards: Sequence[Cards], notes: list[Assumption]) -> float | None:
    """A power limit that each of these GPUs can be set to."""
    if not text:
        return None
    limit = parse(f"{text} W" if re.fullmatch(_NUMBER, text.strip()) else text, "power")
    for each in cards:
        least, rated = least_limit(each), each.gpu.tdp_watts or math.inf
        if not max(1.0, least) <= limit < 5000:
            raise BadValue(
                f"{limit:g} W is outside the power range of the {each.gpu.name} ({least:.0f} to {rated:.0f} W)",
                hint=f"try `--power-limit {(least + min(rated, 2 * least + 100)) / 2:.0f}`",
            )
        if limit > rated:
            notes.append(
                assumed(
                    f"{each.gpu.name} power",
                    f"{rated:g} W",
                    f"its rated power is already below your limit of {limit:g} W",
                    code="power_limit",
                )
            )
    return limit


# ---------------------------------------------------------------- power


def _psu(text: str) -> tuple[float | None, str, int | None]:
    """`1600W gold atx3` -> watts, label, standard; all but the watts may be missing."""
    if not text:
        return None, "", None
    hint = "give the rated watts, and optionally the label and standard: `--psu 1600` or `--psu '1600W gold atx3'`"
    match = re.match(rf"\s*({_NUMBER})\s*(k?w)?(?![\w.])", text.lower())
    if match is None:
        raise BadValue(f"invalid power supply '{text}'", hint=hint)
    watts = float(match[1]) * (1000 if match[2] == "kw" else 1)
    if not 100 <= watts <= 5000:
        raise BadValue(f"--psu {watts:g} W is out of range", hint="give a value between 100 and 5,000 W, such as `--psu 850`")
    label, standard = "", None
    for word in re.findall(r"atx\s*v?\s*[\d.]+|[^\s,+]+", text.lower()[match.end() :]):
        form = re.fullmatch(r"atx\s*v?\s*([23])(?:\.\d+)?", word)
        if form:
            standard = int(form[1])
        elif word in efficiencies():
            label = word
        elif word not in ("80", "plus", "80plus", "psu"):
            raise BadValue(f"unknown power supply property '{word}'", known=", ".join(efficiencies()), hint=hint)
    return watts, label, standard


def _with_psu(box: Box, label: str, standard: int | None, given: int | None, notes: list[Assumption]) -> Box:
    if given is not None and given not in psu_standards():
        raise BadValue(f"unknown ATX standard: --psu-standard {given}", hint="give 2 or 3")
    if standard is None and box.psu_watts is not None:
        notes.append(
            assumed(
                "psu standard",
                "ATX 2",
                "ATX 2 supplies tolerate smaller 100 µs power spikes than ATX 3; use `--psu-standard 3` for an ATX 3 supply",
            )
        )
    if not label:
        notes.append(
            assumed(
                "psu label",
                f"80 PLUS {box.psu_label}",
                "it determines the power drawn at the wall; set yours with `--psu '1600 platinum'`",
            )
        )
    return replace(box, psu_standard=standard or box.psu_standard, psu_label=label or box.psu_label)


# ---------------------------------------------------------------- board


def _with_board(box: Box, text: str, case_slots: int | None, notes: list[Assumption]) -> Box:
    board = box.board if not text else _typed_board(text) if "=" in text else find_board(text)
    if not text:
        apart = f", {plural(str(board.spacing), 'position')} apart" if board.x16 > 1 else ""
        slots = plural(str(board.x16), "long slot") + apart
        notes.append(
            assumed(
                "board",
                board.name,
                f"{slots}; describe your board with {_BOARD_EXAMPLE}",
            )
        )
    openings = _whole(case_slots, "--case-slots", 1, 64, board.case_slots)
    if case_slots is None:
        notes.append(
            assumed("case", plural(str(openings), "opening"), "typical for this board size; set yours with `--case-slots 7`")
        )
    return replace(box, board=board, case_slots=openings)


def _typed_board(text: str) -> Board:
    pairs = [part.partition("=") for part in text.lower().split(",")]
    given = {key.strip(): value.strip() for key, _, value in pairs}
    unknown = [key for key in given if key not in _BOARD_KEYS]
    if unknown or any(not equals for _, equals, _ in pairs):
        raise BadValue(f"invalid board '{text}'", known=", ".join(_BOARD_KEYS), hint=f"try {_BOARD_EXAMPLE}")
    slots = _board_number(given, "slots", 7)
    x16 = _board_number(given, "x16", min(slots, 4))
    if given.get("switch", "no") not in ("yes", "no"):
        raise BadValue(f"switch must be yes or no, not '{given['switch']}'", hint=f"try {_BOARD_EXAMPLE[:-1]},switch=yes`")
    return Board(
        name="",
        slots=slots,
        x16=x16,
        spacing=_board_number(given, "spacing", max(1, slots // x16)),
        case_slots=_board_number(given, "case", slots),
        switch=given.get("switch") == "yes",
        source=box_sources()["gpuwise-assumed"],
    )


def _board_number(given: dict[str, str], key: str, usual: int) -> int:
    text = given.get(key, str(usual))
    if not re.fullmatch(r"\d{1,9}", text) or not 1 <= int(text) <= (64 if key == "case" else 16):
        raise BadValue(f"{key}={text} is out of range for a board", hint=f"try {_BOARD_EXAMPLE}")
    return int(text)


# ---------------------------------------------------------------- the rest


def _riser(text: str, platform: Platform) -> str | None:
    if not text or text.lower() in ("no", "none"):
        return None
    return f"PCIe {platform.generation}.0 x16" if text.lower() == "yes" else pcie_name(text, "--riser")


def _cooler(text: str) -> str | None:
    if not text:
        return None
    name = {"open": "open-air", "air": "open-air", "liquid": "water"}.get(text.lower(), text.lower())
    if name not in COOLERS:
        raise BadValue(f"unknown cooler '{text}'", known=", ".join(COOLERS), hint="try `--cooler blower`")
    return name


def _ram(text: str) -> float | None:
    if not text:
        return None
    size = parse_memory(f"{text} GB" if re.fullmatch(_NUMBER, text.strip()) else text)
    if not GIB <= size <= 64 * 1024 * GIB:
        raise BadValue(f"--ram {text} is out of range", hint="try `--ram 64GB`")
    return size


def _outlet(text: str, usual: Outlet, region: str, notes: list[Assumption]) -> Outlet:
    """The outlet as typed, or the usual one of the region."""
    if not text:
        delivers = f"it delivers {continuous_watts(usual):,.0f} W continuously"
        effect = f"the usual outlet in your region, which is set to {region}; {delivers}"
        notes.append(assumed("outlet", usual.name, f"{effect}; set yours with `--region DE` or `--outlet '230V 16A'`"))
        return usual
    match = re.fullmatch(rf"\s*({_NUMBER})\s*v(?:olts?)?[\s,/]*({_NUMBER})\s*a(?:mps?)?\s*", text.lower())
    if match is None:
        return find_outlet(text)
    volts, amps = float(match[1]), float(match[2])
    if not (90 <= volts <= 480 and 1 <= amps <= 100):
        raise BadValue(f"no household outlet supplies {volts:g} V at {amps:g} A", hint="try `--outlet '120V 15A'`")
    name = f"{volts:g}V {amps:g}A"
    try:
        return find_outlet(name)
    except UnknownName:
        return replace(usual, name=name, aliases=(), volts=volts, amps=amps, source=box_sources()["gpuwise-assumed"])


def _room(text: str) -> float | None:
    if not text:
        return None
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(?:m2|m²|sqm|m\^2)?\s*", text.lower())
    if match is None or not 1 <= float(match[1]) <= 10_000:
        raise BadValue(f"invalid room size '{text}'", hint="give the floor area in square metres, such as `--room 15`")
    return float(match[1])


def _whole(value: int | None, option: str, least: int, most: int, usual: int) -> int:
    if value is not None and not least <= value <= most:
        raise BadValue(f"{option} {value} is out of range", hint=f"give a value between {least} and {most}")
    return usual if value is None else value


def _further(box: Box, cards: Sequence[Cards]) -> list[Assumption]:
    """What the checks fill in themselves."""
    notes: list[Assumption] = []
    size = smallest_psu(cards, box)
    if box.psu_watts is None and size:
        notes.append(
            assumed(
                "psu",
                f"{size:,.0f} W, ATX {box.psu_standard}",
                "the smallest supply that passes this check; check yours with `--psu 850`",
            )
        )
    if box.ram_bytes is None:
        notes.append(
            assumed(
                "ram",
                f"{usual_ram_bytes(cards) / GIB:.0f} GiB",
                "as much as the memory of all GPUs combined; set yours with `--ram 64GB`",
            )
        )
    if box.cooler is None:
        sold = ", ".join(dict.fromkeys(f"{each.gpu.name}: {each.gpu.cooler or 'open'}" for each in cards))
        notes.append(
            assumed(
                "coolers",
                sold,
                "the cooler and thickness of the launch model, although partner cards are often thicker; "
                "set yours with `--cooler blower` and `--card-slots 3`",
            )
        )
    return notes
