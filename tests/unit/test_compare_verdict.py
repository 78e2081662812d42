"""What `compare` says first and below its table: only what is true for each GPU, with its odds and caveats."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.units import GIB
from gpuwise.evidence.ranges import probability_above
from gpuwise.money import prices as money_prices
from gpuwise.questions.compare.jobs import COMMON_JOBS, SERVER_JOBS
from gpuwise.questions.compare.text import render
from gpuwise.questions.compare.types import CompareAnswer
from gpuwise.surfaces.cli.app import app

SERVERS = ["B200", "H100 SXM 80GB", "H200"]


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def assumed(answer: CompareAnswer) -> dict[str, str]:
    return {note.name: f"{note.value}: {note.effect}" for note in answer.assumptions}


def room(answer: CompareAnswer) -> str:
    (said,) = (note for note in (*answer.notes, *answer.flips) if "GiB" in note)
    return said


# ---------------------------------------------------------------- several GPUs


def test_the_first_line_ranks_all_gpus() -> None:
    verdict = gpuwise.compare(SERVERS).verdict
    first = verdict.split(".")[0]
    assert first.startswith("The B200 is the fastest, followed by the H200 (")
    assert "and the H100 SXM 80GB (" in first
    turned = gpuwise.compare(SERVERS[::-1]).verdict
    assert turned.startswith(first[:60])


def test_memory_thresholds_are_true_of_each_gpu() -> None:
    said = room(gpuwise.compare(SERVERS))
    assert said == (
        "models that need more than 80 GiB fit only on the H200 and the B200, "
        "and those that need more than 140 GiB only on the B200"
    )


@pytest.mark.parametrize(
    "names", list(combinations(["B200", "H100 SXM 80GB", "H100 NVL 94GB", "H200", "RTX 4090", "RTX 5090", "T4"], 4))[::7]
)
def test_no_gpu_is_denied_a_model_that_fits_it(names: tuple[str, ...]) -> None:
    answer = gpuwise.compare(names, model=["resnet18"])
    for clause in room(answer).split(" more than ")[1:]:
        least = float(clause.split(" GiB")[0])
        told = clause.split("only on")[1]
        for gpu in answer.gpus:
            gib = gpu.usable_memory_bytes / GIB
            assert (f"the {gpu.name}" in told) == (gib > least * 1.01), (gpu.name, clause)


def test_memory_of_sets_is_told_per_gpu() -> None:
    assert "more than 8 GiB per GPU" in room(gpuwise.compare(["4x RTX 2070", "2x RTX 2080 Ti"], model=["resnet18"]))


def test_what_fits_on_some_gpus_names_all_of_them() -> None:
    verdict = gpuwise.compare(["RTX 4060 8GB", "RTX 3090", "RTX 4090"]).verdict
    assert "LLM generation (llama-2-7b decode) fits only on the RTX 3090 and the RTX 4090" in verdict


def test_several_sets_are_ranked_for_one_job_and_for_separate_jobs() -> None:
    verdict = gpuwise.compare(["RTX 3090", "2x RTX 3090", "4x T4"], model=["resnet50"], batch="16").verdict
    assert verdict.startswith("With one job, 2x RTX 3090 are the fastest, followed by ")
    assert "; with separate jobs, 2x RTX 3090 are the fastest" in verdict


# ---------------------------------------------------------------- data-centre GPUs


def test_data_centre_gpus_run_batched_jobs_on_a_server() -> None:
    answer = gpuwise.compare(["H100 SXM 80GB", "B200"])
    told = assumed(answer)
    assert told["cpu"].startswith("server, like ")
    assert "data-centre" in told["workloads"]
    assert told["LLM serving"].startswith("128 users")
    assert [pair.workload for pair in answer.pairs] == [job.title for job in SERVER_JOBS]
    assert min(pair.batch for pair in answer.pairs) >= 8
    serving = answer.pairs[-1]
    assert "vLLM" in serving.workload
    assert serving.ratio > 1.4
    assert sorted(pair.ratio for pair in answer.pairs)[4] > 1.7


def test_a_host_that_was_given_is_used_for_data_centre_gpus() -> None:
    names = ["H100 SXM 80GB", "A100 SXM 80GB"]
    slow, usual = (gpuwise.compare(names, model=["mnist_cnn"], batch="8", cpu=cpu) for cpu in ("old quad-core", ""))
    assert "cpu" not in assumed(slow)
    assert assumed(usual)["cpu"].startswith("server")
    assert usual.pairs[0].why == "limited by the host, so a faster GPU hardly helps"


def test_a_data_centre_gpu_beside_a_desktop_card_runs_the_jobs_of_desktops() -> None:
    answer = gpuwise.compare(["H100 SXM 80GB", "RTX 4090"])
    assert [pair.workload for pair in answer.pairs] == [job.title for job in COMMON_JOBS]
    assert "because the RTX 4090 is not a data-centre GPU" in assumed(answer)["workloads"]
    assert assumed(answer)["cpu"].startswith("desktop")


def test_jobs_of_servers_shrink_until_they_fit() -> None:
    answer = gpuwise.compare(["T4", "L4"])
    found = {pair.workload.split(" (")[0]: pair for pair in answer.pairs}
    assert found["transformer training"].comparable
    assert found["transformer training"].batch < 64
    serving = found["LLM serving in vLLM"]
    assert (serving.baseline_fits, serving.fits) == (False, True)
    assert "users fits only on the L4" in answer.verdict


def test_an_engine_that_refuses_a_gpu_is_replaced_and_that_is_said() -> None:
    answer = gpuwise.compare(["P40", "V100 SXM 32GB"])
    assert not any("vLLM" in pair.workload for pair in answer.pairs)
    assert any(pair.workload.startswith("LLM generation (llama-3-8b decode)") for pair in answer.pairs)
    assert "does not run on the P40" in assumed(answer)["LLM serving"]
    assert "LLM serving = decoding in PyTorch" in " ".join(render(answer).split())


# ---------------------------------------------------------------- prices


def test_an_old_launch_price_is_no_price_of_today() -> None:
    answer = gpuwise.compare(["GTX 980 Ti", "RTX 4090"])
    base, deal = answer.deals
    assert (base.price_is_current, deal.price_is_current) == (False, True)
    assert deal.even_usd is None
    assert deal.value is None
    assert deal.even_ratio == pytest.approx(deal.speed)
    told = " ".join(answer.notes)
    assert "better buy" not in told
    assert "no current price is known for the GTX 980 Ti; by speed alone, the RTX 4090 is worth up to " in told
    assert "times the price of the GTX 980 Ti" in told


def test_an_estimated_price_is_current_and_told_as_an_estimate() -> None:
    answer = gpuwise.compare(["GTX 1080", "RTX 3090"])
    base, deal = answer.deals
    assert (base.price_is_current, deal.price_is_current) == (True, True)
    assert deal.even_usd == pytest.approx(deal.speed * (base.price_usd or 0))
    assert "(estimated used price in 2026-" in " ".join(answer.notes)


def test_a_price_of_two_years_is_current_until_the_day_after(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = gpuwise.compare(["RTX 5090", "RTX 5080"], model=["resnet18"]).deals[0]
    assert launched.price_is_current
    monkeypatch.setattr(money_prices, "today", lambda: date(2035, 1, 1))
    later = gpuwise.compare(["RTX 5090", "RTX 5080"], model=["resnet18"])
    assert not any(deal.price_is_current for deal in later.deals)
    assert "no current price is known for the RTX 5090 or the RTX 5080" in " ".join(later.notes)


def test_an_uncertain_speed_makes_no_better_buy() -> None:
    def told(gpus: list[str], usd: list[int]) -> str:
        return " ".join(gpuwise.compare(gpus, price=[f"{gpu}={one}" for gpu, one in zip(gpus, usd, strict=True)]).notes)

    amd = ["RX 7900 XTX", "RTX 4080"]
    said = told(amd, [777, 850])
    assert "the RX 7900 XTX costs $777 and the RTX 4080 costs $850" in said
    assert "which is $73 more for 8 GiB less memory" in said
    assert "better buy at any price below" not in said
    assert "which is $73 more for 8 GiB more memory" in told(amd, [850, 777])
    assert "which is $100 more for the same memory" in told(["RX 7900 XTX", "RTX 4090"], [900, 1000])
    assert "better buy at any price below" in told(amd, [777, 3000])
    assert "better buy at any price below" in told(["RTX 3090", "RTX 4080"], [777, 850])


def test_given_prices_make_a_better_buy() -> None:
    notes = gpuwise.compare(["RX 7900 XTX", "RTX 4090"], price=["RX 7900 XTX=800", "RTX 4090=3000"]).notes
    assert any("would be the better buy at any price below $" in note for note in notes)
    notes = gpuwise.compare(["RX 7900 XTX", "RTX 4090", "RTX 3090"], price=["RX 7900 XTX=800"]).notes
    (said,) = (note for note in notes if "to offer the same speed for the money" in note)
    assert said.startswith(
        "the RX 7900 XTX costs $800 (your price); to offer the same speed for the money, the RTX 4090 would have to cost $"
    )
    assert " and the RTX 3090 $" in said


# ---------------------------------------------------------------- doubt and odds


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("RTX 3090", "TPU v4"), "no Google TPU was measured"),
        (("RTX 4090", "M2 Ultra 76-core"), "no GPU of the M2 Ultra 76-core's generation was measured"),
        (("RX 7900 XTX", "RTX 4090"), "predictions for AMD GPUs are less accurate"),
        (("RTX 3090", "desktop CPU"), "no CPU was measured"),
    ],
)
def test_the_first_sentence_carries_its_doubt(names: tuple[str, str], reason: str) -> None:
    answer = gpuwise.compare(names)
    first, *rest = answer.verdict.split(". ")
    assert f", but {reason}, so the true ratio may be anywhere from " in first
    assert all(text.startswith("At current prices, ") for text in rest)


def test_the_better_buy_is_named_with_the_memory_that_speaks_against_it() -> None:
    cheap = gpuwise.compare(["RTX 5070 Ti", "RTX 3090"], price=["RTX 5070 Ti=800", "RTX 3090=1100"])
    assert cheap.verdict.endswith(
        "At these prices, the RTX 5070 Ti offers more speed for the money, unless your models need more than 16 GiB."
    )
    assert cheap.deals[1].value is not None
    assert cheap.deals[1].value < 1
    turned = gpuwise.compare(["RTX 5070 Ti", "RTX 3090"], price=["RTX 5070 Ti=1500", "RTX 3090=600"])
    assert turned.verdict.endswith("At these prices, the RTX 3090 offers more speed for the money.")


def test_a_speed_with_layers_on_the_cpu_sets_no_price() -> None:
    answer = gpuwise.compare(["RTX 5090", "RTX PRO 6000"], model=["llama-3-70b"], weights="q4_k_m")
    assert answer.pairs[0].helped
    assert answer.deals[1].even_usd is None
    assert "for the money" not in answer.verdict
    assert "better buy" not in str(answer)


def test_measured_gpus_need_no_doubt() -> None:
    verdict = gpuwise.compare(["RTX 2080 Ti", "RTX 4090"]).verdict
    assert verdict.startswith("The RTX 4090 is ")
    assert "probably" not in verdict
    assert "but" not in verdict


def test_a_ranking_with_an_unmeasured_gpu_says_how_far_off_it_may_be() -> None:
    verdict = gpuwise.compare(["H100 SXM 80GB", "MI300X", "B200"]).verdict
    first = verdict.split(". ")[0]
    assert (
        "but no GPU of the MI300X's generation was measured, so the estimated speed of the MI300X may be off by a factor of "
        in first
    )


def test_doubts_about_several_gpus_are_joined() -> None:
    verdict = gpuwise.compare(["M1 Max 32-core", "M2 Ultra 76-core", "MI300X"]).verdict
    first = verdict.split(". ")[0]
    assert "but no GPU of the same generation as the M2 Ultra 76-core or the MI300X was measured and " in first
    assert "so all these estimates may be off by a factor of up to " in first
    assert "but no Google TPU and no CPU was measured, so" in gpuwise.compare(["TPU v4", "desktop CPU"]).verdict


def test_the_probability_is_that_of_a_log_normal_error() -> None:
    assert probability_above(0.5, 2.0) == pytest.approx(0.5)
    assert probability_above(1.0, 1.5) == pytest.approx(0.9)
    assert probability_above(0.5, 1.0) == pytest.approx(0.1)
    assert probability_above(0.8, 1.6) + probability_above(1 / 1.6, 1 / 0.8) == pytest.approx(1.0)
    assert probability_above(1.6, 3.2, value=2.0) == pytest.approx(probability_above(0.8, 1.6))
    assert [probability_above(same, same) for same in (0.9, 1.0, 1.1)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("middle", [0.7, 0.84, 0.99, 1.0, 1.01, 1.5])
def test_the_probability_agrees_with_the_median(middle: float) -> None:
    found = probability_above(0.58, 1.8, middle=middle)
    assert (found > 0.5) == (middle > 1)
    assert (found < 0.5) == (middle < 1)
    assert probability_above(1.0, 3.0, middle=1.2) == pytest.approx(0.9)
    assert probability_above(0.3, 1.0, middle=0.9) == pytest.approx(0.1)
    assert probability_above(0.58, 1.8, middle=math.sqrt(0.58 * 1.8)) == pytest.approx(probability_above(0.58, 1.8))


def test_every_pair_has_its_probability() -> None:
    done = CliRunner().invoke(app, ["compare", "RTX 3090", "RTX 4090", "T4", "--json"], catch_exceptions=False)
    for pair in json.loads(done.stdout)["pairs"]:
        assert pair["probability"] == pytest.approx(
            probability_above(pair["ratio_low"], pair["ratio_high"], middle=pair["ratio"])
        )


def test_a_tie_is_called_one_with_its_odds() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 4070 Ti Super"], model=["resnet50"])
    (pair,) = answer.pairs
    chance = max(pair.probability, 1 - pair.probability)
    assert chance < 2 / 3
    assert " are tied: " in answer.verdict
    assert f"{chance:.0%} likely to be faster" in answer.verdict


def test_an_order_that_is_only_likely_says_how_likely() -> None:
    verdict = gpuwise.compare(["RTX 3090", "RTX 4070 Ti"]).verdict
    assert verdict.startswith("The RTX 3090 is probably faster than the RTX 4070 Ti on ")
    assert "% likely to be faster on average)" in verdict
    verdict = gpuwise.compare(["M1 Pro 16-core", "M3 Max 40-core", "M4 Pro 20-core"]).verdict
    assert re.search(r"The M3 Max 40-core is 7\d% likely to be faster than the M4 Pro 20-core; ", verdict)
    assert "likely" not in gpuwise.compare(["GTX 1080 Ti", "RTX 3090", "RTX 5090"]).verdict


# ---------------------------------------------------------------- precision


def test_apple_gpus_run_16_bit_beside_gpus_that_do() -> None:
    answer = gpuwise.compare(["M2 Ultra 76-core", "RTX 4090"])
    assert {pair.precision for pair in answer.pairs} == {"amp", "fp16", "fp32"}
    assert assumed(answer)["precision"].startswith("16-bit")
    (alone,) = gpuwise.compare(["M1 Max 32-core", "M2 Ultra 76-core"], model=["resnet50"], mode="infer").pairs
    assert alone.precision == "fp16"


def test_16_bit_on_an_apple_gpu_is_no_slower_and_halves_what_decoding_reads() -> None:
    def seconds(precision: str, **more: str) -> float:
        found = gpuwise.predict(gpu="M2 Ultra 76-core", precision=precision, **more).results[0]  # type: ignore[arg-type]
        return float(found.step_s)

    decode = {"model": "llama-2-7b", "mode": "infer", "phase": "decode", "batch": "1"}
    assert 1.5 < seconds("fp32", **decode) / seconds("fp16", **decode) < 2.1
    assert seconds("amp", model="bert-base") <= seconds("fp32", model="bert-base") * 1.01


def test_a_gpu_without_fast_16_bit_keeps_fp32_and_the_answer_says_why() -> None:
    answer = gpuwise.compare(["RTX 3090", "GTX 1080"])
    assert any(pair.precision == "fp32 against amp" for pair in answer.pairs)
    told = "the GTX 1080 runs in fp32, because 16-bit arithmetic is no faster on it"
    assert any(note.startswith(told) for note in answer.notes)
    assert told in " ".join(render(answer).split())


def test_a_device_without_fp32_is_compared_in_what_both_have() -> None:
    answer = gpuwise.compare(["TPU v4", "RTX 3090"])
    assert {pair.precision for pair in answer.pairs} == {"amp-bf16", "bf16"}
    assert "left out: the TPU v4 cannot run fp32" in assumed(answer)["fp32 jobs"]
    assert "fp32 jobs = left out" in render(answer)


# ---------------------------------------------------------------- length


@pytest.mark.parametrize(
    "names",
    [
        SERVERS,
        ["K80", "P100 PCIe 16GB", "V100 SXM 16GB"],
        ["M2 Ultra 76-core", "RTX 4090", "RX 7900 XTX"],
        ["RTX 3090", "GTX 1080", "RTX 5090"],
        ["3x H100 SXM 80GB", "2x B200"],
        ["TPU v4", "MI300X", "T4", "GTX 960M"],
    ],
)
def test_a_brief_answer_stays_short(names: list[str]) -> None:
    lines = render(gpuwise.compare(names)).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100


def test_where_precision_decides_the_order_the_first_sentence_says_so() -> None:
    answer = gpuwise.compare(["GTX 1080 Ti", "RTX 2060"])
    mixed = [pair.ratio for pair in answer.pairs if pair.comparable and pair.precision.startswith(("amp", "fp16"))]
    won, lost = [one for one in mixed if one > 1], [one for one in mixed if one <= 1]
    plain = [pair.ratio for pair in answer.pairs if pair.precision == "fp32"]
    assert (len(won), len(lost), max(plain) < 1) == (4, 1, True)
    assert answer.verdict.startswith("With mixed precision (amp, a few lines in PyTorch), the RTX 2060 is ")
    most = f"{max(won):.2f}" if max(won) < 2 else f"{max(won):.1f}"
    assert f"{min(won):.2f} to {most} times as fast as the GTX 1080 Ti (small CNN: " in answer.verdict
    assert f": {lost[0]:.2f} times); in fp32, it is {min(plain):.2f} to {max(plain):.2f} times" in answer.verdict
    assert gpuwise.compare(["RTX 2060", "GTX 1080 Ti"]).verdict == answer.verdict
    assert "mixed precision" not in gpuwise.compare(["GTX 1080 Ti", "RTX 4090"]).verdict  # faster in both


def test_ended_support_is_a_note() -> None:
    answer = gpuwise.compare(["GTX 1080 Ti", "RTX 2060"])
    said = "releases after CUDA 12.9 and PyTorch 2.14 do not support the GTX 1080 Ti"
    assert said in answer.notes
    assert f"note: {said}" in render(answer).replace("\n  ", " ")
    assert not any("do not support" in note for note in gpuwise.compare(["RTX 2060", "RTX 3090"], model=["resnet18"]).notes)
    both = gpuwise.compare(["GTX 1080 Ti", "GTX 1060 6GB"], model=["resnet18"]).notes
    assert any("do not support the GTX 1080 Ti and the GTX 1060 6GB" in note for note in both)


def test_a_card_without_cuda_is_told_beside_one_with_it() -> None:
    answer = gpuwise.compare(["RX 7900 XTX", "RTX 4080"])
    said = "the RX 7900 XTX needs software for ROCm, and some libraries support only CUDA"
    assert said in answer.notes
    assert said in render(answer).replace("\n  ", " ")
    assert "16 GiB fit only on the RX 7900 XTX" in render(answer)
    for alike in (["RX 7900 XTX", "RX 6900 XT"], ["RTX 4090", "RTX 4080"]):
        assert not any("CUDA" in note for note in gpuwise.compare(alike, model=["resnet50"]).notes)


def test_a_server_module_is_told_beside_a_card_with_the_price_of_its_card() -> None:
    (said,) = (note for note in gpuwise.compare(["A100 40GB", "RTX 4090"], model=["resnet50"]).notes if "module" in note)
    assert said.startswith(
        "the A100 SXM 40GB is a module for servers, not a card; the most similar card is the A100 PCIe 40GB ($"
    )
    assert not any("module" in note for note in gpuwise.compare(["H100", "H200"], model=["resnet50"]).notes)


def test_a_reason_tells_why_the_gain_is_less_than_the_bandwidth() -> None:
    (pair,) = gpuwise.compare(["H100", "H200"], model=["llama-3-8b"], users=64).pairs
    assert pair.ratio < 1.3
    assert "1.43 times the bandwidth" in pair.why
    assert ", but the host limits " in pair.why


def test_a_reason_tells_why_the_gain_is_more_than_the_bandwidth() -> None:
    answer = gpuwise.compare(["M4 Max", "RTX 4090"], model=["llama-3-8b"])
    (pair,) = answer.pairs
    assert pair.ratio > 2
    assert "1.85 times the bandwidth of the M4 Max 40-core and uses 1." in pair.why
    assert "that was measured with llama.cpp" not in answer.verdict  # several Macs were


def test_a_maker_with_a_single_measured_gpu_is_named() -> None:
    answer = gpuwise.compare(["Arc A770 16GB", "RTX 4090"], model=["llama-3-8b"], weights="q4_k_m")
    assert "the Arc Pro B70 is the only Intel GPU that was measured with llama.cpp" in answer.verdict


def test_cards_that_work_one_after_another_are_told_apart_from_those_that_share_each_token() -> None:
    in_turn, at_once = (
        gpuwise.compare(["4x RTX 3090", "RTX A6000"], model=["llama-3-70b"], weights=weights) for weights in ("q4_k_m", "int4")
    )
    note = "llama.cpp runs the GPUs of 4x RTX 3090 one after another"
    assert any(text.startswith(note) for text in in_turn.key_notes)
    assert not any("one after another" in text for text in at_once.key_notes)
    assert at_once.pairs[0].ratio < in_turn.pairs[0].ratio


# ---------------------------------------------------------------- a decision in every case, in one direction


def test_the_table_of_two_puts_the_faster_one_first_as_the_verdict_does() -> None:
    for names in (["RTX 5060 Ti 16GB", "GTX 1070"], ["GTX 1070", "RTX 5060 Ti 16GB"]):
        answer = gpuwise.compare(names)
        shown = " ".join(render(answer).split())
        assert "RTX 5060 Ti 16GB compared with GTX 1070" in shown
        assert answer.pairs[0].baseline == names[0]  # the data keep the order of the question
        ratio = max(answer.pairs[0].ratio, 1 / answer.pairs[0].ratio)
        assert f"{ratio:.2f}x" in shown
        assert "fits on one only" in shown


def test_a_card_that_new_software_leaves_behind_is_not_recommended_for_its_price() -> None:
    told = gpuwise.compare(["RTX 5060 Ti 16GB", "GTX 1070"], price=["RTX 5060 Ti 16GB=554", "GTX 1070=72"])
    assert "but it is not recommended, because new releases of CUDA and PyTorch do not support it" in told.verdict
    assert not any("better buy" in note for note in told.notes)


def test_three_cards_with_prices_end_in_one_that_offers_the_most() -> None:
    names, prices = ["B200", "H100", "H200"], ["B200=47500", "H100 SXM 80GB=11500", "H200=24500"]
    told = gpuwise.compare(names, price=prices).verdict
    assert told.endswith(
        "At these prices, the H100 SXM 80GB offers the most speed for the money, unless your models need more than 80 GiB."
    )


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (100, "2x RTX 3090 offer more speed for the money, in one job and in separate jobs."),
        (9_000, "the RTX 4090 offers more speed for the money, in one job and in separate jobs."),
    ],
)
def test_two_small_cards_or_a_large_one_are_weighed_by_price(usd: float, said: str) -> None:
    told = gpuwise.compare(["2x RTX 3090", "RTX 4090"], price=[f"RTX 3090={usd}", "RTX 4090=2400"]).verdict
    assert told.endswith(f"At these prices, {said}")


def test_the_machine_for_many_cards_counts_in_the_better_buy() -> None:
    told = gpuwise.compare(["4x RTX 2080 Ti", "RTX A6000"], price=["RTX 2080 Ti=270", "RTX A6000=3400"]).verdict
    assert "At these prices, including $520 for a larger machine, 4x RTX 2080 Ti offer more speed" in told
    assert told.endswith("unless your models need more than 11 GiB on each GPU.")


def test_an_uncertain_speed_still_ends_in_a_choice() -> None:
    told = gpuwise.compare(["RX 7900 XTX", "RTX 4080"], price=["RX 7900 XTX=777", "RTX 4080=850"]).verdict
    choice = (
        "Choose the RTX 4080, whose speed is better known, unless you have tested your software on the RX 7900 XTX and want "
        "its lower price or its larger memory."
    )
    assert told.endswith(choice)
