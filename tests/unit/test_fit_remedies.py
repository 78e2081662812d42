"""Every remedy of `fit` for a step that does not fit, and the ladder of them."""

from __future__ import annotations

from datetime import date

import pytest
from fit_cases import CASES, answer, case

import gpuwise
from gpuwise.advise.types import EFFECTS, Rung
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ways import Ways
from gpuwise.questions.fit.answer import FitAnswer
from gpuwise.questions.fit.text import render
from gpuwise.questions.fit.types import Fit

# Remedies that promise less memory at any size. Mixed precision keeps a second copy of the weights, layouts change nothing.
SAVING = (
    "bf16 8-bit-optimizer checkpoint offload adafactor sgd lora qlora int8 int4 shorter-sequence zero-1 zero-2 zero-3".split()
)
SAVING += ["split-layers", "split-matrices"]


@pytest.fixture(scope="module")
def overflowing() -> FitAnswer:
    """A language model on a card that is too small for it, on a given day: its remedies take seconds to work out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(money_prices, "today", lambda: date(2026, 11, 16))
        return gpuwise.fit(model="gpt2-xl", gpu=["RTX 3090"], batch="4")


def remedies(found: Fit) -> dict[str, Rung]:
    return {rung.name: rung for rung in found.advice.remedies}


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


def test_a_gpu_offered_instead_can_be_bought_or_is_said_to_be_rented(
    overflowing: FitAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))
    offered = {}
    for answered in (overflowing, gpuwise.fit(model="llama-2-7b", mode="train", gpu=["RTX 3090"])):
        found = answered.results[0]
        offered |= {rung.gpu: rung.title for rung in found.advice.remedies if rung.name == "bigger-gpu"}
    segments = {name: load_catalog().find(name).gpu.segment for name in offered}
    assert segments["RTX PRO 6000 Blackwell"] == "workstation"
    assert "datacenter" in segments.values()
    for name, title in offered.items():
        assert ("rented at $" if segments[name] == "datacenter" else "$") in title


def test_the_step_as_asked_is_the_first_row_among_the_remedies(overflowing: FitAnswer) -> None:
    found = overflowing
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
    assert "share the same memory" in shared["offload"]


def test_memory_of_several_gpus_does_not_add_up_by_itself() -> None:
    one, two = (answer("gpt2", batch="8", seq=512, precision="fp32", gpus=count) for count in (1, 2))
    assert two.memory.total_bytes >= one.memory.total_bytes
    assert remedies(two)["zero-3"].memory.total_bytes < remedies(two)["zero-1"].memory.total_bytes < two.memory.total_bytes
    assert remedies(two)["zero-3"].effect == "same"
    assert remedies(one)["zero-3"].effect == "hardware"


def test_one_gpu_is_exhausted_before_a_second_one_is_added() -> None:
    found = gpuwise.fit("llama-3-8b", gpu="RTX 4060", method="qlora")
    ladder = found.results[0].advice.ladder
    assert [rung.name for rung in ladder] == ["checkpoint", "shorter-sequence"]
    assert all(rung.gpu_count == 1 for rung in ladder)
    assert ladder[-1].fits
    assert "It BARELY FITS with checkpointing of all 32 blocks and sequences of" in render(found, width=400)
