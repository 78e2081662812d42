"""`gpuwise build`: what people type, what comes back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuwise
from asking import predict_query
from gpuwise.box.types import VERDICTS, CheckLine
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.units import GIB
from gpuwise.questions.build.ask import ask
from gpuwise.questions.build.figure import power_figure
from gpuwise.questions.build.options import BuildOptions
from gpuwise.questions.common.machine import KINDS
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.surfaces.cli.app import app


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["build", *arguments])
    if isinstance(result.exception, GpuwiseError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def lines(**asked: object) -> dict[str, CheckLine]:
    return {line.check: line for line in gpuwise.build(**asked).lines}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--psu", "big"], "invalid power supply 'big'"),
        (["--psu", "0"], "0 W"),
        (["--psu", "-500"], "-500 W"),
        (["--psu", "1600 golden"], "'golden'"),
        (["--psu", "99999"], "99999 W"),
        (["--psu", "850", "--psu-standard", "4"], "--psu-standard 4"),
        (["--lanes", "-16"], "--lanes -16 is out of range"),
        (["--lanes", "0"], "--lanes 0 is out of range"),
        (["--lanes", "no such socket"], "unknown platform"),
        (["--board", "huge"], "unknown board"),
        (["--board", "slots=0"], "slots=0"),
        (["--board", "slots=7,color=red"], "invalid board 'slots=7,color=red'"),
        (["--board", "slots=7,switch=maybe"], "switch must be yes or no"),
        (["--chipset-link", "NVLink 3.0"], "is not a PCIe link"),
        (["--riser", "wire"], "unknown link"),
        (["--cooler", "ice"], "unknown cooler 'ice'"),
        (["--cpu", "no such cpu at all"], "unknown CPU"),
        (["--cpu-watts", "0"], "--cpu-watts 0 is out of range"),
        (["--cpu-watts", "nan"], "--cpu-watts nan is out of range"),
        (["--case-slots", "0"], "--case-slots 0"),
        (["--nvme", "-1"], "--nvme -1"),
        (["--ram", "0GB"], "--ram 0GB is out of range"),
        (["--ram", "lots"], "'lots'"),
        (["--outlet", "5V 2A"], "5 V"),
        (["--outlet", "moon"], "unknown outlet"),
        (["--region", "moon"], "unknown region"),
        (["--room", "big"], "invalid room size 'big'"),
        (["--power-limit", "5"], "5 W is outside the power range of the RTX 3090"),
        (["--power-limit", "nan W"], "nan"),
        (["--power-limit", "hot"], "'hot'"),
    ],
)
def test_bad_parts_are_refused_with_a_hint(arguments: list[str], told: str) -> None:
    code, output = run("--gpu", "RTX 3090", *arguments)
    assert code == 2
    assert told in output
    assert "hint:" in output


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        ([], "no GPU was given"),
        (["0x RTX 3090"], "invalid number of cards in '0x RTX 3090'"),
        (["-2x RTX 3090"], "invalid number of cards"),
        (["1000x RTX 3090"], "1,000 cards are too many for one machine"),
        (["9x RTX 3090", "9x RTX 4090"], "18 cards"),
        (["4x no such card"], "unknown GPU 'no such card'"),
        (["Core i7-8700K"], "is a CPU, not a card"),
        ([""], "unknown GPU ''"),
    ],
)
def test_bad_cards_are_refused_with_a_hint(gpus: list[str], told: str) -> None:
    code, output = run(*(word for name in gpus for word in ("--gpu", name)))
    assert code == 2
    assert told in output
    assert "hint:" in output


def test_only_names_must_be_given_and_the_rest_is_said() -> None:
    answer = gpuwise.build(gpu=["RTX 3090"])
    said = {note.name for note in answer.assumptions}
    assert {"psu", "psu label", "platform", "cpu", "rest", "board", "case", "outlet", "ram", "coolers", "disks"} <= said


def test_what_is_given_is_not_assumed() -> None:
    answer = gpuwise.build(
        gpu=["2x RTX 3090"],
        psu="1600W platinum ATX3.1",
        cpu="Ryzen 9 5950X",
        board="eatx",
        case_slots=8,
        lanes="X299",
        nvme=2,
        cooler="blower",
        ram="128GB",
        outlet="230V 16A",
    )
    said = {note.name for note in answer.assumptions}
    assert said == {"rest", "kinds of work", "bridges", "power model"}
    found = {line.check: line for line in answer.lines}
    assert found["transients"].limit == 3200
    assert found["ram"].value == 128 * GIB
    assert found["outlet"].limit == pytest.approx(0.8 * 230 * 16)
    assert "X299 runs the cards at x16/x16" in found["lanes"].text


@pytest.mark.parametrize("text", ["4x RTX 3090", "4 x 3090", "4×rtx3090", "4*RTX 3090"])
def test_counts_are_read_however_they_are_written(text: str) -> None:
    (cards,) = ask(BuildOptions(gpu=[text])).cards
    assert (cards.count, cards.gpu.name) == (4, "RTX 3090")


@pytest.mark.parametrize(
    ("text", "watts", "label", "standard"),
    [
        ("850", 850, "gold", 2),
        ("850W", 850, "gold", 2),
        ("1.6 kW titanium", 1600, "titanium", 2),
        ("1600W gold atx3", 1600, "gold", 3),
        ("1000 W 80 PLUS bronze ATX 3.1", 1000, "bronze", 3),
        ("750 atx2.53", 750, "gold", 2),
    ],
)
def test_supplies_are_read_however_they_are_written(text: str, watts: float, label: str, standard: int) -> None:
    box = ask(BuildOptions(gpu=["RTX 3090"], psu=text)).box
    assert (box.psu_watts, box.psu_label, box.psu_standard) == (watts, label, standard)


def test_a_typed_board_and_typed_lanes() -> None:
    box = ask(BuildOptions(gpu=["2x GTX 1080"], board="slots=7,x16=4,spacing=2,case=8,switch=yes", lanes="28")).box
    assert (box.board.slots, box.board.x16, box.board.spacing, box.case_slots, box.board.switch) == (7, 4, 2, 8, True)
    assert (box.platform.slot_lanes, box.platform.storage_lanes) == (16, 12)


@pytest.mark.parametrize(
    ("lanes", "slot_lanes", "cpu_watts"),
    [("16", 16, 105), ("20", 16, 105), ("24", 16, 105), ("28", 16, 105), ("44", 44, 140), ("64", 64, 280), ("128", 128, 225)],
)
def test_a_number_of_lanes_is_that_of_a_desktop_a_workstation_or_a_server(lanes: str, slot_lanes: int, cpu_watts: float) -> None:
    for cards in ("RTX 3090", "3x RTX 3090"):
        box = ask(BuildOptions(gpu=[cards], lanes=lanes)).box
        assert (box.platform.slot_lanes, box.cpu_watts) == (slot_lanes, cpu_watts)
        assert (box.board.name == "ATX") == (slot_lanes <= 16 or cards == "RTX 3090")


def test_three_cards_in_a_desktop_do_not_fail_at_the_outlet() -> None:
    found = lines(gpu=["3x RTX 3090"], lanes="24")
    assert found["outlet"].verdict == "tight"
    assert found["lanes"].text.startswith("a CPU with 24 lanes runs the cards at x8/x4/x4")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--gpu", "3x RTX 3090", "--lanes", "24"], "runs the cards at x8/x4/x4"),
        (["--gpu", "2x RTX 4090", "--region", "US"], "draws 1,224 W at the wall"),
        (["--gpu", "2x RTX 4090", "--outlet", "120V 15A"], "draws 1,224 W at the wall"),
        (["--gpu", "4x RTX 3090", "--ram", "64GB"], "you have 64 GiB of RAM"),
    ],
)
def test_what_an_option_is_about_is_shown_in_full(arguments: list[str], shown: str) -> None:
    _, printed = run(*arguments)
    assert shown in " ".join(printed.split())
    assert printed.count("\n") <= 25


def test_many_options_still_give_a_short_answer() -> None:
    options = "--psu 1600 --region DE --lanes 24 --ram 64GB --board atx --room 20 --cooler open"
    _, printed = run("--gpu", "4x RTX 3090", *options.split())
    assert len(printed.rstrip().splitlines()) <= 25
    assert "a CPU with 24 lanes runs" in printed
    assert "W at the wall" in printed


def test_the_images_that_cores_load_depend_on_how_many_processes_collect_them() -> None:
    one, two = (lines(gpu=[cards])["loader"] for cards in ("RTX 4090", "2x RTX 4090"))
    assert "for one training process" in one.text
    assert "for 2 training processes" in two.text
    assert two.value > one.value  # type: ignore[operator]


def test_partner_cards_may_be_too_thick_for_two_of_them() -> None:
    usual = lines(gpu=["2x RTX 5090"], board="atx")["slots"]
    assert usual.verdict == "tight"
    assert "four-slot cards would not fit" in usual.text
    assert "check how thick your cards are" in usual.remedy
    three, four = (lines(gpu=["2x RTX 5090"], board="atx", card_slots=slots)["slots"] for slots in (3, 4))
    assert three.verdict == "pass"
    assert "partner" not in three.text
    assert four.verdict == "fail"
    assert lines(gpu=["RTX 5090"], board="atx")["slots"].verdict == "pass"
    assert lines(gpu=["2x RTX 4060"], board="atx")["slots"].verdict == "pass"


def test_spikes_above_the_guarantee_say_where_supplies_shut_down() -> None:
    found = lines(gpu=["RTX 5090"], psu="850", cpu="i7-8700")["transients"]
    assert found.verdict == "tight"
    assert "guaranteed to deliver 100% and is assumed to shut down near 130%" in found.text
    assert "shut down" not in lines(gpu=["RTX 5090"], psu="850 atx3")["transients"].text


def test_mixed_cards() -> None:
    answer = gpuwise.build(gpu=["RTX 3090", "2x GTX 1080 Ti"], psu="1600")
    assert [entry["count"] for entry in answer.to_dict()["gpus"]] == [1, 2]
    assert "1 × 350 W + 2 × 250 W" in next(line.text for line in answer.lines if line.check == "psu")
    assert {point.gpu for point in answer.power_limits} == {"RTX 3090", "GTX 1080 Ti"}


def test_a_card_named_twice_is_two_cards() -> None:
    (cards,) = ask(BuildOptions(gpu=["RTX 5090", "2x rtx5090"])).cards
    assert cards.count == 3


def test_json_keeps_the_contract() -> None:
    code, output = run("--gpu", "4x RTX 3090", "--psu", "1600", "--json")
    answer = json.loads(output)
    assert code == 0
    assert {"gpus", "lines", "verdict", "power_limits", "assumptions", "data_date"} <= set(answer)
    for line in answer["lines"]:
        assert {"check", "verdict", "value", "limit", "unit", "text", "remedy"} <= set(line)
        assert line["verdict"] in VERDICTS
    assert answer["verdict"] == "fail"
    for point in answer["power_limits"]:
        assert set(point["relative_speed"]) == {kind.name for kind in KINDS}


def test_strict_tells_by_the_exit_code() -> None:
    assert run("--gpu", "4x RTX 3090", "--psu", "1600")[0] == 0
    assert run("--gpu", "4x RTX 3090", "--psu", "1600", "--strict")[0] == 1
    assert run("--gpu", "GTX 1650", "--strict")[0] == 0


def test_lower_limits_are_never_faster_and_full_power_is_the_measure() -> None:
    points = gpuwise.build(gpu=["V100 PCIe 16GB"]).power_limits
    assert points[0].watts == 250
    assert set(points[0].relative_speed.values()) == {1.0}
    for kind in KINDS:
        speeds = [point.relative_speed[kind.name] for point in points]
        assert speeds == sorted(speeds, reverse=True)
    assert min(points[-1].relative_speed.values()) < 0.95


def test_the_limit_of_the_remedy_stands_in_the_curve_with_its_price() -> None:
    answer = gpuwise.build(gpu=["4x RTX 3090"], psu="1600")
    psu = next(line for line in answer.lines if line.check == "psu")
    assert psu.power_limit_watts in {point.watts for point in answer.power_limits}
    assert f"{psu.power_limit_watts:.0f} W, which costs" in psu.remedy


def test_narrow_lanes_are_priced_and_wide_ones_are_free() -> None:
    wide = gpuwise.build(gpu=["4x RTX 3090"], lanes="WRX80").lane_costs
    narrow = gpuwise.build(gpu=["4x RTX 3090"], lanes="AM4").lane_costs
    assert all(cost.slower_fraction == 0 for cost in wide)
    assert all(cost.slower_fraction > 0.1 for cost in narrow)
    assert lines(gpu=["4x RTX 3090"], lanes="AM4", board="ssi")["lanes"].verdict == "tight"


def test_an_nvme_behind_the_same_lanes_does_not_slow_one_card() -> None:
    found = lines(gpu=["GTX 1080"], lanes="LGA1151")
    assert "x16" in found["lanes"].text
    assert found["lanes"].verdict == "pass"


def test_what_is_no_card_gets_no_power_curve() -> None:
    answer = gpuwise.build(gpu=["H100 SXM"])
    assert (answer.verdict, answer.power_limits, [line.check for line in answer.lines]) == ("fail", (), ["form"])
    with pytest.raises(BadValue, match="no power limits to draw"):
        power_figure(answer)


def test_a_cpu_by_name_brings_its_watts_and_cores() -> None:
    box = ask(BuildOptions(gpu=["RTX 3090"], cpu="Ryzen 9 7950X")).box
    assert (box.cpu_watts, box.core_count) == (170, 16)
    assert ask(BuildOptions(gpu=["RTX 3090"], cpu="server")).box.core_count == 64


def test_images_are_loaded_by_the_cores_that_are_there() -> None:
    few, many = (lines(gpu=["RTX 4090"], cpu=cpu)["loader"] for cpu in ("Core i7-8700K", "EPYC 9654"))
    assert few.verdict == "tight"
    assert (few.value or 0) < (many.value or 0)


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_the_curve_is_drawn(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"power.{ending}"
    code, output = run("--gpu", "V100 PCIe 16GB", "--gpu", "RTX 3090", "--figure", str(path))
    assert code == 0
    assert str(path.name) in output
    text = path.read_text(encoding="utf-8")
    assert all(kind.title in text for kind in KINDS)
    assert "LLM generation at 250 W" in text
    assert "Data from" in text


def test_the_loaders_of_several_gpus_share_the_cores_as_predict_counts_them() -> None:
    asked = predict_query(model="resnet50", gpu=["RTX 3090"], gpus=4, image_decode=True, workers=8, cpu="workstation")
    (rate,) = (note.value for note in predict_step(asked).assumptions if note.name == "image loading")
    each = float(rate.split()[0].replace(",", ""))
    assert lines(gpu=["4x RTX 3090"], cpu="Threadripper PRO 5975WX")["loader"].value == pytest.approx(4 * each, rel=0.01)


@pytest.mark.parametrize(
    ("region", "outlet", "watts"),
    [
        ("", "120V 15A", 1440),
        ("US", "120V 15A", 1440),
        ("DE", "230V 16A", 2944),
        ("Deutschland", "230V 16A", 2944),
        ("UK", "230V 13A", 2392),
        ("JP", "100V 15A", 1200),
        ("AU", "230V 10A", 1840),
    ],
)
def test_the_region_decides_the_outlet(region: str, outlet: str, watts: float) -> None:
    line = lines(gpu=["2x RTX 4090"], region=region)["outlet"]
    assert line.limit == pytest.approx(watts)
    assert f"a {outlet} outlet delivers {watts:,} W" in line.text


def test_an_outlet_that_is_given_outweighs_the_region() -> None:
    assert lines(gpu=["2x RTX 4090"], region="DE", outlet="120V 20A")["outlet"].limit == pytest.approx(1920)


def test_four_cards_need_two_circuits_in_the_us_and_one_in_germany() -> None:
    cards = ["4x RTX 3090"]
    assert lines(gpu=cards, region="US")["outlet"].verdict == "fail"
    assert lines(gpu=cards, region="DE")["outlet"].verdict == "pass"


def test_the_region_is_named_where_its_outlet_is_assumed() -> None:
    (note,) = (note for note in gpuwise.build(gpu=["RTX 3090"], region="DE").assumptions if note.name == "outlet")
    assert (note.value, "set to Germany" in note.effect) == ("230V 16A", True)


def test_a_load_beyond_every_supply_exceeds_the_limit_that_is_shown() -> None:
    line = lines(gpu=["6x RTX 3090"], cooler="water")["psu"]
    assert line.verdict == "fail"
    assert line.value is not None
    assert line.limit is not None
    assert line.value > line.limit
    assert "2,460 W is more than 80% of the largest power supply (2,800 W)" in line.text


def test_a_named_cpu_has_its_own_cores_power_and_socket() -> None:
    query = ask(BuildOptions(gpu=["RTX 4090"], cpu="i7-7700K"))
    box = query.box
    assert (box.core_count, box.threads_per_core, box.cpu_watts) == (4, 2, 91.0)
    assert (box.platform.name, box.platform.generation) == ("LGA1151", 3)
    given = ask(BuildOptions(gpu=["RTX 4090"], cpu="i7-7700K", lanes="AM5", cpu_watts=70.0)).box
    assert (given.platform.name, given.cpu_watts, given.core_count) == ("AM5", 70.0, 4)


def test_build_and_matters_load_images_at_the_same_rate() -> None:
    loader = lines(gpu=["RTX 4090"], cpu="old quad-core")["loader"]
    (said,) = gpuwise.matters("cpu", gpu="RTX 4090").topics
    assert f"The 4 cores of a 2013 quad-core deliver {loader.value:,.0f} images/s" in said.answer
    assert "times as long on JPEGs" in said.unit
    assert "so training takes" in loader.text
