"""Rows mean what their source ran: the head of a model, the tokens it scores, how its attention runs."""

from __future__ import annotations

from typing import Any

from gpuwise.evidence.e2e import Question, questions
from gpuwise.evidence.score import setting_of
from gpuwise.evidence.types import Table
from gpuwise.workload.model.evaluate import totals

ROW: dict[str, Any] = {
    "source": "neusight",
    "gpu": "A100 PCIe 40GB",
    "gpu_count": "1",
    "model": "gpt2-large",
    "framework": "torch",
    "framework_version": "2.1",
    "stack": "eager",
    "layout": "NA",
    "mode": "infer",
    "precision": "fp32",
    "optimizer": "",
    "batch_per_gpu": "4",
    "image_or_seq": "1024",
    "step_ms": "500",
}


def asked(*rows: dict[str, Any]) -> list[Question]:
    whole = [{**ROW, **row} for row in rows]
    table = Table(kind="e2e", columns={name: tuple(row[name] for row in whole) for name in ROW})
    found, reasons = questions(table, zoo_only=True)
    assert not reasons
    return found


def forward_flops(question: Question) -> float:
    return totals(question.workload, batch=question.batch, seq=question.seq).forward_flops


def test_neusight_scores_every_token_and_others_the_last() -> None:
    every, last = asked({}, {"source": "mine"})
    vocabulary, hidden, tokens = 50_257, 1280, 4 * 1024
    assert forward_flops(every) - forward_flops(last) == 2 * vocabulary * hidden * (tokens - 4)
    assert not setting_of(every)[0].stack.fused_attention


def test_neusight_infers_with_a_classifier_and_trains_with_scores_of_words() -> None:
    infer, train = asked({"model": "bert-large-uncased"}, {"model": "bert-large-uncased", "mode": "train"})
    assert infer.request.model == "bert-large-squad"
    assert train.request.model == "bert-large-uncased"


def test_the_bert_of_lambda_answers_questions_with_separate_attention_in_any_version() -> None:
    (found,) = asked(
        {
            "source": "lambda_pytorch",
            "model": "bert-base-uncased",
            "mode": "train",
            "framework_version": "2.5.0a0",
            "optimizer": "adam",
        }
    )
    assert found.request.model == "bert-base-squad"
    assert not setting_of(found)[0].stack.fused_attention


def test_rows_of_one_workload_share_it() -> None:
    first, second = asked({"stack": "compile"}, {"stack": "compile", "batch_per_gpu": "8"})
    assert first.workload is second.workload


def test_a_row_that_names_no_optimizer_has_the_usual_one_of_its_model() -> None:
    row = {"source": "mine", "model": "transformer-xl-base", "mode": "train", "image_or_seq": "192"}
    said = ("", "not stated", "none", "none (fwd+bwd only)", "sgd")
    found = asked(*({**row, "optimizer": optimizer} for optimizer in said))
    assert [question.request.settings.optimizer for question in found] == ["adam", "adam", "none", "none", "momentum"]
