"""fp8: which products run in it, what is held in it, and what that saves."""

from __future__ import annotations

import json
from functools import cache

import pytest
from typer.testing import CliRunner

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.prediction.ways import as_computed
from gpuwise.step.memory.peak import memory_of
from gpuwise.step.time.setting import default_stack
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import call_counts, op_flops, product_values
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo

SETTING = Setting(stack=default_stack(compiled=True), host=find_host("server"))


@cache
def loaded(model: str, precision: str, phase: str = "") -> Workload:
    settings = Settings(mode="infer", precision=precision, optimizer="none")
    return as_computed(zoo.load(model, Request(model=model, phase=phase, settings=settings)))


def seconds(workload: Workload, gpu: str, batch: float, seq: float) -> float:
    return float(simulate(workload, [load_catalog().find(gpu).gpu], SETTING, batch=batch, seq=seq).lanes["gpu"][0, 0])


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt2", "opt-1.3b", "bert-base-uncased", "mixtral-8x7b"])
def test_weights_of_the_blocks_are_held_in_eight_bits(model: str) -> None:
    phase = "" if model.startswith("bert") else "decode"
    wide, low = (memory_of(loaded(model, precision, phase)).weight_bytes for precision in ("bf16", "fp8"))
    assert 0.5 * wide < low < 0.75 * wide  # embeddings and the last layer stay as they are


def test_products_with_weights_run_in_fp8_and_all_else_as_before() -> None:
    wide, low = loaded("llama-3-8b", "bf16", "prefill"), loaded("llama-3-8b", "fp8", "prefill")
    assert {op.dtype for op in low.ops if op.kind == "attention"} == {"bf16"}
    flops = op_flops(low, product_values(low))[0] * call_counts(low).sum(axis=0)
    by_type = {dtype: sum(flops[[op.kind == "matmul" and op.dtype == dtype for op in low.ops]]) for dtype in ("bf16", "fp8")}
    assert by_type["fp8"] > 9 * by_type["bf16"]
    wide_flops = op_flops(wide, product_values(wide))[0] @ call_counts(wide).sum(axis=0)
    assert flops.sum() == pytest.approx(wide_flops)
    last = [low.ops[call.op] for call in low.calls if low.ops[call.op].kind == "matmul"][-1]
    assert last.dtype == "bf16"  # the scores of the vocabulary


def test_an_input_is_cast_once_for_all_products_that_read_it() -> None:
    low = loaded("llama-3-8b", "fp8", "decode")
    names = [low.ops[call.op].name for call in low.calls]
    assert names.count("quantise") == 32 * 4  # of attention's input and result, and of the MLP's


def test_decoding_reads_half_the_weights() -> None:
    wide, low = (seconds(loaded("llama-3-8b", precision, "decode"), "RTX 4090", 1, 512) for precision in ("bf16", "fp8"))
    assert 0.5 < low / wide < 0.75


def test_prefill_is_faster_where_fp8_is() -> None:
    for gpu in ("H100 SXM 80GB", "L40S", "RTX 4090"):
        wide, low = (seconds(loaded("llama-3-8b", precision, "prefill"), gpu, 4, 2048) for precision in ("bf16", "fp8"))
        assert 0.45 < low / wide < 0.85, gpu


def test_the_memory_of_a_step_holds_the_smaller_weights() -> None:
    wide, low = (memory_of(loaded("llama-3-8b", precision, "decode"), 1, 512).total_bytes for precision in ("bf16", "fp8"))
    assert wide - low > 6e9


def test_predict_answers_so_and_refuses_gpus_without_fp8() -> None:
    asked = ["predict", "llama-3-8b", "--mode", "infer", "--phase", "prefill", "--batch", "4", "--json"]
    answers = [CliRunner().invoke(app, [*asked, "--gpu", "L40S", "--precision", precision]) for precision in ("bf16", "fp8")]
    wide, low = (json.loads(answer.stdout)["results"][0] for answer in answers)
    assert low["step_s"] < 0.85 * wide["step_s"]
    assert low["memory"]["weight_bytes"] < 0.6 * wide["memory"]["weight_bytes"]
    refused = CliRunner().invoke(app, [*asked, "--gpu", "A100", "--precision", "fp8"])
    assert refused.exit_code != 0
    assert "does not support fp8" in str(refused.exception)


def test_a_model_without_such_products_says_so() -> None:
    assert any("runs in bf16" in note for note in loaded("resnet50", "fp8").notes)


def test_what_is_in_fp8_already_stays_as_it_is() -> None:
    low = loaded("gpt2", "fp8", "decode")
    assert as_computed(low) is low
