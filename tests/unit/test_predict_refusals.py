"""What `predict` and `compare` refuse or warn of, and how they say it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.store import files


def results(*names: str, model: str = "resnet50", **options: Any) -> tuple[Prediction, ...]:
    return gpuwise.predict(model=model, gpu=names, **options).results


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": "0"}, "invalid batch size 0"),
        ({"batch": "-1"}, "invalid batch size -1"),
        ({"batch": "1000000000000"}, "invalid batch size 1,000"),
        ({"batch": "many"}, "invalid batch size 'many'"),
        ({"precision": "int4"}, "int4"),
        ({"precision": "fp7"}, "fp7"),
        ({"stack": "caffe-1.0"}, "caffe"),
        ({"cpu": "abacus"}, "abacus"),
        ({"pcie": "string and cans"}, "string"),
        ({"measured": ["412ms"]}, "measured"),
        ({"measured": ["RTX 3090=-3ms"]}, "-3"),
        ({"power_limit": "much"}, "much"),
        ({"power_limit": "0W"}, "0 W is below"),
        ({"power_limit": "-5"}, "-5 W is below"),
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


@pytest.mark.parametrize(
    ("given", "said"), [("1ns", r"it is 1/[\d,]+ of the predicted"), ("1000s", r"it is [\d,]+ times the pred")]
)
def test_a_measured_step_that_no_software_explains_is_refused(given: str, said: str) -> None:
    with pytest.raises(BadValue, match=said) as caught:
        gpuwise.predict(model="resnet50", gpu=["RTX 4090"], measured=[f"RTX 3090={given}"])
    assert "unit" in caught.value.hint


@pytest.mark.parametrize(("times", "doubted"), [(0.1, True), (0.5, False), (2.0, False), (10.0, True)])
def test_a_measured_step_far_from_the_prediction_is_doubted(times: float, doubted: bool) -> None:
    (plain,) = gpuwise.predict(model="resnet50", gpu=["RTX 3090"]).results
    own = [f"RTX 3090={plain.step_s * times * 1e3}ms"]
    (told,) = gpuwise.predict(model="resnet50", gpu=["RTX 3090"], measured=own).results
    assert any("differs greatly from the prediction" in note.effect for note in told.assumptions) == doubted


def test_a_precision_the_gpu_lacks_is_an_error_with_what_it_has() -> None:
    with pytest.raises(BadValue, match="does not support bf16") as caught:
        results("RTX 2080 Ti", precision="bf16")
    assert "supports only fp32, fp16 and amp" in caught.value.message
    with pytest.raises(BadValue, match="does not support fp8"):
        results("RTX 3090", precision="fp8", mode="infer")
    with pytest.raises(BadValue, match="does not support tf32"):
        results("RTX 3090", "T4", precision="tf32")


@pytest.mark.parametrize(
    ("model", "gpu", "says", "hint"),
    [
        ("resnet5O", "RTX 3090", "unknown model 'resnet5O'", "did you mean `resnet50`?"),
        ("resnet50", "3090xyz", "unknown GPU '3090xyz'", "did you mean `RTX 3090` or `RTX 3090 Ti`?"),
        (str(Path(__file__).parent), "RTX 3090", "is a folder, not a model", "config.json"),
        ("README.md", "RTX 3090", "is not a model file that gpuwise can read", "`my_model.py:Net`"),
    ],
)
def test_a_slip_in_a_name_gets_a_hint_that_helps(model: str, gpu: str, says: str, hint: str, tmp_path: Path) -> None:
    if model.endswith(".md"):
        model = str(tmp_path / model)
        Path(model).write_text("# A project")
    with pytest.raises(GpuwiseError) as caught:
        results(gpu, model=model)
    assert says in caught.value.message
    assert hint in caught.value.hint


def test_a_stack_that_replaces_the_one_asked_for_is_named_in_the_brief_answer() -> None:
    told = (
        CliRunner().invoke(app, ["predict", "resnet50", "--gpu", "RTX 5090", "--gpu", "GTX 970", "--stack", "torch-2.7"]).stdout
    )
    assert "assumptions: stack = torch-2.5 instead of torch-2.7," in told


def test_int4_is_refused_by_what_is_asked_of_it() -> None:
    with pytest.raises(BadValue, match="cannot be trained in int4"):
        results("RTX 3090", model="llama-2-7b", precision="int4", mode="train")
    with pytest.raises(BadValue, match="unknown precision 'int4'"):
        results("RTX 3090", model="resnet50", precision="int4", mode="infer")
    (found,) = results("RTX 3090", model="llama-2-7b", precision="int4", mode="infer")
    assert found.to_dict()["generation"]["weights"] == "int4"  # a language model generates text with packed weights


def test_a_device_without_fp32_is_asked_in_what_it_has() -> None:
    (found,) = results("TPU v4", model="resnet18", batch="8")
    assert found.precision == "amp-bf16"
    with pytest.raises(BadValue, match="does not support fp32"):
        results("TPU v4", model="resnet18", precision="fp32")


def test_a_gpu_without_a_needed_figure_is_refused() -> None:
    with pytest.raises(BadValue, match="also needs bw"):
        results("arch=ada,sm=60,boost=2.5GHz,mem=16GB")
    refused = next(name for name, reason in tables.refused_gpus().items() if reason)
    with pytest.raises(UnknownName) as caught:
        results(refused)
    assert "pass its specs" in caught.value.hint


def test_a_limit_above_the_gpus_own_is_said_to_be_idle() -> None:
    (plain,), (high,) = results("RTX 3090"), results("RTX 3090", power_limit="500W")
    assert high.step_s == plain.step_s
    assert any(entry.name == "RTX 3090 power" for entry in high.assumptions)


def test_the_largest_batch_is_answered_with_no_and_a_finite_time() -> None:
    (found,) = results("RTX 3090", batch=str(2**31 - 1))
    assert not found.fits
    assert 0 < found.step_s < 1e9


def test_a_workload_hardly_understood_is_answered_with_a_warning_and_a_wide_range(tmp_path: Path) -> None:
    workload = gpuwise.capture(model="resnet18", precision="fp32").workload
    unknown = [replace(op, kind="other", name="mystery", sizes=op.sizes[:1], attrs={}) for op in workload.ops]
    kept = [op if place % 9 == 0 else unknown[place] for place, op in enumerate(workload.ops)]
    path = tmp_path / "odd.json"
    files.write(replace(workload, ops=tuple(kept)), path)
    answer = gpuwise.predict(model=str(path), gpu=["RTX 3090"])
    (found,) = answer.results
    assert found.coverage_fraction < 0.3
    assert found.step_high_s / found.step_low_s > 8
    assert any("mystery" in note and "wide" in note for note in answer.notes)
    done = CliRunner().invoke(app, ["predict", str(path), "--gpu", "RTX 3090"])
    assert done.exit_code == 0
    assert "note: known ops account for only" in done.output
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
        gpuwise.compare(names)


def test_every_curated_gpu_can_be_asked() -> None:
    """Nothing in the catalogue lacks a figure that a prediction needs."""
    from gpuwise.hardware.types import supported

    for gpu in load_catalog().curated:
        precision = next((name for name in ("fp32", "bf16") if name in supported(gpu)), None)
        if precision is None:
            continue
        (found,) = results(gpu.name, precision=precision, model="resnet18", batch="8")
        assert 0 < found.step_s < 1e4, gpu.name


@pytest.mark.parametrize("name", ["wan-2.1", "ltx-video", "cogvideox", "stable-video-diffusion", "svd"])
def test_models_of_video_are_refused_with_what_can_be_asked(name: str) -> None:
    with pytest.raises(UnknownName, match="generate video") as fault:
        gpuwise.predict(name, gpu="RTX 4090")
    assert "sdxl" in fault.value.hint


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e300])
@pytest.mark.parametrize("name", ["samples", "epochs"])
def test_a_training_that_nobody_can_run_is_refused(name: str, value: float) -> None:
    with pytest.raises(BadValue, match=f"invalid --{name} "):
        gpuwise.predict("resnet50", gpu="RTX 3090", **{"samples": 10.0, name: value})


def test_a_name_that_no_file_can_have_is_refused_as_a_name() -> None:
    with pytest.raises(UnknownName, match="unknown model 'aaaa") as refused:
        gpuwise.matters("pcie-lanes", model="a" * 3000)
    assert len(str(refused.value)) < 1000
