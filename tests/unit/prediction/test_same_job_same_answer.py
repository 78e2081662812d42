"""`predict`, `fit` and `plan` on the same job: one law for the step, its range, bound and memory, and one link between GPUs."""

from __future__ import annotations

from typing import Any

import pytest

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadValue
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.plan.types import PLAIN, PlanAnswer, PlanEntry

# model, GPU, how many, samples on each, precision
JOBS = [
    ("resnet50", "RTX 3090", 1, 128, "amp"),
    ("resnet50", "RTX 3090", 2, 128, "amp"),
    ("resnet50", "RTX 4090", 4, 64, "fp32"),
    ("bert-large", "RTX 3090", 4, 8, "amp"),
    ("bert-large", "A100 SXM 80GB", 8, 16, "amp-bf16"),
    ("gpt2", "RTX 4090", 2, 8, "amp"),
    ("llama-2-7b", "H100 SXM 80GB", 8, 1, "bf16"),
    ("llama-2-7b", "H100 SXM 80GB", 8, 1, "fp8"),
    ("vit_base_patch16_224", "RTX 2080 Ti", 3, 32, "amp"),
    ("mobilenet_v2", "H100 SXM 80GB", 8, 8, "amp"),  # held up by the host
    ("resnet18", "GTX 1080 Ti", 2, 64, "fp32"),
    ("resnet50", "MI300X", 2, 64, "amp"),
    ("resnet50", "Arc B580", 2, 32, "amp"),  # of a maker that was not measured
]
LINKS = [("RTX 3090", 2), ("RTX 3090", 4), ("RTX 4090", 2), ("A100 PCIe 80GB", 2), ("Quadro RTX 8000", 2), ("H100 SXM 80GB", 8)]


def predicted(model: str, gpu: str, count: int, batch: int, precision: str, **more: Any) -> Prediction:
    asked = predict_query(model=model, gpu=[gpu], gpus=count, batch=str(batch), precision=precision, **more)
    return predict_step(asked).results[0]


def planned(model: str, gpu: str, count: int, batch: int, precision: str, **more: Any) -> PlanAnswer:
    asked = {"cluster": f"{count}x {gpu}", "batch": batch * count, "precision": precision, "scaling": False, **more}
    return gpuwise.plan(model, **asked)


def plain_of(answer: PlanAnswer) -> PlanEntry:
    """The row of the table that divides samples alone, in one micro-batch."""
    (found,) = [entry for entry in answer.shown if any(PLAIN in label for label in entry.labels)]
    return found


@pytest.mark.parametrize("job", JOBS, ids=lambda job: " ".join(map(str, job)))
def test_plain_data_parallel_is_what_predict_and_fit_say(job: tuple[str, str, int, int, str]) -> None:
    model, gpu, count, batch, precision = job
    alone = predicted(*job)
    fixed = {"micro_batch": batch, "recompute": "none", "zero": 0, "data": count}
    answer = planned(*job, **fixed)
    one = plain_of(answer) if count > 1 else answer.entries[0]
    assert one.estimate.plan.is_plain
    assert one.estimate.step_s == pytest.approx(alone.step_s, rel=1e-6)
    assert (one.low_s, one.high_s) == pytest.approx((alone.step_low_s, alone.step_high_s), rel=1e-6)
    assert (one.range_basis, one.bound) == (alone.range_basis, alone.bound)
    assert one.estimate.memory.total_bytes == pytest.approx(alone.memory.total_bytes, rel=0.001)
    asked = {"gpu": [gpu], "gpus": count, "batch": str(batch), "precision": precision, "remedies": False}
    held = gpuwise.fit(model=model, **asked).results[0]
    assert held.step_s == pytest.approx(alone.step_s, rel=0.01)
    assert one.estimate.memory.total_bytes == pytest.approx(held.memory.total_bytes, rel=0.01)


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_plans_that_divide_more_are_never_surer_than_the_plain_one(model: str) -> None:
    answer = planned(model, "RTX 3090", 4, 32, "amp")
    plain = plain_of(answer)
    others = [entry for entry in answer.entries if not entry.estimate.plan.divides_samples_only]
    assert others
    assert all(entry.width.low <= plain.width.low and entry.width.high > plain.width.high for entry in others)


def test_the_answer_says_what_ranges_rest_on() -> None:
    answer = planned("resnet50", "RTX 3090", 4, 32, "amp")
    notes = {note.name: note for note in answer.assumptions if note.name.startswith("range")}
    assert set(notes) == {"range for data parallelism alone", "range for other plans"}
    assert all(note.basis == "measured" for note in notes.values())
    assert not [note for note in planned("resnet50", "TPU v4", 2, 32, "bf16").assumptions if note.name.startswith("range")]


def test_a_plain_plan_that_fits_nowhere_is_in_the_table_all_the_same() -> None:
    answer = planned("gpt2-xl", "RTX 3090", 4, 8, "amp")
    plain = plain_of(answer)
    assert plain not in answer.entries
    assert not plain.fits
    assert plain.labels == (f"{PLAIN}: does not fit",)
    assert answer.to_dict()["plain_data_parallel"]["fits"] is False
    assert all(entry.fits for entry in answer.entries)


@pytest.mark.parametrize(("gpu", "count"), LINKS)
def test_every_answer_takes_the_same_link_and_says_so_alike(gpu: str, count: int) -> None:
    by_predict = [note for note in predicted("resnet50", gpu, count, 32, "amp").assumptions if note.name.startswith("link")]
    answer = planned("resnet50", gpu, count, 32, "amp")
    by_plan = [note for note in answer.assumptions if note.name.startswith("link")]
    assert by_predict == by_plan
    assert len(by_plan) == 1
    assert by_plan[0].value.startswith(answer.cluster.gpu_link.name)
    lanes = answer.cluster.wires.host_link.name
    told = gpuwise.matters("nvlink", model="resnet50", gpu=gpu, gpus=count, batch="32", precision="amp").topics[0]
    if gpu in ("RTX 3090", "Quadro RTX 8000", "A100 PCIe 80GB"):
        assert "without an NVLink bridge" in by_plan[0].value
    if "than over" in told.answer:
        assert f"than over {lanes}" in told.answer


def test_a_bridge_counts_where_it_is_said_and_as_much_in_each_answer() -> None:
    job = ("bert-base", "RTX 3090", 2, 16, "amp")
    bare, bridged = predicted(*job), predicted(*job, link="NVLink")
    assert bridged.step_s < 0.9 * bare.step_s
    assert plain_of(planned(*job, link="NVLink")).estimate.step_s == pytest.approx(bridged.step_s, rel=1e-6)
    gain = gpuwise.matters("nvlink", model="bert-base", gpu="RTX 3090", gpus=2, batch="16", precision="amp").topics[0].value
    assert gain == pytest.approx(100 * (bare.step_s / bridged.step_s - 1), rel=1e-6)


def test_a_link_of_one_gpu_is_refused() -> None:
    with pytest.raises(BadValue, match="needs several GPUs") as refusal:
        predict_query(model="resnet50", gpu=["RTX 3090"], link="NVLink")
    assert refusal.value.hint
