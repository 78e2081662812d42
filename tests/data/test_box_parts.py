"""Every invariant on every platform, board, power supply and outlet."""

from __future__ import annotations

import itertools

import pytest

from gpuwise.box import parts
from gpuwise.box.parts import is_card
from gpuwise.box.power import plugs_of
from gpuwise.box.types import Board, Outlet, Platform
from gpuwise.core.errors import UnknownName
from gpuwise.core.provenance import Basis
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host, find_link
from gpuwise.hardware.tables import architectures, curated_gpus
from gpuwise.hardware.types import Gpu
from gpuwise.money.tables import regions
from whole_tables import every_row


@pytest.mark.parametrize("platform", parts.platforms().values(), ids=lambda one: one.name)
def test_platform_is_sane(platform: Platform) -> None:
    assert platform.slot_lanes % 4 == 0
    assert 16 <= platform.slot_lanes <= 128
    assert platform.slot_lanes + platform.storage_lanes <= 128
    assert platform.smallest_split in (4, 8)
    assert 3 <= platform.generation <= 5
    assert 1 <= platform.core_count <= 128
    assert 35 <= platform.cpu_watts <= 500
    assert not platform.chipset_link or find_link(platform.chipset_link).kind == "pcie"
    assert platform.source.basis is Basis.ASSUMED or platform.source.url


@pytest.mark.parametrize("board", parts.boards().values(), ids=lambda one: one.name)
def test_board_is_sane(board: Board) -> None:
    assert 1 <= board.x16 <= board.slots
    assert 1 + board.spacing * (board.x16 - 1) <= board.slots
    assert board.case_slots >= board.slots


@pytest.mark.parametrize("outlet", parts.outlets().values(), ids=lambda one: one.name)
def test_outlet_is_sane(outlet: Outlet) -> None:
    assert 100 <= outlet.volts <= 240
    assert 6 <= outlet.amps <= 32
    assert 0.5 < outlet.continuous_fraction <= 1
    assert outlet.name == f"{outlet.volts:g}V {outlet.amps:g}A"


def test_every_region_has_one_usual_outlet() -> None:
    named = [region for outlet in parts.outlets().values() for region in outlet.regions]
    assert sorted(named) == sorted(region.name for region in regions())


def test_bigger_supplies_have_more_of_everything() -> None:
    sizes = parts.psu_sizes()
    for small, large in itertools.pairwise(sizes):
        assert small.watts < large.watts
        assert small.eight_pin <= large.eight_pin
        assert small.sixteen_pin <= large.sixteen_pin
    assert all(size.eight_pin * 150 <= 1.6 * size.watts for size in sizes)


def test_better_labels_waste_less() -> None:
    rows = [parts.efficiencies()[label] for label in ("white", "bronze", "silver", "gold", "platinum", "titanium")]
    for row in rows:
        assert all(0.8 <= value < 1 for value in (*row.at_115_volts, *row.at_230_volts))
        assert all(high >= low for low, high in zip(row.at_115_volts, row.at_230_volts, strict=True))
    for worse, better in itertools.pairwise(rows):
        assert all(one <= other for one, other in zip(worse.at_115_volts, better.at_115_volts, strict=True))


def test_standards_and_excursions() -> None:
    assert set(parts.psu_standards()) == {2, 3}
    assert parts.psu_standards()[2].most_fraction < parts.psu_standards()[3].safe_fraction == 2.0
    generations = {architecture.generation.lower() for architecture in architectures().values()}
    assert set(parts.excursions()) - {"default"} <= generations, "a generation that no GPU has is never looked up"
    assert all(1 < row.factor <= 3 for row in parts.excursions().values()), "PCI-SIG allows three times"
    comfortable, most = parts.load_shares()
    assert 0.5 < comfortable < most < 1


def test_every_plug_of_the_catalogue_is_known() -> None:
    for gpu in curated_gpus():
        if is_card(gpu):
            assert set(plugs_of(gpu.power_connectors)) <= set(parts.plugs()), gpu.name


# Server cards whose makers print an 8-pin plug; at their power it must be the CPU's (EPS).
_DOUBTED = {"M60", "MI210"}


@every_row([gpu for gpu in curated_gpus() if is_card(gpu)], lambda gpu: gpu.name)
def test_plugs_and_slot_carry_the_card(gpu: Gpu) -> None:
    """Workstation cards draw up to a ninth more than the sum of the ratings."""
    carried = 75 + sum(count * parts.plugs()[plug].watts for plug, count in plugs_of(gpu.power_connectors).items())
    told = bool(plugs_of(gpu.power_connectors)) and gpu.name not in _DOUBTED
    assert not told or (gpu.tdp_watts or 0.0) * gpu.devices_per_board <= carried * 10 / 9


def test_names_and_aliases_lead_to_one_part_each() -> None:
    for known, find in (
        (parts.platforms(), parts.find_platform),
        (parts.boards(), parts.find_board),
        (parts.outlets(), parts.find_outlet),
    ):
        for name, entry in known.items():
            assert all(find(spelling).name == name for spelling in (name, *entry.aliases))
        with pytest.raises(UnknownName, match="hint"):
            find("no such thing")


def test_measured_curves_rise_with_the_limit_to_one() -> None:
    for curve in parts.power_curves():
        watts, speeds = zip(*curve.points, strict=True)
        assert list(watts) == sorted(set(watts))
        assert watts[0] < curve.rated_watts <= watts[-1]
        assert speeds[-1] == 1
        assert all(later >= 0.99 * earlier for earlier, later in itertools.pairwise(speeds))
        assert load_catalog().find(curve.gpu).gpu.tdp_watts == curve.rated_watts


def test_every_source_is_used_and_named() -> None:
    used = {row.source.id for table in (parts.platforms(), parts.boards(), parts.outlets()) for row in table.values()}
    used |= {row.source.id for row in parts.psu_sizes()}
    for table in (parts.psu_standards(), parts.efficiencies(), parts.excursions(), parts.plugs()):
        used |= {row.source.id for row in table.values()}
    used |= {row.source.id for rows in (parts.cpu_families(), parts.power_curves()) for row in rows}
    named = set(parts.box_sources())
    assert used <= named
    assert named - used <= {"puget-quad-3090", "cpu-makers-tdp", "guide-2018"}, "the rest stands in notes and rules"


def test_every_family_of_cpus_is_found_by_its_names_and_has_a_platform_and_a_class() -> None:
    named = {
        "i7-7700K": (4, 2, "LGA1151"),
        "Intel(R) Core(TM) i5-6600K CPU @ 3.50GHz": (4, 1, "LGA1151"),
        "Core i9-9900K": (8, 2, "LGA1151"),
        "i5-4670K": (4, 1, "LGA1150"),
        "AMD Ryzen 3 3100": (4, 2, "AM4"),
        "Ryzen 7 5800X3D": (8, 2, "AM4"),
        "Ryzen 9 7950X": (16, 2, "AM5"),
    }
    for name, expected in named.items():
        family = parts.find_cpu_family(name)
        assert family is not None, name
        assert (family.core_count, family.threads_per_core, family.platform) == expected, name
        assert find_host(name)
    for family in parts.cpu_families():
        assert parts.find_platform(family.platform)
        assert 30 <= family.watts <= (350 if "threadripper" in family.models[0] else 200)
    assert parts.find_cpu_family("Xeon Gold 6248") is None
