"""What the page asks for beyond the commands: sweeps, everything `which` looked at, one step in time."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadValue
from gpuwise.questions.predict.batches import sweep
from making_traces import ALL_REDUCE, Run, training


def test_a_sweep_gives_what_predict_gives_batch_by_batch() -> None:
    query = predict_query(model="bert-base", gpu=["RTX 3090"])
    for point in sweep(query, [1, 8, 100]).points:
        alone = gpuwise.predict(model="bert-base", gpu=["RTX 3090"], batch=str(point.batch)).results[0]
        assert point.step_s == pytest.approx(alone.step_s)
        assert point.samples_per_s == pytest.approx(alone.samples_per_s)


def test_a_sweep_without_batches_is_refused() -> None:
    query = predict_query(model="resnet18", gpu=["RTX 3090"])
    for batches in ([], [0], [1] * 65):
        with pytest.raises(BadValue):
            sweep(query, batches)


def test_everything_looked_at_says_what_it_lacks() -> None:
    answer = gpuwise.which(model=["resnet50"], budget=800.0).to_dict()
    seen = answer["looked_at"]
    assert {(option["gpu"], option["source"]) for option in answer["options"]} <= {(one["gpu"], one["source"]) for one in seen}
    assert all(one["upfront_usd"] > 800 for one in seen if one["short_of"] == "budget" and one["source"] == "buy new")
    assert all(not one["fits"] for one in seen if one["short_of"] == "memory")
    laptops = gpuwise.which(model=["resnet50"], budget=1500.0, laptop=True).to_dict()["looked_at"]
    assert any(one["short_of"] == "price" and one["total_usd"] is None for one in laptops)


def test_nothing_on_the_front_is_beaten_in_both_time_and_money() -> None:
    seen = gpuwise.which(model=["resnet50"]).to_dict()["looked_at"]
    front = [one for one in seen if one["front"]]
    able = [one for one in seen if not one["short_of"] and one["total_usd"] is not None]
    assert len(front) > 1
    for one in front:
        assert not any(other["run_s"] < one["run_s"] and other["total_usd"] < one["total_usd"] for other in able)


def _timeline(run: Run, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds by lane and kind of the step that is drawn."""
    line = gpuwise.why([str(run.write(folder / "trace.json"))]).to_dict()["timeline"]
    found: dict[str, dict[str, float]] = {"step": {"": line["step_s"]}}
    for lane in line["lanes"]:
        assert len(lane["spans"]) <= 300
        for span in lane["spans"]:
            assert span["start_s"] >= 0
            assert span["start_s"] + span["seconds"] <= line["step_s"] * 1.0001
            kinds = found.setdefault(lane["name"], {})
            kinds[span["kind"]] = kinds.get(span["kind"], 0.0) + span["seconds"]
    return found


def test_a_step_is_drawn_with_what_ran_in_it(tmp_path: Path) -> None:
    found = _timeline(training(Run(), kernels=20, kernel_us=500.0, load_us=8000.0, reduce_us=900.0), tmp_path)
    assert found["host: loading data"]["loading"] == pytest.approx(8e-3, rel=0.01)
    assert found["GPU: communication"]["communication"] == pytest.approx(9e-4, rel=0.01)
    assert found["GPU: kernels"]["matmul"] == pytest.approx(15 * 5e-4, rel=0.05)
    assert "communication" not in found["GPU: kernels"], ALL_REDUCE


def test_a_crowded_step_is_drawn_coarsely_and_keeps_its_busy_time(tmp_path: Path) -> None:
    found = _timeline(training(Run(), kernels=3000, kernel_us=20.0, steps=3), tmp_path)
    busy = sum(found["GPU: kernels"].values())
    assert busy == pytest.approx(3000 * 20e-6, rel=0.05)
