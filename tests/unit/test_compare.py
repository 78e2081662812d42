"""`compare`, and the founding questions: why a faster card is not faster."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import as_dicts
from gpuwise.money import prices as money_prices
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.compare.text import render
from gpuwise.questions.compare.types import CompareAnswer
from gpuwise.surfaces.cli.app import app


def results(*names: str, model: str = "resnet50", **options: Any) -> tuple[Prediction, ...]:
    return gpuwise.predict(model=model, gpu=names, **options).results


def ratio(fast: str, slow: str, **options: Any) -> float:
    one, two = results(fast, slow, **options)
    return one.samples_per_s / two.samples_per_s


# ---------------------------------------------------------------- the founding questions


def test_a_small_cnn_waits_for_a_slow_host_so_that_the_gap_between_cards_vanishes() -> None:
    cards = results("RTX 2070 Max-Q", "GTX 960M", model="lenet5", batch="32", cpu="old quad-core")
    assert [found.bound for found in cards] == ["launch", "launch"]
    assert ratio("RTX 2070 Max-Q", "GTX 960M", model="lenet5", batch="32", cpu="old quad-core") < 1.25


def test_at_a_large_batch_in_16_bit_the_gap_opens_as_the_spec_sheets_promise() -> None:
    assert ratio("RTX 2070 Max-Q", "GTX 960M", model="mnist_cnn", batch="1024", precision="amp", cpu="old quad-core") > 4


def test_resnet50_in_keras_is_faster_on_a_2080_ti_than_on_a_1070() -> None:
    fp32 = ratio("RTX 2080 Ti", "GTX 1070", precision="fp32", batch="32")
    assert 1.5 < fp32 < 3.5
    assert ratio("RTX 2080 Ti", "GTX 1070", precision="amp", batch="32") > fp32


# ---------------------------------------------------------------- compare


def test_names_alone_are_compared_on_common_jobs() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 4090"])
    assert len(answer.pairs) == 9
    for pair in answer.pairs:
        assert pair.ratio_low < pair.ratio < pair.ratio_high
        assert pair.why
    assert answer.pairs[0].ratio > 1.2
    assert set(answer.to_dict()) >= {"pairs", "memory", "flips"}


def test_comparing_the_other_way_round_gives_the_inverse() -> None:
    one, two = (gpuwise.compare(names, model=["resnet50"]).pairs[0].ratio for names in (("3090", "4090"), ("4090", "3090")))
    assert one * two == pytest.approx(1.0, rel=1e-6)


def test_typed_specs_are_compared() -> None:
    typed = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s"
    (pair,) = gpuwise.compare(["RTX 4090", typed], model=["resnet18"]).pairs
    assert pair.gpu == "Foo"
    assert pair.ratio < 1


def test_comparing_says_what_an_ambiguous_name_was_taken_for() -> None:
    answer = gpuwise.compare(["RTX 3090", "h100"], model=["resnet18"])
    (said,) = (entry for entry in answer.assumptions if entry.name == "gpu 'h100'")
    assert said.value == answer.gpus[1].name


def told(answer: CompareAnswer) -> dict[str, str]:
    return {entry.name: entry.value for entry in answer.assumptions}


def test_what_nobody_said_is_listed_once_as_predict_lists_it() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 4090"], model=["resnet18"])
    predicted = gpuwise.predict(model="resnet18", gpu=["RTX 3090"]).assumptions
    assert {"batch", "precision", "optimizer", "stack", "cpu"} <= {entry.name for entry in predicted}
    assert list(predicted) == list(answer.assumptions)
    assert answer.to_dict()["assumptions"] == as_dicts(answer.assumptions)


def test_what_was_said_is_not_assumed_and_is_used() -> None:
    given = {"batch": "8", "precision": "fp32", "stack": "torch-1.13", "cpu": "old quad-core"}
    answer = gpuwise.compare(["RTX 3090", "RTX 4090"], model=["mnist_cnn"], **given)  # type: ignore[arg-type]
    assert not told(answer).keys() & given.keys()
    assert {(pair.batch, pair.baseline_batch, pair.precision) for pair in answer.pairs} == {(8, 8, "fp32")}
    assert answer.pairs[0].why == "limited by the host, so a faster GPU hardly helps"


def test_all_gpus_run_the_same_batch_unless_each_is_to_be_filled() -> None:
    names = ["RTX 3090", "GTX 960", "2x RTX 2070"]
    assert {pair.batch for pair in gpuwise.compare(names, model=["resnet50"], batch=128).pairs} == {128}
    usual = gpuwise.compare(names, model=["resnet50"]).pairs
    assert len({size for pair in usual for size in (pair.batch, pair.baseline_batch)}) == 1
    assert all(pair.fits and pair.baseline_fits for pair in usual)
    answer = gpuwise.compare(names, model=["resnet50"], batch="auto")
    filled = {pair.gpu: pair.batch for pair in answer.pairs}
    assert filled["GTX 960"] < answer.pairs[0].baseline_batch
    assert all(pair.fits and pair.baseline_fits for pair in answer.pairs)
    assert f"{filled['GTX 960']} on GTX 960" in told(answer)["batch"]


def test_what_differs_between_jobs_or_gpus_says_where() -> None:
    answer = gpuwise.compare(["RTX 3090", "GTX 1080"], model=["resnet50", "bert-base"])
    assert told(answer)["optimizer"] == "momentum for resnet50, adamw for bert-base"
    assert told(answer)["precision"] == "best for each GPU"
    assert {pair.precision for pair in answer.pairs} == {"fp32 against amp"}
    assert "64 for resnet50" in told(gpuwise.compare(["RTX 3090", "RTX 4090"]))["batch"]


@pytest.mark.parametrize("options", [{"mode": "infer"}, {"precision": "fp32"}, {"batch": "8"}])
def test_options_of_a_model_are_not_ignored_without_one(options: dict[str, str]) -> None:
    with pytest.raises(BadValue, match="works only with --model"):
        gpuwise.compare(["RTX 3090", "RTX 4090"], **options)  # type: ignore[arg-type]


def test_two_cards_with_different_limits_are_both_explained() -> None:
    (pair,) = gpuwise.compare(["cpu", "RTX 3090"], model=["googlenet"]).pairs
    assert pair.why.startswith("the RTX 3090 is limited by memory (")
    assert "Ryzen 7 5800X is limited by compute (" in pair.why


def test_memory_turns_the_order_only_where_the_slower_card_has_more_of_it() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 4070 Ti"])
    told = "models that need more than 12 GiB fit only on the RTX 3090"
    assert told in answer.notes
    assert told not in answer.flips
    answer = gpuwise.compare(["RTX 3090", "RTX 5080"])
    assert "models that need more than 16 GiB fit only on the RTX 3090" in answer.flips


@pytest.mark.parametrize("names", [("RTX 2070 Max-Q", "GTX 960M"), ("GTX 960M", "RTX 2070 Max-Q")])
def test_the_first_line_names_the_faster_card_whichever_was_named_first(names: tuple[str, str]) -> None:
    answer = gpuwise.compare(names)
    assert answer.verdict.startswith("The RTX 2070 Max-Q is ")
    assert "times as fast as the GTX 960M; image generation (sd15) fits only on the RTX 2070 Max-Q." in answer.verdict
    assert render(answer).startswith(answer.verdict.split(";", maxsplit=1)[0])
    assert answer.to_dict()["verdict"] == answer.verdict


def test_where_no_card_wins_throughout_the_first_line_counts() -> None:
    answer = gpuwise.compare(["4x RTX 2060", "2x RTX 3090"])
    assert "workloads" in answer.verdict
    assert answer.verdict.startswith("With one job, 2x RTX 3090 are ")
    assert "with separate jobs, they are " in answer.verdict


def test_what_fits_neither_is_said_first() -> None:
    names = ["GTX 960M", "GTX 950M"]
    one = gpuwise.compare(names, model=["llama-2-7b"], mode="train").verdict
    assert one == "llama-2-7b does not fit on the GTX 960M or the GTX 950M."
    two = gpuwise.compare(names, model=["llama-2-7b", "llama-3-8b"], mode="train").verdict
    assert two == "None of these workloads fits on the GTX 960M or the GTX 950M."


def test_a_pair_that_could_have_a_bridge_is_told_to_have_none() -> None:
    told = gpuwise.compare(["RTX 3090", "2x RTX 3090"], model=["resnet50"]).notes
    assert any(note.startswith("2x RTX 3090 are assumed to have no NVLink bridge") for note in told)
    assert not any("bridge" in note for note in gpuwise.compare(["RTX 4090", "2x RTX 4090"], model=["resnet50"]).notes)


def test_a_reason_never_tells_the_other_order() -> None:
    pairs = gpuwise.compare(["RTX 3090", "RTX 4070 Ti"]).pairs
    told = [
        pair for pair in pairs if pair.why.startswith("limited by compute; the RTX 4070 Ti has 1.13 times") and pair.ratio < 1
    ]
    assert told
    assert all("but only 54% of the bandwidth" in pair.why for pair in told)


def test_what_fits_neither_card_turns_nothing() -> None:
    answer = gpuwise.compare(["RTX 4060 Ti 8GB", "RTX 3060 12GB"])
    decode = next(pair for pair in answer.pairs if "llama" in pair.workload)
    assert not decode.fits
    assert not decode.baseline_fits
    assert decode.why.startswith("does not fit on either GPU")
    assert not any("llama" in flip for flip in answer.flips)
    assert any(flip == "models that need more than 8 GiB fit only on the RTX 3060 12GB" for flip in answer.flips)


# ---------------------------------------------------------------- sets of GPUs


def test_several_gpus_are_compared_as_one_job_and_side_by_side() -> None:
    (pair,) = gpuwise.compare(["RTX 2070", "4x RTX 2070"], model=["resnet50"], batch="32").pairs
    assert pair.ratio_separate == pytest.approx(4.0)
    assert 1.0 < pair.ratio <= 4.0


def test_the_same_set_on_both_sides_is_one_set() -> None:
    with pytest.raises(BadValue, match="two different"):
        gpuwise.compare(["2x RTX 3090", "2X rtx3090"])


def test_sets_of_other_sizes_stand_in_proportion_to_single_cards() -> None:
    (single,) = gpuwise.compare(["RTX 2070", "RTX 2080 Ti"], model=["resnet50"], batch="32").pairs
    (sets,) = gpuwise.compare(["4x RTX 2070", "2x RTX 2080 Ti"], model=["resnet50"], batch="32").pairs
    assert sets.ratio_separate == pytest.approx(single.ratio / 2)


def test_of_mixed_cards_the_slowest_sets_the_pace() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 3090 + GTX 1080 Ti"], model=["resnet50"], batch="32")
    (pair,) = answer.pairs
    (slow,) = gpuwise.compare(["RTX 3090", "GTX 1080 Ti"], model=["resnet50"], batch="32").pairs
    assert pair.ratio <= 2 * slow.ratio * 1.001
    assert pair.ratio_separate == pytest.approx(1 + slow.ratio)
    assert any("the slowest GPU limits the speed" in note for note in answer.notes)
    assert any("memory of several GPUs is not combined" in note for note in answer.notes)


def test_a_link_that_holds_gpus_up_is_not_told_as_arithmetic() -> None:
    whys = [pair.why for pair in gpuwise.compare(["4x RTX 2070", "2x RTX 2080 Ti"]).pairs]
    assert any("by the link between GPUs" in why for why in whys)
    assert not any("communication" in why for why in whys)


def test_common_jobs_are_made_smaller_until_they_fit_both() -> None:
    answer = gpuwise.compare(["RTX 2070 Max-Q", "GTX 960M"])
    (cnn,) = (pair for pair in answer.pairs if pair.workload.startswith("CNN training (resnet50)"))
    assert cnn.fits
    assert cnn.baseline_fits
    assert cnn.workload.endswith("batch 16")


def test_your_own_batch_is_never_made_smaller() -> None:
    (pair,) = gpuwise.compare(["RTX 3090", "GTX 960M"], model=["resnet50"], batch="256").pairs
    assert not pair.fits
    assert pair.why.startswith("does not fit on the GTX 960M")


def test_laptop_parts_are_told_by_their_watts() -> None:
    notes = gpuwise.compare(["RTX 2070 Max-Q", "RTX 5090 Laptop"], model=["resnet18"]).notes
    assert any(note.startswith("the RTX 2070 Max-Q draws 80 to 90 W") for note in notes)
    assert any("RTX 5090 Laptop draws" in note and "% of the speed" in note for note in notes)


# ---------------------------------------------------------------- prices


@pytest.fixture
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


@pytest.mark.usefixtures("_a_given_day")
def test_at_the_break_even_price_both_give_the_same_speed_for_the_money() -> None:
    names = ["RTX 4070 Ti", "RTX 3090"]
    first = gpuwise.compare(names, model=["resnet50"], price=["RTX 4070 Ti=800", "RTX 3090=900"]).deals[1]
    assert first.even_usd is not None
    assert first.value is not None
    assert first.value == pytest.approx(first.even_usd / 900)
    even = gpuwise.compare(names, model=["resnet50"], price=["RTX 4070 Ti=800", f"RTX 3090={first.even_usd}"]).deals[1]
    assert even.value == pytest.approx(1.0)


@pytest.mark.usefixtures("_a_given_day")
def test_the_price_of_a_set_is_that_of_all_its_cards() -> None:
    answer = gpuwise.compare(["RTX 3090", "2x RTX 3090 + T4"], model=["resnet18"], price=["RTX 3090=700", "T4=500"])
    assert [deal.price_usd for deal in answer.deals] == [700, 1900]


@pytest.mark.usefixtures("_a_given_day")
def test_prices_are_told_in_the_users_currency() -> None:
    prices = ["RTX 3090=700", "RTX 4090=1500"]
    notes = gpuwise.compare(["RTX 3090", "RTX 4090"], model=["resnet18"], price=prices, currency="EUR=1.08").notes
    (told,) = (note for note in notes if "better buy" in note)
    assert "1,500 EUR" in told
    assert "$" not in told


def test_an_unknown_price_asks_for_yours() -> None:
    notes = gpuwise.compare(["RTX 2070 Max-Q", "GTX 960M"], model=["resnet18"]).notes
    assert any('`--price "RTX 2070 Max-Q=' in note for note in notes)


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RTX 3090"], "two different GPUs"),
        (["0x RTX 3090", "RTX 4090"], "invalid number of GPUs"),
        (["99x RTX 3090", "RTX 4090"], "invalid number of GPUs"),
        (["RTX 3090 +", "RTX 4090"], "GPU"),
        (["RTX 3090", "RTX 4090", "--price", "RTX 3090=cheap"], "cheap"),
        (["RTX 3090", "RTX 4090", "--currency", "EUX=1"], "EUX"),
    ],
)
def test_bad_input_is_refused_with_a_hint(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["compare", *arguments])
    assert isinstance(result.exception, GpuwiseError), result.output
    assert message in str(result.exception)
    assert result.exception.hint


def test_json_has_the_keys_of_the_contract() -> None:
    result = CliRunner().invoke(app, ["compare", "RTX 3090", "RTX 4090", "--model", "resnet18", "--json"], catch_exceptions=False)
    answer = json.loads(result.stdout)
    assert set(answer) >= {"pairs", "memory", "flips", "assumptions", "data_date"}
    assert set(answer["pairs"][0]) >= {"gpu", "baseline", "workload", "precision", "ratio", "ratio_low", "ratio_high", "why"}


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    text = render(gpuwise.compare(["4x RTX 2070", "2x RTX 2080 Ti"]), width=width)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    "names", [("RTX 3090", "RTX 4070 Ti"), ("RTX 3090", "RTX 4090", "T4", "H100 PCIe 80GB"), ("RTX 3090", "2x T4")]
)
def test_a_brief_answer_is_short_and_a_verbose_one_gives_every_reason(names: tuple[str, ...]) -> None:
    answer = gpuwise.compare(names)
    lines = render(answer).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    whole = " ".join(render(answer, verbose=True).split())
    assert all(pair.why in whole for pair in answer.pairs)


def test_the_reason_names_the_cache_behind_the_l2_and_what_amds_libraries_reach() -> None:
    answer = gpuwise.compare(["RX 7900 XTX", "RTX 3090"], model=["resnet50"], precision="amp", batch="64")
    assert "of the cache" in answer.pairs[0].why
    assert any(note.name == "RX 7900 XTX libraries" for note in answer.assumptions)
    assert not any(note.name == "RTX 3090 libraries" for note in answer.assumptions)


def test_a_price_may_be_for_a_gpu_whose_specs_are_given_beside_it() -> None:
    own = "name=RTX 4090 48GB,like=RTX 4090,mem=48GB"
    found = gpuwise.compare([own, "RTX 4090"], model=["resnet50"], price=["rtx 4090 48gb=3200"])
    assert found.pairs[0].ratio == pytest.approx(1.0)
    assert "$3,200 (your price)" in str(found)
    with pytest.raises(GpuwiseError, match="unknown GPU"):
        gpuwise.compare(["RTX 3090", "RTX 4090"], model=["resnet50"], price=["RTX 4090 48GB=3200"])
