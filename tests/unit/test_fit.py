"""`fit`: the verdict, the largest batch, every remedy, the ladder, and what is refused."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from asking import catalogue_query
from gpuwise.advise.types import EFFECTS, Rung
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.engine.choices import Choices
from gpuwise.engine.ways import Ways
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.questions.fit.answer import FitAnswer
from gpuwise.questions.fit.catalogue import fit_catalogue
from gpuwise.questions.fit.figure import memory_figure
from gpuwise.questions.fit.text import render
from gpuwise.questions.fit.types import Fit
from gpuwise.render.chart import Bars
from gpuwise.surfaces.cli.app import app

SMALL = "name=Small,arch=ampere,sm=40,boost=1.7GHz,mem=6GB,bw=400GB/s,tdp=170W"
# Remedies that promise less memory at any size. Mixed precision keeps a second copy of the weights, layouts change nothing.
SAVING = (
    "bf16 8-bit-optimizer checkpoint offload adafactor sgd lora qlora int8 int4 shorter-sequence zero-1 zero-2 zero-3".split()
)
SAVING += ["split-layers", "split-matrices"]


@cache
def answer(model: str, gpu: str = SMALL, **options: Any) -> Fit:
    (found,) = gpuwise.fit(model=model, gpu=(gpu,), **options).results
    return found


CASES: dict[str, dict[str, Any]] = {
    "images": {"model": "resnet50", "batch": "128", "precision": "fp32"},
    "language": {"model": "gpt2", "batch": "8", "seq": 512, "precision": "fp32"},
    "generating": {"model": "llama-3.2-3b", "mode": "infer", "precision": "bf16", "phase": "decode", "seq": 1024},
}


def verdict(model: str, gpu: str = SMALL, **options: Any) -> Fit:
    """Without remedies, which take their time."""
    return answer(model, gpu, remedies=False, **options)


def case(name: str) -> Fit:
    return answer(**CASES[name])


def remedies(found: Fit) -> dict[str, Rung]:
    return {rung.name: rung for rung in found.advice.remedies}


# ---------------------------------------------------------------- the verdict


def test_time_and_memory_are_those_of_predict() -> None:
    found = verdict("resnet50", "RTX 3090")
    (predicted,) = gpuwise.predict(model="resnet50", gpu=("RTX 3090",)).results
    assert found.step_s == pytest.approx(predicted.step_s)
    assert found.memory == predicted.memory
    assert found.fits == predicted.fits


@pytest.mark.parametrize("name", CASES)
def test_the_largest_batch_fits_and_the_next_does_not(name: str) -> None:
    options = {key: value for key, value in CASES[name].items() if key != "batch"}
    most = case(name).max_batch
    assert most == 0 or verdict(**options, batch=str(most)).fits
    assert not verdict(**options, batch=str(most + 1)).fits
    assert case(name).safe_batch <= most


def test_auto_takes_the_largest_batch() -> None:
    found = verdict("gpt2", batch="auto", seq=256)
    assert found.batch == found.max_batch > 0
    assert found.fits
    assert verdict("gpt2", batch="auto", seq=512).batch < found.batch


def test_near_the_edge_the_verdict_is_a_probability() -> None:
    most = verdict("resnet50", batch="auto").max_batch
    chances = [verdict("resnet50", batch=str(round(most * share))).probability for share in (0.5, 0.8, 1.0, 1.2, 2.0)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.95
    assert chances[-1] < 0.05
    assert 0.1 < chances[2] < 0.9


def test_a_little_too_much_may_still_get_through() -> None:
    most = verdict("resnet50", batch="auto").max_batch
    above, far = (verdict("resnet50", batch=str(round(most * share))) for share in (1.03, 2.0))
    assert not above.fits
    assert above.survives
    assert not far.survives


def test_a_desktop_on_the_gpu_leaves_less() -> None:
    assert verdict("resnet50", display=True).max_batch < verdict("resnet50").max_batch


def test_options_of_the_step_are_modelled_on_zoo_models_too() -> None:
    plain = verdict("gpt2", batch="8", seq=512, precision="fp32")
    assert verdict("gpt2", batch="8", seq=512, precision="fp32", checkpoint=True).memory.total_bytes < plain.memory.total_bytes
    assert verdict("gpt2", batch="8", seq=512, precision="fp32", accumulate=4).memory.total_bytes < plain.memory.total_bytes


# ---------------------------------------------------------------- remedies


@pytest.mark.parametrize("name", CASES)
def test_a_remedy_that_promises_memory_never_needs_more(name: str) -> None:
    found = case(name)
    for rung in found.advice.remedies:
        if rung.name in SAVING:
            tensors = rung.memory.total_bytes - rung.memory.communication_bytes  # more GPUs also need buffers for messages
            assert tensors <= 1.02 * found.memory.total_bytes, rung.name
            assert rung.max_batch >= found.max_batch or rung.memory.communication_bytes, rung.name


@pytest.mark.parametrize("name", CASES)
def test_every_remedy_is_answered_or_says_why_not(name: str) -> None:
    found = case(name)
    named = {rung.name for rung in found.advice.remedies} | {refused for refused, _ in found.advice.not_applicable}
    assert named >= {
        *SAVING,
        "amp",
        "compile",
        "channels-last",
        "fused-optimizer",
        "flash-attention",
        "accumulate",
        "smaller-image",
        "bigger-gpu",
    }
    assert all(reason for _, reason in found.advice.not_applicable)
    costs = [rung.cost for rung in found.advice.remedies]
    assert costs == sorted(costs)
    for rung in found.advice.remedies:
        assert rung.effect in EFFECTS
        assert rung.step_s > 0
        assert rung.fits == (rung.memory.total_bytes <= (found.room.usable_bytes if rung.name != "bigger-gpu" else 1e15))


@pytest.mark.parametrize("name", CASES)
def test_the_ladder_goes_down_and_ends_with_a_fit(name: str) -> None:
    found = case(name)
    assert not found.fits
    peaks = [rung.memory.total_bytes for rung in found.advice.ladder]
    assert peaks
    assert all(later < earlier for earlier, later in zip([found.memory.total_bytes, *peaks], peaks, strict=False))
    assert found.advice.ladder[-1].fits
    assert found.advice.ladder[-1].max_batch >= found.batch


def test_a_ladder_holds_no_rung_that_the_others_make_needless() -> None:
    """Micro-batches are tried on the way up; with recomputed blocks behind them they have nothing left to do."""
    found = answer("bert-large", "RTX 2070", batch="32")
    assert [rung.name for rung in found.advice.ladder] == ["compile", "8-bit-optimizer", "checkpoint"]


def test_one_rewriting_serves_every_number_of_micro_batches_and_sequence_length() -> None:
    workload = gpuwise.capture("gpt2", batch=4, precision="amp").workload
    ways = Ways(lambda choices: workload)
    one, two, four = (ways.way(Choices(precision="amp", accumulate=parts)) for parts in (1, 2, 4))
    assert two.workload is four.workload is not one.workload
    assert (two.choices.accumulate, four.choices.accumulate) == (2, 4)


def test_what_fits_needs_no_ladder_and_no_other_gpu() -> None:
    found = answer("resnet50", "RTX 3090")
    assert found.advice.ladder == ()
    assert "bigger-gpu" not in remedies(found)


def test_recomputing_and_cutting_cost_time_and_keep_the_result() -> None:
    found = remedies(case("images"))
    assert found["checkpoint"].cost > 1.05
    assert found["accumulate"].cost > 1.0
    assert {found[name].effect for name in ("checkpoint", "accumulate", "compile")} == {"same"}


def test_no_more_blocks_are_recomputed_than_it_takes() -> None:
    options = {"batch": "80", "precision": "fp32"}
    found = remedies(answer("resnet50", **options))["checkpoint"]
    assert found.fits
    assert "16 of 16" not in found.title


def test_a_slower_link_makes_offload_dearer() -> None:
    fast, slow = (
        remedies(answer("gpt2", batch="8", seq=512, precision="fp32", pcie=link))["offload"]
        for link in ("PCIe 4.0 x16", "PCIe 3.0 x4")
    )
    assert slow.cost > fast.cost
    assert slow.memory == fast.memory


def test_the_gpu_offered_instead_holds_the_step() -> None:
    found = case("images")
    offered = [rung for rung in found.advice.remedies if rung.name == "bigger-gpu"]
    assert offered
    for rung in offered:
        assert rung.gpu != found.gpu.name
        assert rung.fits
        assert load_catalog().find(rung.gpu).gpu.usable_memory_bytes >= rung.memory.total_bytes


def test_a_gpu_offered_instead_can_be_bought_or_is_said_to_be_rented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))
    offered = {}
    for model in ("gpt2-xl", "llama-2-7b"):
        found = gpuwise.fit(model=model, gpu=["RTX 3090"]).results[0]
        offered |= {rung.gpu: rung.title for rung in found.advice.remedies if rung.name == "bigger-gpu"}
    segments = {name: load_catalog().find(name).gpu.segment for name in offered}
    assert segments["RTX PRO 6000 Blackwell"] == "workstation"
    assert "datacenter" in segments.values()
    for name, title in offered.items():
        assert ("rented at $" if segments[name] == "datacenter" else "$") in title


def test_the_step_as_asked_is_the_first_row_among_the_remedies() -> None:
    found = gpuwise.fit(model="gpt2-xl", gpu=["RTX 3090"], batch="4")
    rows = render(found).splitlines()
    title = next(place for place, line in enumerate(rows) if line.startswith("  remedy"))
    asked, *_ = found.results
    assert rows[title + 1].split()[:3] == ["unchanged", f"{asked.memory.total_bytes / 2**30:.1f}", "GiB"]
    assert rows[title + 1].split()[-1] == "1.00x"
    assert f"({found.to_dict()['ladder'][-1]['cost']:.2f}x the time)" in "\n".join(rows)
    fits = [" yes " in line for line in rows[title + 2 : rows.index("", title) - 1]]
    assert any(fits)
    assert fits == sorted(fits, reverse=True), "what fits stands first"


def test_old_software_without_fused_attention_needs_more_and_flash_attention_mends_it() -> None:
    new, old = (
        answer("gpt2", "V100 SXM2 32GB", batch="16", seq=1024, precision="amp", stack=stack)
        for stack in ("torch-2.4", "torch-1.13")
    )
    assert old.memory.total_bytes > 1.1 * new.memory.total_bytes
    mended = remedies(old)["flash-attention"]
    assert mended.memory.total_bytes == pytest.approx(new.memory.total_bytes, rel=0.001)
    assert ("flash-attention", "attention already runs as one kernel") in new.advice.not_applicable


def test_what_a_gpu_cannot_run_is_not_offered() -> None:
    found = answer("resnet50", "GTX 1060 6GB")
    refused = dict(found.advice.not_applicable)
    assert "bf16" in refused["bf16"]
    assert "Triton" in refused["compile"]
    shared = dict(answer("bert-base-uncased", "M2 Max 38-core", precision="fp32").advice.not_applicable)
    assert "host's memory" in shared["offload"]


# ---------------------------------------------------------------- several GPUs, generating


def test_memory_of_several_gpus_does_not_add_up_by_itself() -> None:
    one, two = (answer("gpt2", batch="8", seq=512, precision="fp32", gpus=count) for count in (1, 2))
    assert two.memory.total_bytes >= one.memory.total_bytes
    assert remedies(two)["zero-3"].memory.total_bytes < remedies(two)["zero-1"].memory.total_bytes < two.memory.total_bytes
    assert remedies(two)["zero-3"].effect == "same"
    assert remedies(one)["zero-3"].effect == "hardware"


def test_contexts_follow_from_the_cache_of_the_model() -> None:
    found = verdict("llama-3.2-1b", "RTX 3090", mode="infer", precision="bf16", seq=1024).serving
    assert found is not None
    assert found.cache_bytes_per_token == 2 * 16 * 8 * 64 * 2  # keys and values, layers, heads, their width, bytes
    assert found.users_paged > found.users_reserved > 0
    longer = verdict("llama-3.2-1b", "RTX 3090", mode="infer", precision="bf16", seq=2048).serving
    assert longer is not None
    assert longer.users_paged == pytest.approx(found.users_paged / 2, rel=0.1)
    assert longer.users_reserved == found.users_reserved


def test_a_model_that_does_not_generate_has_no_contexts() -> None:
    assert verdict("resnet50", "RTX 3090", mode="infer").serving is None


# ---------------------------------------------------------------- the command


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fit", *arguments])


def test_json_has_the_keys_of_the_contract() -> None:
    done = run("resnet50", "--gpu", "RTX 3090", "--json")
    found = json.loads(done.output)
    assert found.keys() >= {
        "model",
        "gpu",
        "batch",
        "memory",
        "fits",
        "max_batch",
        "remedies",
        "not_applicable",
        "ladder",
        "assumptions",
        "data_date",
    }
    assert "results" not in found
    for remedy in found["remedies"]:
        assert remedy.keys() >= {"name", "max_batch", "memory_bytes", "step_s", "cost"}
    parts = [
        value
        for key, value in found["memory"].items()
        if key.split("_")[0] in "weight gradient optimizer activation workspace framework".split()
    ]
    assert sum(parts) == pytest.approx(found["memory"]["total_bytes"])


def test_several_gpus_are_listed_and_the_first_stands_on_top() -> None:
    found = json.loads(run("lenet5", "--gpu", "RTX 3090", "--gpu", "T4", "--json").output)
    assert [result["gpu"] for result in found["results"]] == ["RTX 3090", "T4"]
    assert found["gpu"] == "RTX 3090"
    assert found["max_batch"] == found["results"][0]["max_batch"]


def test_strict_says_no_by_its_exit_code() -> None:
    small = ("resnet50", "--gpu", SMALL, "--no-remedies")
    assert run(*small, "--batch", "512", "--strict").exit_code == 1
    assert run(*small, "--batch", "512").exit_code == 0
    assert run(*small, "--batch", "8", "--strict").exit_code == 0


def test_the_language_model_that_overflows_is_told_in_one_screen() -> None:
    done = run("gpt2-xl", "--gpu", "RTX 3090", "--batch", "4", "--seq", "1024", "--precision", "amp")
    assert done.exit_code == 0
    lines = done.output.rstrip().splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert "DOES NOT FIT" in done.output
    assert "until the model fits" in done.output


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        (["resnet50"], BadValue, "no GPU"),
        (["resnet50", "--gpu", "RTX 9999"], UnknownName, "unknown GPU"),
        (["resnot50", "--gpu", "RTX 3090"], UnknownName, "unknown model"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "0"], BadValue, "invalid batch size"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "99999999999"], BadValue, "invalid batch size"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "many"], BadValue, "invalid batch size 'many'"),
        (["resnet50", "--gpu", "RTX 3090", "--gpus", "0"], BadValue, "invalid --gpus 0"),
        (["resnet50", "--gpu", "RTX 2080 Ti", "--precision", "bf16"], BadValue, "does not support bf16"),
        (["gpt2", "--gpu", "RTX 3090", "--seq", "5000"], BadValue, "supports at most"),
        (["resnet50", "--all", "--gpu", "RTX 3090"], BadValue, "both"),
    ],
)
def test_bad_questions_are_refused(arguments: list[str], error: type[Exception], part: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, error)
    assert part in str(done.exception)


def test_a_batch_that_cannot_be_counted_is_refused() -> None:
    with pytest.raises(BadValue, match="more than can be addressed"):
        verdict("llama-3-8b", "RTX 3090", batch="2147483647", seq=8192, precision="amp")


def test_a_workload_file_says_what_it_decides_itself(tmp_path: Path) -> None:
    path = tmp_path / "net.json.gz"
    assert CliRunner().invoke(app, ["capture", "lenet5", "--batch", "32", "-o", str(path)]).exit_code == 0
    (found,) = gpuwise.fit(model=str(path), gpu=("RTX 3090",)).results
    assert found.max_batch > 32
    assert "sets its own run options" in dict(found.advice.not_applicable)["amp"]


def test_a_cpu_is_a_device_whose_memory_is_the_system_s() -> None:
    found = verdict("resnet50", "cpu", precision="fp32")
    assert found.room.shared
    (predicted,) = gpuwise.predict(model="resnet50", gpu=("cpu",), precision="fp32").results
    assert found.step_s == pytest.approx(predicted.step_s)


def test_the_figure_shows_what_the_answer_says(tmp_path: Path) -> None:
    figure = memory_figure(FitAnswer(model="gpt2", results=(case("language"),), notes=(), data_date=date(2026, 1, 1)))
    (panel,) = figure.panels
    assert isinstance(panel, Bars)
    held = {bar.label: sum(segment.value for segment in bar.segments) for bar in panel.bars}
    found = case("language")
    assert held["the step"] == pytest.approx(found.memory.total_bytes / 2**30)
    assert held[found.gpu.name] == pytest.approx(found.room.usable_bytes / 2**30)
    assert held[found.advice.ladder[-1].title] == pytest.approx(found.advice.ladder[-1].memory.total_bytes / 2**30)
    path = tmp_path / "memory.svg"
    assert run("lenet5", "--gpu", "RTX 3090", "--gpu", "T4", "--no-remedies", "--figure", str(path)).exit_code == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")


# ---------------------------------------------------------------- the catalogue


def test_the_whole_catalogue_agrees_with_single_answers() -> None:
    whole = fit_catalogue(catalogue_query(model="resnet50", precision="amp"))
    assert len(whole.results) == len(load_catalog().curated)
    rows = {row.gpu.name: row for row in whole.results}
    for name in ("RTX 3090", "H100 SXM 80GB", "GTX 1060 6GB", "M2 Max 38-core", "T4"):
        alone = verdict("resnet50", name, precision="amp")
        assert rows[name].max_batch == alone.max_batch
        assert rows[name].memory == alone.memory
        assert rows[name].fits == alone.fits
        assert rows[name].step_s == pytest.approx(alone.step_s, rel=0.01)


def test_the_catalogue_is_shown_by_memory() -> None:
    done = run("resnet50", "--all")
    assert done.exit_code == 0
    assert "largest batch" in done.output
    assert len(json.loads(run("resnet50", "--all", "--json").output)["results"]) == len(load_catalog().curated)
