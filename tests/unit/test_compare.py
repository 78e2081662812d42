"""`compare`, and the founding questions: why a faster card is not faster."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwise import api
from gpuwise.errors import BadValue


def results(*names: str, model: str = "resnet50", **options: Any) -> tuple[api.Prediction, ...]:
    return api.predict(api.predict_query(model=model, gpu=names, **options)).results


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
    answer = api.compare(["RTX 3090", "RTX 4090"])
    assert len(answer.pairs) == 6
    for pair in answer.pairs:
        assert pair.ratio_low < pair.ratio < pair.ratio_high
        assert pair.why
    assert answer.pairs[0].ratio > 1.2
    assert set(answer.to_dict()) >= {"pairs", "memory", "flips"}


def test_comparing_the_other_way_round_gives_the_inverse() -> None:
    one, two = (api.compare(names, models=["resnet50"]).pairs[0].ratio for names in (("3090", "4090"), ("4090", "3090")))
    assert one * two == pytest.approx(1.0, rel=1e-6)


def test_typed_specs_are_compared() -> None:
    typed = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s"
    (pair,) = api.compare(["RTX 4090", typed], models=["resnet18"]).pairs
    assert pair.gpu == "Foo"
    assert pair.ratio < 1


def test_comparing_says_what_an_ambiguous_name_was_taken_for() -> None:
    answer = api.compare(["RTX 3090", "h100"], models=["resnet18"])
    (said,) = (entry for entry in answer.assumptions if entry["name"] == "gpu 'h100'")
    assert said["value"] == answer.gpus[1].name


@pytest.mark.parametrize("options", [{"mode": "infer"}, {"precision": "fp32"}, {"batch": "8"}])
def test_options_of_a_model_are_not_ignored_without_one(options: dict[str, str]) -> None:
    with pytest.raises(BadValue, match="is for --model"):
        api.compare(["RTX 3090", "RTX 4090"], **options)  # type: ignore[arg-type]


def test_two_cards_held_up_by_different_things_are_both_explained() -> None:
    (pair,) = api.compare(["cpu", "RTX 3090"], models=["resnet50"]).pairs
    assert pair.why.startswith("bound by memory: ")
    assert "Ryzen 7 5800X by compute: " in pair.why


def test_memory_that_one_card_lacks_turns_the_order() -> None:
    answer = api.compare(["RTX 3090", "RTX 4070 Ti"])
    assert any("12 GiB" in flip for flip in answer.flips)


def test_what_fits_neither_card_turns_nothing() -> None:
    answer = api.compare(["RTX 4060 Ti 8GB", "RTX 3060 12GB"])
    decode = next(pair for pair in answer.pairs if "llama" in pair.workload)
    assert not decode.fits
    assert not decode.baseline_fits
    assert decode.why.startswith("does not fit either")
    assert not any("llama" in flip for flip in answer.flips)
    assert any(flip.startswith("RTX 4060 Ti 8GB has too little memory") for flip in answer.flips)
