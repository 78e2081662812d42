"""Rows of fine-tuning: what is read from them, and what their steps then hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuwise.evidence.today import score_today, today_questions
from gpuwise.evidence.tuned import Tuned, tuned_row
from gpuwise.evidence.types import Table

ROW = {
    "source": "universal_llm_trainer",
    "gpu": "A100 SXM 80GB",
    "gpu_count": "1",
    "model": "Llama 3.1 8B",
    "mode": "train",
    "precision": "bf16",
    "quantisation": "",
    "stack": "LoRA; torch 2.5.1, transformers 4.49, gradient checkpointing",
    "batch": "2",
    "size": "8192",
    "value": "36.0",
    "unit": "GiB",
    "note": "peak",
}
QWEN = {**ROW, "source": "qwen1_readme", "stack": "Q-LoRA; torch 2.0", "quantisation": "GPTQ int4 base"}
QWEN["note"] = "batch 1, gradient accumulation 8: one it = 8 micro-batches; gradient checkpointing on"


def table(*rows: dict[str, Any]) -> Table:
    return Table(kind="today", columns={name: tuple(row[name] for row in rows) for name in ROW})


def read(row: dict[str, str]) -> Tuned:
    found = tuned_row(row)
    assert isinstance(found, Tuned)
    return found


def test_a_row_is_read_with_what_its_source_does() -> None:
    lora, qlora = read(ROW), read(QWEN)
    assert (lora.method, lora.rank, lora.targets, lora.packed, lora.passes) == ("lora", 8, "qkv", "", 1)
    assert (qlora.method, qlora.rank, qlora.targets, qlora.packed, qlora.passes) == ("qlora", 64, "all", "gptq", 8)


def test_an_unknown_source_says_its_rank_itself() -> None:
    found = read({**ROW, "source": "somebody", "stack": "QLoRA; rank 32, gradient checkpointing"})
    assert (found.rank, found.packed, found.practice.checkpoint, found.practice.masked) == (32, "nf4", True, False)


@pytest.mark.parametrize(
    "changed",
    [{"stack": "LoRA (emb); torch 2.0"}, {"gpu_count": "4"}, {"quantisation": "AQLM base"}],
)
def test_what_a_row_does_not_describe_is_left_out(changed: dict[str, str]) -> None:
    found, reasons = today_questions(table({**ROW, **changed}))
    assert not found
    assert sum(reasons.values()) == 1


def test_training_without_a_method_is_no_such_row() -> None:
    assert tuned_row({**ROW, "stack": "torch 2.5"}) is None
    assert tuned_row({**ROW, "mode": "decode"}) is None


def test_measured_memory_of_adapters_is_met() -> None:
    (found,) = score_today(today_questions(table(ROW))[0])
    assert found.predicted_s == pytest.approx(found.measured_s, rel=0.08)


def test_a_step_is_asked_for_one_of_its_micro_batches() -> None:
    timed = {**QWEN, "unit": "ms_per_step", "value": "8000"}
    (row,), _ = today_questions(table(timed))
    assert row.question is not None
    assert row.question.measured_s == pytest.approx(1.0)
    (answer,) = score_today([row])
    assert answer.scale == 8e3


def test_unpacking_in_passes_takes_longer_than_one_kernel() -> None:
    timed = {**QWEN, "unit": "ms_per_step", "value": "8000", "size": "256"}
    passes, kernel = (
        score_today(today_questions(table({**timed, "quantisation": name}))[0])[0].predicted_s
        for name in ("GPTQ int4 base", "nf4 base")
    )
    assert passes > 1.5 * kernel


QLORA = {**ROW, "stack": "QLoRA; torch 2.5.1, gradient checkpointing", "quantisation": "nf4 base", "unit": "ms_per_step"}


def test_the_version_of_bitsandbytes_decides_the_type_of_packed_products() -> None:
    """Until 0.46, layers computed in the type of their input, whichever type was asked for."""
    assert read(QLORA).packed_in == "fp32"
    assert read({**QLORA, "gpu": "RTX PRO 6000 Blackwell"}).packed_in == "bf16"
    assert read(QWEN).packed_in == ""
    types = {}
    for gpu in ("A100 SXM 80GB", "RTX PRO 6000 Blackwell"):
        (row,), _ = today_questions(table({**QLORA, "gpu": gpu, "value": "30000"}))
        assert row.question is not None
        found = row.question.workload
        used = {call.op for call in found.calls}
        types[gpu] = {op.dtype for number, op in enumerate(found.ops) if op.name == "mm" and number in used}
    assert types == {"A100 SXM 80GB": {"fp32"}, "RTX PRO 6000 Blackwell": {"fp32", "bf16"}}  # the head has no packed weights


@pytest.mark.parametrize(("gpu", "value"), [("A100 SXM 80GB", 57600), ("H100 SXM 80GB", 26100)])
def test_products_in_fp32_explain_slow_qlora(gpu: str, value: int) -> None:
    """Published: 57.6 and 26.1 s a step."""
    (found,) = score_today(today_questions(table({**QLORA, "gpu": gpu, "value": str(value)}))[0])
    assert found.predicted_s == pytest.approx(found.measured_s, rel=0.15)


def test_attention_with_a_mask_is_slower_the_lower_its_rate() -> None:
    (row,), _ = today_questions(table({**ROW, "unit": "ms_per_step", "value": "11500"}))
    assert row.question is not None
    workload = row.question.workload

    def seconds(rate: float) -> float:
        ops = tuple(replace(op, attrs={**op.attrs, "rate": rate}) if "rate" in op.attrs else op for op in workload.ops)
        asked = replace(row, question=replace(row.question, workload=replace(workload, ops=ops)))
        return score_today([asked])[0].predicted_s

    assert seconds(0.25) > 1.2 * seconds(0.5)
