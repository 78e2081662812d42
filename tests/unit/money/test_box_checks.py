"""Whether GPUs work in a box: the arithmetic of the guides, and what must hold for any build."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.box.checks import card_links, check_build, check_cards, placed, split, thickness, worst
from gpuwise.box.parts import find_board, find_outlet, find_platform, is_card, sibling, usual_box
from gpuwise.box.power import (
    card_watts,
    continuous_watts,
    efficiency,
    fitting_limit,
    load_watts,
    peak_watts,
    plugs_of,
    smallest_psu,
    wall_watts,
)
from gpuwise.box.types import VERDICTS, Box, Cards, CheckLine
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.tables import curated_gpus
from gpuwise.hardware.types import Gpu

CARDS = [gpu for gpu in curated_gpus() if is_card(gpu) and gpu.tdp_watts]


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def line(lines: tuple[CheckLine, ...], check: str) -> CheckLine:
    return next(one for one in lines if one.check == check)


def box(count: int, **parts: object) -> Box:
    psu = parts.get("psu_watts")
    return replace(usual_box(count, psu if isinstance(psu, (int, float)) else None), **parts)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the guides' figures


def test_four_3090_draw_1400_watts_and_need_more_than_1600() -> None:
    cards = (Cards(gpu=gpu("RTX 3090"), count=4),)
    small = box(4, psu_watts=1600, cpu_watts=105)
    assert load_watts(cards, small) - small.cpu_watts - small.rest_watts == 1400
    assert line(check_cards(cards, small), "psu").verdict == "fail"
    assert (smallest_psu(cards, small) or 0) > 1600


def test_four_3090_run_on_1600_watts_when_held_to_300() -> None:
    lines = check_build(gpu("RTX 3090"), 4, box(4, psu_watts=1600, cpu_watts=105, power_limit_watts=300))
    assert {line(lines, "psu").verdict, line(lines, "transients").verdict} == {"tight"}


def test_the_limit_that_is_named_is_the_highest_that_helps() -> None:
    cards, small = (Cards(gpu=gpu("RTX 3090"), count=4),), box(4, psu_watts=1600)
    limit = fitting_limit(cards, small)
    assert limit is not None
    assert 250 <= limit <= 300
    held = check_cards(cards, replace(small, power_limit_watts=limit))
    assert "fail" not in {line(held, "psu").verdict, line(held, "transients").verdict}
    above = check_cards(cards, replace(small, power_limit_watts=limit + 5))
    assert "fail" in {line(above, "psu").verdict, line(above, "transients").verdict}


def test_puget_measured_what_the_sum_says() -> None:
    """1,580 W inside with four RTX 3090 and a 10-core Xeon of 165 W: the sum of limits lies above, by less than a tenth."""
    total = load_watts((Cards(gpu=gpu("RTX 3090"), count=4),), box(4, cpu_watts=165))
    assert 1580 <= total <= 1.1 * 1580


@pytest.mark.parametrize(("name", "count", "psu"), [("GTX 1080", 3, 1300), ("GTX 980", 4, 1400)])
def test_supplies_that_the_guide_calls_enough_pass(name: str, count: int, psu: int) -> None:
    lines = check_build(gpu(name), count, box(count, psu_watts=psu))
    assert line(lines, "psu").verdict == line(lines, "transients").verdict == "pass"


def test_four_cards_of_250_watts_on_1300_watts_are_tight_until_the_cpu_takes_250() -> None:
    card = gpu("GTX 1080 Ti")
    assert line(check_build(card, 4, box(4, psu_watts=1300, cpu_watts=140)), "psu").verdict == "tight"
    assert line(check_build(card, 4, box(4, psu_watts=1300, cpu_watts=251)), "psu").verdict == "fail"


def test_a_1080_ti_is_too_much_for_400_watts() -> None:
    assert line(check_build(gpu("GTX 1080 Ti"), 1, box(1, psu_watts=400)), "psu").verdict == "fail"


@pytest.mark.parametrize(
    ("name", "verdict"), [("GTX 1050", "pass"), ("GTX 1050 Ti", "pass"), ("GTX 1060 6GB", "tight"), ("GTX 1080", "fail")]
)
def test_small_cards_run_on_350_watts(name: str, verdict: str) -> None:
    assert worst(one for one in check_build(gpu(name), 1, box(1, psu_watts=350)) if one.check in ("psu", "transients")) == verdict


def test_power_of_the_cards_the_guide_names() -> None:
    assert (card_watts(gpu("RTX 2070")), card_watts(gpu("RTX 2080 Ti"))) == (175, 250)


def test_a_5090_spikes_to_901_watts_as_measured() -> None:
    cards, machine = (Cards(gpu=gpu("RTX 5090"), count=1),), box(1, cpu_watts=0, rest_watts=0)
    assert peak_watts(cards, machine) == pytest.approx(901, abs=3)


def test_atx_3_bears_what_atx_2_does_not() -> None:
    old, new = box(1, psu_watts=750), box(1, psu_watts=750, psu_standard=3)
    assert line(check_build(gpu("RTX 3090"), 1, old), "transients").verdict == "tight"
    assert line(check_build(gpu("RTX 3090"), 1, new), "transients").verdict == "pass"


def test_only_three_dual_slot_cards_fit_a_board_with_room_for_four_long_slots() -> None:
    board = replace(find_board("ATX"), x16=4, spacing=2, slots=7)
    assert placed([2, 2, 2], board, 7)
    assert placed([2, 2, 2, 2], board, 7) is None
    assert placed([2, 2, 2, 2], board, 8)


def test_a_us_outlet_carries_1440_watts_for_hours() -> None:
    assert continuous_watts(find_outlet("us")) == pytest.approx(1440)
    assert line(check_build(gpu("RTX 3090"), 4, box(4, psu_watts=2000)), "outlet").verdict == "fail"
    europe = box(4, psu_watts=2200, outlet=find_outlet("eu"))
    assert line(check_build(gpu("RTX 3090"), 4, europe), "outlet").verdict == "pass"


def test_four_3090_stay_within_a_us_outlet_when_held_near_280() -> None:
    """Puget Systems ran four of them at 280 W from one 15 A circuit; our sum takes the CPU at its rated power."""
    cards, machine = (Cards(gpu=gpu("RTX 3090"), count=4),), box(4, psu_watts=1600, cpu_watts=105)
    told = line(check_cards(cards, machine), "outlet")
    assert told.power_limit_watts is not None
    assert 255 <= told.power_limit_watts <= 285
    assert line(check_cards(cards, replace(machine, power_limit_watts=told.power_limit_watts)), "outlet").verdict != "fail"


# ---------------------------------------------------------------- parts


def test_lanes_are_cut_into_halves() -> None:
    assert [split(16, count, 4) for count in (1, 2, 3, 4)] == [(16,), (8, 8), (8, 4, 4), (4, 4, 4, 4)]
    assert split(16, 3, 8) == (8, 8)
    assert split(28, 2, 8) == (16, 8)
    assert split(128, 4, 8) == (16, 16, 16, 16)


def test_the_third_card_of_a_desktop_goes_through_the_chipset() -> None:
    links = card_links((Cards(gpu=gpu("RTX 3090"), count=3),), box(3, platform=find_platform("Z690")))
    assert [(one.lanes, one.through) for one in links] == [(8, "the CPU"), (8, "the CPU"), (4, "the chipset")]
    assert links[0].bytes_per_s == pytest.approx(2 * links[2].bytes_per_s)


def test_cards_behind_a_wider_chipset_link_share_all_of_it() -> None:
    rates = {}
    for platform in ("LGA1700", "AM4"):  # x8 and x4 of PCIe 4.0 to the chipset
        narrow = replace(find_platform(platform), smallest_split=8)
        links = card_links((Cards(gpu=gpu("RTX 3090"), count=4),), box(4, platform=narrow))
        rates[platform] = sum(one.bytes_per_s for one in links if one.through == "the chipset")
    assert rates["LGA1700"] == pytest.approx(2 * rates["AM4"])


def test_a_disk_takes_four_lanes_where_it_has_none_of_its_own() -> None:
    cards = (Cards(gpu=gpu("RTX 3090"), count=3),)
    for count, widths in ((0, [16, 16, 8]), (1, [16, 16, 8]), (2, [16, 8, 8])):
        assert [one.lanes for one in card_links(cards, box(3, platform=find_platform("X299"), nvme_count=count))] == widths


def test_a_switch_shows_all_lanes_and_shares_the_cpus() -> None:
    switched = replace(find_board("ssi"), switch=True)
    links = card_links((Cards(gpu=gpu("GTX 1080"), count=4),), box(4, platform=find_platform("X99 28"), board=switched))
    assert {one.lanes for one in links} == {16}
    assert sum(one.bytes_per_s for one in links) < 28 * 0.985e9


def test_an_old_riser_slows_a_new_card() -> None:
    cards = (Cards(gpu=gpu("RTX 3090"), count=1),)
    (slow,) = card_links(cards, box(1, riser="PCIe 1.0 x1"))
    assert (slow.generation, slow.lanes) == (1, 1)
    assert line(check_cards(cards, box(1, riser="PCIe 1.0 x1")), "lanes").verdict == "fail"


def test_plugs_are_read_as_the_catalogue_writes_them() -> None:
    assert plugs_of("1x 6-pin + 1x 8-pin") == {"6-pin": 1, "8-pin": 1}
    assert plugs_of("8-pin EPS") == {"EPS": 1}
    assert plugs_of("none") == plugs_of("") == {}


def test_atx_3_feeds_a_16_pin_card_without_adapters() -> None:
    assert line(check_build(gpu("RTX 4090"), 1, box(1, psu_watts=1000, psu_standard=3)), "connectors").verdict == "pass"
    old = line(check_build(gpu("RTX 4090"), 1, box(1, psu_watts=1000)), "connectors")
    assert (old.verdict, old.value) == ("tight", 3)


def test_plugs_nobody_publishes_are_said() -> None:
    told = line(check_build(replace(gpu("RTX 3090"), power_connectors=""), 1, box(1)), "connectors")
    assert told.verdict == "tight"
    assert "not published" in told.remedy


def test_coolers_and_gaps() -> None:
    card = gpu("RTX 3090")
    assert thickness(card, "blower") == 2
    assert thickness(card, "water") == 1
    assert thickness(card, None) == 3
    verdicts = {
        cooler: line(check_build(card, 4, box(4, cooler=cooler)), "cooling").verdict for cooler in ("blower", "water", "open-air")
    }
    assert verdicts == {"blower": "tight", "water": "pass", "open-air": "fail"}
    assert line(check_build(card, 2, box(2)), "cooling").verdict == "tight"
    assert line(check_build(gpu("RTX 2070"), 2, box(2)), "cooling").verdict == "pass"
    assert line(check_build(card, 4, box(4, riser="PCIe 4.0 x16")), "cooling").verdict == "pass"


@pytest.mark.parametrize("name", ["Tesla P40", "A100 PCIe 80GB", "K80"])
def test_server_cards_need_a_duct_and_show_no_picture(name: str) -> None:
    lines = check_build(gpu(name), 1, box(1))
    assert line(lines, "cooling").verdict == "fail"
    assert "duct" in line(lines, "cooling").remedy
    assert line(lines, "display").verdict == "tight"


@pytest.mark.parametrize(
    ("name", "card"),
    [("H100 SXM", "H100 PCIe 80GB"), ("A100 SXM 80GB", "A100 PCIe 80GB"), ("RTX 2070 Max-Q", "RTX 2070"), ("M2 Max", None)],
)
def test_what_is_no_card_fails_with_the_nearest_card(name: str, card: str | None) -> None:
    (told,) = check_build(gpu(name), 1, box(1))
    assert told.check == "form"
    assert told.verdict == "fail"
    found = sibling(gpu(name))
    assert (found.name if found else None) == card
    assert card is None or card in told.remedy


def test_a_k80_is_one_card_with_two_devices() -> None:
    lines = check_build(gpu("K80"), 1, box(1))
    assert card_watts(gpu("K80")) == 300
    assert line(lines, "ram").limit == 24 * GIB
    assert line(lines, "cpu").limit == 4


def test_unknown_power_is_said_not_guessed() -> None:
    unknown = replace(gpu("RTX 3090"), tdp_watts=None)
    told = line(check_build(unknown, 1, box(1)), "psu")
    assert told.verdict == "tight"
    assert told.value is None
    assert line(check_build(unknown, 1, box(1, power_limit_watts=250)), "psu").value == 250 + 105 + 80


def test_ram_follows_the_gpus_memory() -> None:
    sizes = {size: line(check_build(gpu("RTX 3090"), 2, box(2, ram_bytes=size * GIB)), "ram").verdict for size in (64, 32, 8)}
    assert sizes == {64: "pass", 32: "tight", 8: "fail"}
    assert line(check_build(gpu("RTX 3090"), 2, box(2)), "ram").verdict == "pass"


def test_heat_of_more_than_an_electric_heater_is_told() -> None:
    one, four = (line(check_build(gpu("RTX 4090"), count, box(count)), "heat") for count in (1, 4))
    assert one.verdict == "pass"
    assert four.verdict == "tight"
    assert "air conditioning" in four.remedy


def test_more_cards_than_any_board_has_slots_go_into_several_machines() -> None:
    four, nine = (line(check_build(gpu("RTX 4090"), count, box(count)), "slots") for count in (4, 9))
    assert "machines" not in four.remedy
    assert "several machines" in nine.remedy


def test_a_small_room_grows_hot() -> None:
    rises = [line(check_build(gpu("RTX 3090"), 1, box(1, room_m2=size)), "heat") for size in (5, 15, 50)]
    assert [one.verdict for one in rises] == ["tight", "tight", "pass"]


def test_efficiency_follows_the_label() -> None:
    assert efficiency("gold", 0.5, 120) == pytest.approx(0.90)
    assert efficiency("gold", 0.75, 120) == pytest.approx(0.885)
    assert efficiency("gold", 0.5, 230) == pytest.approx(0.92)
    assert efficiency("gold", 0.01, 120) == pytest.approx(0.87)


def test_mixed_cards_are_checked_together() -> None:
    mixed = (Cards(gpu=gpu("RTX 3090"), count=1), Cards(gpu=gpu("GTX 1080 Ti"), count=1))
    assert load_watts(mixed, box(2)) == 350 + 250 + 105 + 80
    assert worst(check_cards(mixed, box(2, psu_watts=2000))) in VERDICTS


# ---------------------------------------------------------------- what holds for any build


@settings(deadline=None)
@given(card=st.sampled_from(CARDS), count=st.integers(1, 8), psu=st.integers(200, 3000))
def test_more_psu_is_never_worse(card: Gpu, count: int, psu: int) -> None:
    def worse(watts: int) -> int:
        lines = check_build(card, count, box(count, psu_watts=watts))
        return max(VERDICTS.index(line(lines, check).verdict) for check in ("psu", "transients", "connectors"))

    assert worse(psu + 300) <= worse(psu)


@settings(deadline=None)
@given(card=st.sampled_from(CARDS), count=st.integers(1, 8))
def test_every_build_gets_every_line(card: Gpu, count: int) -> None:
    lines = check_build(card, count, box(count, psu_watts=1600))
    assert {"psu", "transients", "connectors", "slots", "cooling", "lanes", "ram", "cpu", "outlet", "heat"} <= {
        one.check for one in lines
    }
    assert all(bool(one.remedy) == (one.verdict != "pass") for one in lines), "a remedy where something is wrong, and only there"
    assert wall_watts((Cards(gpu=card, count=count),), box(count)) > load_watts((Cards(gpu=card, count=count),), box(count))


@settings(deadline=None)
@given(lanes=st.integers(4, 128), count=st.integers(1, 16), smallest=st.sampled_from([4, 8]))
def test_lanes_are_never_invented(lanes: int, count: int, smallest: int) -> None:
    widths = split(lanes, count, smallest)
    assert sum(widths) <= lanes
    assert len(widths) <= count
    assert all(width in (4, 8, 16) and width >= smallest for width in widths)
