"""`predict`: answers from little input, with stated defaults."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.predict.text import render
from gpuwise.surfaces.cli.app import app


def results(*names: str, model: str = "resnet50", **options: Any) -> tuple[Prediction, ...]:
    return gpuwise.predict(model=model, gpu=names, **options).results


def test_a_name_alone_is_answered_with_stated_defaults() -> None:
    (found,) = results("RTX 3090")
    assert found.step_low_s < found.step_s < found.step_high_s
    assert {entry.name for entry in found.assumptions} >= {"precision", "optimizer", "stack", "cpu", "batch"}
    assert sum(found.bound_fractions.values()) == pytest.approx(1.0)
    assert found.fits
    assert found.coverage_fraction > 0.97


def test_json_has_the_keys_of_the_contract() -> None:
    done = CliRunner().invoke(app, ["predict", "resnet50", "--gpu", "RTX 3090", "--json"])
    answer = json.loads(done.output)
    (result,) = answer["results"]
    assert set(answer) >= {"model", "results", "data_date"}
    assert set(result) >= set(
        "gpu gpu_count mode precision batch step_s step_low_s step_high_s samples_per_s bound bound_fractions memory fits "
        "coverage_fraction by_op assumptions".split()
    )
    assert set(result["bound_fractions"]) == {"compute", "memory", "launch", "input", "copy", "communication"}
    assert set(result["memory"]) >= {"weight_bytes", "activation_bytes", "workspace_bytes", "framework_bytes", "total_bytes"}
    assert {"op", "count", "seconds", "bound"} <= set(result["by_op"][0])


def test_batch_auto_is_the_largest_power_of_two_that_fits() -> None:
    small, large = results("RTX 3060 Ti", "RTX 3090", batch="auto")
    for found in (small, large):
        assert found.batch & (found.batch - 1) == 0
        assert found.fits
    assert large.batch > small.batch
    (twice,) = results("RTX 3090", batch=str(large.batch * 2))
    assert not twice.fits


def test_one_measured_number_moves_all_predictions_its_way() -> None:
    (plain,) = results("RTX 4090", batch="128", precision="amp")
    (slower,) = results("RTX 4090", batch="128", precision="amp", measured=["RTX 3090=400ms"])
    assert slower.step_s > 1.3 * plain.step_s
    assert slower.step_high_s / slower.step_low_s < plain.step_high_s / plain.step_low_s


def test_from_a_measured_gpu_to_another_is_as_sure_as_comparing_the_two() -> None:
    (told,) = results("RTX 4090", batch="64", precision="amp", measured=["RTX 3090=100ms"])
    (pair,) = gpuwise.compare(["RTX 3090", "RTX 4090"], model=["resnet50"], batch="64", precision="amp").pairs
    assert told.step_high_s / told.step_low_s == pytest.approx(pair.ratio_high / pair.ratio_low, rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"gpus": 4, "model": "bert-large"}])
def test_what_was_measured_is_the_answer_for_that_gpu(options: dict[str, Any]) -> None:
    own, other = results("RTX 3090", "RTX 4090", precision="amp", measured=["RTX 3090=900ms", "RTX 3090=902ms"], **options)
    assert own.step_s == pytest.approx(0.901)
    assert own.step_low_s < 0.9 < 0.902 < own.step_high_s < 1.1 * own.step_s
    gpu_s = sum(row.seconds for row in own.by_op)
    assert gpu_s == pytest.approx(own.lanes_s["gpu"])
    assert gpu_s == pytest.approx(own.step_s * (1 - own.bound_fractions["communication"]), rel=0.05)
    assert other.step_high_s / other.step_low_s > own.step_high_s / own.step_low_s
    assert "RTX 3090 step" in {row.name for row in own.assumptions} - {row.name for row in other.assumptions}


def test_a_measured_step_of_several_gpus_holds_their_communication_too() -> None:
    asked: dict[str, Any] = {"model": "bert-large", "precision": "amp", "gpus": 4}
    base, plain = results("RTX 3090", "RTX 4090", **asked)
    assert base.bound_fractions["communication"] > 0
    (told,) = results("RTX 4090", measured=[f"RTX 3090={base.step_s * 1e3}ms"], **asked)
    assert told.step_s == pytest.approx(plain.step_s, rel=1e-6)


def test_a_measured_gpu_with_an_ambiguous_name_is_said() -> None:
    (found,) = results("RTX 3090", measured=["a100=80ms"])
    assert "gpu 'a100'" in {entry.name for entry in found.assumptions}


def test_a_card_with_a_token_rate_in_16_bit_is_held_against_fp32() -> None:
    fast, slow = results("RTX 3090", "GTX 1080", precision="amp")
    assert slow.utilisation_fraction is not None
    assert slow.utilisation_fraction < 1
    assert fast.peak_flops_per_s is not None
    assert slow.peak_flops_per_s == slow.gpu.best_peak("fp32")
    assert fast.peak_flops_per_s == fast.gpu.best_peak("fp16")


def test_a_measurement_equal_to_the_prediction_changes_nothing() -> None:
    (base,) = results("RTX 3090", batch="64", precision="amp")
    (told,) = results("RTX 3090", batch="64", precision="amp", measured=[f"RTX 3090={base.step_s * 1e3}ms"])
    assert told.step_s == pytest.approx(base.step_s, rel=1e-6)


def test_a_lower_power_limit_is_slower_and_never_faster() -> None:
    limits = ("350W", "280W", "200W", "150")
    taken = [results("RTX 3090", precision="amp", batch="128", power_limit=limit)[0].step_s for limit in limits]
    assert taken == sorted(taken)
    assert taken[2] > 1.02 * taken[0]
    assert taken[3] > 1.10 * taken[0]


def test_several_gpus_pay_for_communication() -> None:
    (one,), (many,) = results("RTX 3090", model="bert-large"), results("RTX 3090", model="bert-large", gpus=4)
    assert many.step_s >= one.step_s
    assert many.samples_per_s > 2 * one.samples_per_s
    assert many.bound_fractions["communication"] > 0


def test_several_gpus_say_what_their_gradients_cost() -> None:
    def said(**options: Any) -> dict[str, str]:
        (found,) = results("RTX 3090", gpus=4, **options)
        return {entry.name: entry.effect for entry in found.assumptions}

    def felt(**options: Any) -> int:
        return int(said(**options)["RTX 3090 gradient averaging"].split("adds ")[1].split("%")[0])

    assert 0 < felt() < felt(model="bert-large") < 60
    assert said(mode="infer")["gpus"] == "each GPU processes its own samples"


def test_a_phase_is_one_of_inference() -> None:
    (found,) = results("RTX 3090", model="llama-2-7b", phase="prefill")
    assert (found.mode, found.precision) == ("infer", "fp16")
    assert gpuwise.capture(model="llama-2-7b", phase="decode").workload.mode == "infer"


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("GTX 680", "CUDA 10.2 and PyTorch 1.3 built for CUDA 10.0"),
        ("K40", "CUDA 11.8 and PyTorch 1.12 built for CUDA 10.2"),
        ("K80", "CUDA 11.8 and PyTorch 2.7 built for CUDA 11.8"),
        ("GTX 970", "CUDA 12.9 and PyTorch 2.14 built for CUDA 12.6"),
        ("P100 PCIe 16GB", "CUDA 12.9 and PyTorch 2.14 built for CUDA 12.6"),
        ("V100 SXM 16GB", "CUDA 12.9 and PyTorch 2.14 built for CUDA 12.6"),
        ("MI25", "ROCm 4.5"),
    ],
)
def test_an_old_card_says_what_still_serves_it(name: str, last: str) -> None:
    arguments = ["predict", "resnet18", "--gpu", name, "--precision", "fp32", "--batch", "8"]
    (found,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)["results"]
    (said,) = (entry for entry in found["assumptions"] if entry["code"] == "device_software")
    assert said["value"] == last
    for shown in (arguments, [*arguments, "--gpu", "RTX 3090"]):
        assert said["value"] in " ".join(CliRunner().invoke(app, shown).output.split())
    assert said in gpuwise.compare([name, "RTX 3090"], model=["resnet18"], precision="fp32").to_dict()["assumptions"]


def test_a_stack_newer_than_a_card_can_run_is_said_to_be_one() -> None:
    def effect(name: str, stack: str) -> str:
        (found,) = results(name, precision="fp32", stack=stack)
        return next(entry.effect for entry in found.assumptions if entry.code == "device_software")

    assert effect("K40", "torch-2.4") == "the times assume that torch-2.4 supports this GPU"
    assert effect("K40", "torch-1.12") == "later releases do not support this GPU"
    assert effect("GTX 970", "torch-2.4") == "later releases do not support this GPU"
    assert "no release" in effect("RX 5700 XT", "torch-2.4")


def test_a_current_card_has_no_such_note() -> None:
    (found,) = results("RTX 3090")
    assert not any(entry.code == "device_software" for entry in found.assumptions)


def test_a_workload_file_tells_its_own_precision(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    gpuwise.capture(model="resnet18", precision="fp32", output=path)
    (found,) = results("RTX 3090", model=str(path))
    assert found.precision == "fp32"
    assert "precision" not in {entry.name for entry in found.assumptions}
    with pytest.raises(BadValue, match="precision"):
        results("RTX 3090", model=str(path), precision="amp")


# ---------------------------------------------------------------- the loader


def test_a_host_that_cannot_decode_fast_enough_is_what_limits_the_step() -> None:
    (fast,) = results("RTX 4090", batch="128", precision="amp", image_decode=True, workers=2)
    assert fast.bound == "input"
    assert fast.lanes_s["input"] == pytest.approx(128 / fast.samples_per_s, rel=0.05)
    said = {entry.name: entry for entry in fast.assumptions}
    assert "images/s" in said["image loading"].value
    assert said["image loading"].basis == "assumed"
    assert "workers" not in said
    assert fast.step_high_s / fast.step_low_s > 2


def test_more_workers_and_a_faster_cpu_never_load_slower() -> None:
    def loading(workers: int | None, cpu: str, **more: Any) -> float:
        (found,) = results("RTX 4090", precision="amp", image_decode=True, workers=workers, cpu=cpu, **more)
        return found.lanes_s["input"]

    by_count = [loading(count, "fast desktop") for count in (1, 2, 4, 8, 16, 64)]
    assert by_count == sorted(by_count, reverse=True)
    assert by_count[-1] == by_count[-2]  # no more cores
    assert loading(4, "old quad-core") > loading(4, "desktop") > loading(4, "fast desktop")
    assert loading(None, "desktop") == loading(8, "desktop")
    assert loading(None, "desktop", gpus=4) > 2 * loading(None, "desktop")  # they share the cores


def test_a_loader_that_may_be_too_slow_widens_the_range_only_upwards() -> None:
    (plain,) = results("RTX A6000", batch="128", precision="amp", cpu="fast desktop")
    (loaded,) = results("RTX A6000", batch="128", precision="amp", image_decode=True, workers=3, cpu="fast desktop")
    assert loaded.bound != "input"
    assert loaded.step_high_s > 1.02 * plain.step_high_s
    assert loaded.step_low_s == pytest.approx(plain.step_low_s, rel=0.01)


def test_a_step_is_not_shorter_than_the_loader_that_was_given() -> None:
    (found,) = results("RTX 3090", batch="128", loader_samples_per_s=100.0)
    assert found.bound == "input"
    assert 1.2 < found.step_low_s < 1.28 < found.step_high_s < 1.4


def test_a_copy_shorter_than_the_gpus_work_is_not_what_limits_the_step() -> None:
    (hidden,) = results("RTX 3090", batch="128", pcie="PCIe 3.0 x1")
    assert hidden.lanes_s["copy"] < hidden.lanes_s["gpu"]
    assert hidden.bound in ("compute", "memory")
    (felt,) = results("H100 SXM 80GB", batch="128", pcie="PCIe 3.0 x1")
    assert felt.lanes_s["copy"] > felt.lanes_s["gpu"]
    assert felt.bound == "copy"


@pytest.mark.parametrize(("gpu", "gpus"), [("RTX 2080 Ti", 2), ("RTX 2080 Ti", 1), ("RTX 3090", 2), ("RTX 4090", 4)])
def test_what_limits_a_step_is_its_largest_share(gpu: str, gpus: int) -> None:
    (found,) = results(gpu, model="bert-base", mode="train", gpus=gpus)
    assert found.bound == max(found.bound_fractions, key=lambda name: found.bound_fractions[name])
    assert found.bound_fractions["input"] == 0


def test_a_loader_that_hides_behind_the_gpu_is_held_against_all_of_its_work() -> None:
    answer = gpuwise.predict(
        "resnet50", gpu="RTX A6000", batch="128", precision="amp", image_decode=True, workers=3, cpu="fast desktop"
    )
    shares = answer.results[0].bound_fractions
    assert max(shares, key=lambda name: shares[name]) == "input"
    assert f"more than by the data loader ({shares['input']:.0%})" in render(answer)


def test_a_slow_loader_is_not_helped_by_a_larger_batch() -> None:
    printed = " ".join(render(gpuwise.predict("resnet50", gpu=("RTX 3090", "RTX 4090"), loader_samples_per_s=100.0)).split())
    assert "the data loader cannot deliver batches any faster" in printed
    assert "A faster data loader" in printed
    assert "--compile" not in printed
    small = " ".join(render(gpuwise.predict("mnist_mlp", gpu=("RTX 3090", "RTX 4090"), batch="8")).split())
    assert "A larger batch or `--compile` would show the difference." in small


def test_two_cards_that_mostly_exchange_gradients_are_limited_by_communication() -> None:
    (found,) = results("RTX 2080 Ti", model="bert-base", mode="train", gpus=2)
    assert found.bound == "communication"
    assert found.bound_fractions["communication"] < 0.5


def test_only_images_are_decoded() -> None:
    with pytest.raises(BadValue, match="does not take images"):
        results("RTX 3090", model="bert-base", image_decode=True)
    for options, says in (
        ({"workers": 4}, "--workers requires --image-decode"),
        ({"workers": 0, "image_decode": True}, "--workers 0"),
        ({"image_decode": True, "loader_samples_per_s": 100.0}, "--loader-samples-per-s"),
    ):
        with pytest.raises(BadValue, match=says) as caught:
            results("RTX 3090", **options)  # type: ignore[arg-type]
        assert caught.value.hint


@pytest.mark.parametrize(
    "question",
    [("gpt2-xl",), ("gpt2-xl", "--batch", "2", "--seq", "512", "--precision", "bf16"), ("llama-2-7b", "--mode", "infer")],
)
def test_what_does_not_fit_points_to_the_fit_that_tells_more(question: tuple[str, ...]) -> None:
    asked = json.loads(CliRunner().invoke(app, ["predict", *question, "--gpu", "RTX 3060 12GB", "--json"]).stdout)
    (note,) = (note for note in asked["notes"] if "does not fit" in note)
    words = shlex.split(note.partition("`")[2].rstrip("`"))
    assert words[:2] == ["gpuwise", "fit"]
    told = json.loads(CliRunner().invoke(app, [*words[1:], "--no-remedies", "--json"]).stdout)
    assert not told["fits"]
    assert told["memory"]["total_bytes"] == asked["results"][0]["memory"]["total_bytes"]


def test_what_fits_points_nowhere() -> None:
    asked = json.loads(CliRunner().invoke(app, ["predict", "resnet50", "--gpu", "RTX 3090", "--json"]).stdout)
    assert not [note for note in asked["notes"] if "gpuwise fit" in note]


def test_a_step_that_may_not_fit_is_said_to_fit_narrowly() -> None:
    run = CliRunner().invoke(
        app, ["predict", "llama-2-7b", "--mode", "infer", "--batch", "1", "--gpu", "RTX 5070 Ti", "--gpu", "RTX 3090"]
    )
    rows = {line[:8]: line.split()[-1] for line in run.stdout.splitlines() if line.startswith("RTX ") and "GiB" in line}
    assert rows == {"RTX 5070": "narrowly", "RTX 3090": "yes"}


def test_several_gpus_have_the_precision_that_each_has_alone() -> None:
    names = ("P100 PCIe 16GB", "T4", "GTX 1080 Ti")
    answer = gpuwise.predict("resnet50", gpu=names)
    assert [one.gpu.name for one in answer.results] == list(names)
    assert [one.precision for one in answer.results] == ["fp32", "amp", "fp32"]
    for together, name in zip(answer.results, names, strict=True):
        (alone,) = results(name)
        assert (together.precision, together.step_s, together.memory) == (alone.precision, alone.step_s, alone.memory)
    told = {note.name: note.value for note in answer.assumptions if note.code == "precision"}
    assert told == {"precision on the P100 PCIe 16GB and the GTX 1080 Ti": "fp32", "precision on the T4": "amp"}
    text = render(answer, width=100)
    assert text.startswith("resnet50  train, batch 128\n")
    assert "in amp instead of fp32" in " ".join(text.split())
    assert {one.precision for one in results(*names, precision="fp32")} == {"fp32"}
    assert {one.precision for one in results("T4", "RTX 3090")} == {"amp"}
