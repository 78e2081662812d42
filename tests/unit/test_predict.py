"""`predict` and `compare`: answers from little input, the founding questions, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwise import api
from gpuwise.cli.app import app
from gpuwise.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.workload import files


def results(*names: str, model: str = "resnet50", **options: Any) -> tuple[api.Prediction, ...]:
    return api.predict(api.predict_query(model=model, gpu=names, **options)).results


def ratio(fast: str, slow: str, **options: Any) -> float:
    one, two = results(fast, slow, **options)
    return one.samples_per_s / two.samples_per_s


# ---------------------------------------------------------------- answers


def test_a_name_alone_is_answered_with_stated_defaults() -> None:
    (found,) = results("RTX 3090")
    assert found.step_low_s < found.step_s < found.step_high_s
    assert {entry["name"] for entry in found.assumptions} >= {"precision", "optimizer", "stack", "cpu", "batch"}
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
    (pair,) = api.compare(["RTX 3090", "RTX 4090"], models=["resnet50"], batch="64", precision="amp").pairs
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
    assert "RTX 3090 step" in {row["name"] for row in own.assumptions} - {row["name"] for row in other.assumptions}


def test_a_measured_step_of_several_gpus_holds_their_communication_too() -> None:
    asked: dict[str, Any] = {"model": "bert-large", "precision": "amp", "gpus": 4}
    base, plain = results("RTX 3090", "RTX 4090", **asked)
    assert base.bound_fractions["communication"] > 0
    (told,) = results("RTX 4090", measured=[f"RTX 3090={base.step_s * 1e3}ms"], **asked)
    assert told.step_s == pytest.approx(plain.step_s, rel=1e-6)


def test_a_measured_gpu_with_an_ambiguous_name_is_said() -> None:
    (found,) = results("RTX 3090", measured=["a100=80ms"])
    assert "gpu 'a100'" in {entry["name"] for entry in found.assumptions}


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
    taken = [results("RTX 3090", power_limit=limit)[0].step_s for limit in ("350W", "250W", "150")]
    assert taken == sorted(taken)
    assert taken[-1] > taken[0]


def test_several_gpus_pay_for_communication() -> None:
    (one,), (many,) = results("RTX 3090", model="bert-large"), results("RTX 3090", model="bert-large", gpus=4)
    assert many.step_s >= one.step_s
    assert many.samples_per_s > 2 * one.samples_per_s
    assert many.bound_fractions["communication"] > 0


def test_several_gpus_say_what_their_gradients_cost() -> None:
    def said(**options: Any) -> dict[str, str]:
        (found,) = results("RTX 3090", gpus=4, **options)
        return {entry["name"]: entry["effect"] for entry in found.assumptions}

    assert said()["RTX 3090 averaging gradients"] == "hidden behind the backward pass"
    assert "% of the step" in said(model="bert-large")["RTX 3090 averaging gradients"]
    assert said(mode="infer")["gpus"] == "each runs samples of its own"


def test_a_phase_is_one_of_inference() -> None:
    (found,) = results("RTX 3090", model="llama-2-7b", phase="prefill")
    assert (found.mode, found.precision) == ("infer", "fp16")
    assert api.capture(api.capture_query(model="llama-2-7b", phase="decode")).workload.mode == "infer"


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("GTX 680", "CUDA 10.2 and PyTorch 1.3 (CUDA 10.0 build)"),
        ("K40", "CUDA 11.8 and PyTorch 1.12 (CUDA 10.2 build)"),
        ("K80", "CUDA 11.8 and PyTorch 2.7 (CUDA 11.8 build)"),
        ("GTX 970", "CUDA 12.9 and PyTorch 2.14 (CUDA 12.6 build)"),
        ("P100 PCIe 16GB", "CUDA 12.9 and PyTorch 2.14 (CUDA 12.6 build)"),
        ("V100 SXM 16GB", "CUDA 12.9 and PyTorch 2.14 (CUDA 12.6 build)"),
        ("MI25", "ROCm 4.5"),
    ],
)
def test_an_old_card_says_what_still_serves_it(name: str, last: str) -> None:
    arguments = ["predict", "resnet18", "--gpu", name, "--precision", "fp32", "--batch", "8"]
    (found,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)["results"]
    (said,) = (entry for entry in found["assumptions"] if entry["name"].endswith(" software"))
    assert said["value"] == f"nothing newer than {last}"
    for shown in (arguments, [*arguments, "--gpu", "RTX 3090"]):
        assert said["value"] in CliRunner().invoke(app, shown).output
    assert said in api.compare([name, "RTX 3090"], models=["resnet18"], precision="fp32").to_dict()["assumptions"]


def test_a_stack_newer_than_a_card_can_run_is_said_to_be_one() -> None:
    def effect(name: str, stack: str) -> str:
        (found,) = results(name, precision="fp32", stack=stack)
        return next(entry["effect"] for entry in found.assumptions if entry["name"].endswith(" software"))

    assert effect("K40", "torch-2.4") == "the times are as if torch-2.4 served it"
    assert effect("K40", "torch-1.12") == "newer releases no longer serve it"
    assert effect("GTX 970", "torch-2.4") == "newer releases no longer serve it"
    assert "no release" in effect("RX 5700 XT", "torch-2.4")


def test_a_current_card_has_no_such_note() -> None:
    (found,) = results("RTX 3090")
    assert not any(entry["name"].endswith(" software") for entry in found.assumptions)


def test_a_workload_file_tells_its_own_precision(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    api.capture(api.capture_query(model="resnet18", precision="fp32", output=path))
    (found,) = results("RTX 3090", model=str(path))
    assert found.precision == "fp32"
    assert "precision" not in {entry["name"] for entry in found.assumptions}
    with pytest.raises(BadValue, match="precision"):
        results("RTX 3090", model=str(path), precision="amp")


# ---------------------------------------------------------------- the loader


def test_a_host_that_cannot_decode_fast_enough_is_what_limits_the_step() -> None:
    (fast,) = results("RTX 4090", batch="128", precision="amp", image_decode=True, workers=2)
    assert fast.bound == "input"
    assert fast.lanes_s["input"] == pytest.approx(128 / fast.samples_per_s, rel=0.05)
    said = {entry["name"]: entry for entry in fast.assumptions}
    assert "images/s" in said["image loading"]["value"]
    assert said["image loading"]["basis"] == "assumed"
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
    (plain,) = results("RTX 3090", batch="128", precision="amp")
    (loaded,) = results("RTX 3090", batch="128", precision="amp", image_decode=True, workers=6)
    assert loaded.bound != "input"
    assert loaded.step_high_s > 1.1 * plain.step_high_s
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


def test_only_images_are_decoded() -> None:
    with pytest.raises(BadValue, match="takes no images"):
        results("RTX 3090", model="bert-base", image_decode=True)
    for options, says in (
        ({"workers": 4}, "--image-decode only"),
        ({"workers": 0, "image_decode": True}, "--workers 0"),
        ({"image_decode": True, "loader_samples_per_s": 100.0}, "--loader-samples-per-s"),
    ):
        with pytest.raises(BadValue, match=says) as caught:
            results("RTX 3090", **options)  # type: ignore[arg-type]
        assert caught.value.hint


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


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": "0"}, "batch of 0"),
        ({"batch": "-1"}, "batch of -1"),
        ({"batch": "1000000000000"}, "batch of 1,000"),
        ({"batch": "many"}, "no batch size"),
        ({"precision": "int4"}, "int4"),
        ({"precision": "fp7"}, "fp7"),
        ({"stack": "caffe-1.0"}, "caffe"),
        ({"cpu": "abacus"}, "abacus"),
        ({"pcie": "string and cans"}, "string"),
        ({"measured": ["412ms"]}, "measured"),
        ({"measured": ["RTX 3090=-3ms"]}, "-3"),
        ({"power_limit": "much"}, "much"),
        ({"power_limit": "0W"}, "held to 0 W"),
        ({"power_limit": "-5"}, "held to -5 W"),
        ({"power_limit": "60W"}, "100 to 350 W"),
        ({"gpus": 0}, "--gpus 0"),
        ({"seq": 0, "model": "bert-base"}, "--seq"),
        ({"image": 0}, "--image"),
        ({"accumulate": 0}, "micro-batches"),
        ({"loader_samples_per_s": float("nan")}, "nan"),
        ({"loader_samples_per_s": -1.0}, "-1"),
        ({"mode": "dream"}, "dream"),
    ],
)
def test_bad_values_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(GpuwiseError) as caught:
        results("RTX 3090", **options)
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_precision_the_gpu_lacks_is_an_error_with_what_it_has() -> None:
    with pytest.raises(BadValue, match="has no bf16") as caught:
        results("RTX 2080 Ti", precision="bf16")
    assert "amp" in caught.value.looked_in
    with pytest.raises(BadValue, match="has no fp8"):
        results("RTX 3090", precision="fp8", mode="infer")
    with pytest.raises(BadValue, match="has no tf32"):
        results("RTX 3090", "T4", precision="tf32")


def test_int4_is_refused_by_what_is_asked_of_it() -> None:
    with pytest.raises(BadValue, match="cannot be trained in int4"):
        results("RTX 3090", model="llama-2-7b", precision="int4")
    with pytest.raises(BadValue, match="'int4' is no precision"):
        results("RTX 3090", model="llama-2-7b", precision="int4", mode="infer")


def test_a_device_without_fp32_is_asked_in_what_it_has() -> None:
    (found,) = results("TPU v4", model="resnet18", batch="8")
    assert found.precision == "amp-bf16"
    with pytest.raises(BadValue, match="has no fp32"):
        results("TPU v4", model="resnet18", precision="fp32")


def test_a_gpu_without_a_needed_figure_is_refused() -> None:
    with pytest.raises(BadValue, match="also needs bw"):
        results("arch=ada,sm=60,boost=2.5GHz,mem=16GB")
    refused = next(name for name, reason in tables.refused_gpus().items() if reason)
    with pytest.raises(UnknownName) as caught:
        results(refused)
    assert "type its specs" in caught.value.hint


def test_a_limit_above_the_gpus_own_is_said_to_be_idle() -> None:
    (plain,), (high,) = results("RTX 3090"), results("RTX 3090", power_limit="500W")
    assert high.step_s == plain.step_s
    assert any(entry["name"] == "RTX 3090 power" for entry in high.assumptions)


def test_the_largest_batch_is_answered_with_no_and_a_finite_time() -> None:
    (found,) = results("RTX 3090", batch=str(2**31 - 1))
    assert not found.fits
    assert 0 < found.step_s < 1e9


def test_a_workload_hardly_understood_is_answered_with_a_warning_and_a_wide_range(tmp_path: Path) -> None:
    workload = api.capture(api.capture_query(model="resnet18", precision="fp32")).workload
    unknown = [replace(op, kind="other", name="mystery", sizes=op.sizes[:1], attrs={}) for op in workload.ops]
    kept = [op if place % 9 == 0 else unknown[place] for place, op in enumerate(workload.ops)]
    path = tmp_path / "odd.json"
    files.write(replace(workload, ops=tuple(kept)), path)
    answer = api.predict(api.predict_query(model=str(path), gpu=["RTX 3090"]))
    (found,) = answer.results
    assert found.coverage_fraction < 0.3
    assert found.step_high_s / found.step_low_s > 8
    assert any("mystery" in note and "wide" in note for note in answer.notes)
    done = CliRunner().invoke(app, ["predict", str(path), "--gpu", "RTX 3090"])
    assert done.exit_code == 0
    assert "note: only" in done.output
    assert json.loads(CliRunner().invoke(app, ["predict", str(path), "--gpu", "RTX 3090", "--json"]).output)["notes"]


def test_a_sequence_beyond_the_models_positions_is_refused() -> None:
    with pytest.raises(BadValue, match="1,024"):
        results("RTX 3090", model="gpt2", seq=5000)


def test_unknown_models_and_gpus_have_suggestions() -> None:
    with pytest.raises(UnknownName, match="resnet50"):
        results("RTX 3090", model="resnet5o")
    with pytest.raises(UnknownName):
        results("RTX 9999")
    with pytest.raises(BadValue, match="no GPU"):
        results()


@pytest.mark.parametrize("names", [["RTX 3090"], ["RTX 3090", "rtx3090"]])
def test_one_gpu_cannot_be_compared(names: list[str]) -> None:
    with pytest.raises(BadValue, match="two different"):
        api.compare(names)


def test_every_curated_gpu_can_be_asked() -> None:
    """Nothing in the catalogue lacks a figure that a prediction needs."""
    from gpuwise.api.question import supported

    for gpu in load_catalog().curated:
        precision = next((name for name in ("fp32", "bf16") if name in supported(gpu)), None)
        if precision is None:
            continue
        (found,) = results(gpu.name, precision=precision, model="resnet18", batch="8")
        assert 0 < found.step_s < 1e4, gpu.name
