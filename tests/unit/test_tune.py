"""Which batch is enough: predicted for a named GPU, or from a profile of this machine."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.tune.batch import TuneAnswer
from gpuwise.surfaces.cli.app import app


def tuned(model: str = "resnet50", gpu: str = "RTX 3090", **more: str) -> TuneAnswer:
    return gpuwise.tune(["batch", model], gpu=gpu, precision="amp", **more)


def test_the_chosen_batches_are_what_they_claim() -> None:
    answer = tuned()
    best = max(point.samples_per_s for point in answer.batches)
    chosen = [answer.enough(share) for share in (0.90, 0.95, 0.99)]
    assert [point.batch for point in chosen] == sorted(point.batch for point in chosen)
    for share, point in zip((0.90, 0.95, 0.99), chosen, strict=True):
        assert point.samples_per_s >= share * best
        smaller = [other for other in answer.batches if other.batch < point.batch]
        assert all(other.samples_per_s < share * best for other in smaller)


def test_points_are_those_of_predict_and_all_fit() -> None:
    answer = tuned()
    point = next(point for point in answer.batches if point.batch == 64)
    found = gpuwise.predict(model="resnet50", gpu=["RTX 3090"], precision="amp", batch="64").results[0]
    assert point.step_s == pytest.approx(found.step_s)
    assert answer.batches[-1].batch <= answer.largest_batch < 2 * answer.batches[-1].batch
    assert found.fits


def test_before_doubling_stops_paying_it_pays() -> None:
    answer = tuned()
    points = {point.batch: point.samples_per_s for point in answer.batches}
    stop = answer.stops_paying.batch
    assert points[2 * stop] < 1.05 * points[stop]
    assert all(points[2 * size] >= 1.05 * points[size] for size in points if size < stop)


def test_text_and_json_agree() -> None:
    arguments = ["tune", "batch", "resnet50", "--gpu", "RTX 3090", "--precision", "amp"]
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    text = CliRunner().invoke(app, arguments).stdout
    few, more, most = (answer[f"batch_for_{share}"] for share in (90, 95, 99))
    assert f"the smallest batch that reaches at least 90% of it is {few} (95%: {more}, 99%: {most})" in text
    assert f"doubling the batch beyond {answer['batch_where_doubling_stops_paying']}" in text


def test_a_model_that_does_not_fit_and_other_odd_questions_are_refused() -> None:
    with pytest.raises(BadValue, match="not even a batch of 1 fits"):
        tuned("gpt2-xl", "GTX 1060 6GB", optimizer="adamw")
    with pytest.raises(BadValue, match="colour is a model, not a training script, so it takes no arguments"):
        gpuwise.tune(["colour", "resnet50"])
    with pytest.raises(BadValue, match="one GPU"):
        gpuwise.tune(["batch", "resnet50"], gpu=["RTX 3090", "RTX 4090"])


def test_nothing_to_tune_is_told_in_our_own_words() -> None:
    done = CliRunner().invoke(app, ["tune"])
    assert isinstance(done.exception, BadValue)
    assert "no model or script to tune was given" in done.exception.message
    assert "gpuwise tune batch" in done.exception.hint


def test_the_limit_for_95_per_cent_is_the_first_that_the_table_shows_so() -> None:
    limits = ["--limits", ",".join(f"{watts}W" for watts in range(150, 351, 5))]
    text = CliRunner().invoke(app, ["tune", "power", "resnet50", "--gpu", "RTX 3090", *limits]).stdout
    rows = [line.split() for line in text.splitlines() if " W " in line and line.split()[0].isdigit()]
    shown = {int(row[0]): next(int(word[:-1]) for word in row if word.endswith("%")) for row in rows}
    assert len(shown) == 41
    first = min(watts for watts, share in shown.items() if share >= 95)
    assert f"{first} W is enough for 95% of the full speed" in text
