"""Rows of measured memory: understood, counted by reason, compared with what they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwise.evidence.memory import fitted_half, memory_baselines, memory_questions, predicted_bytes, score_memory
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Table
from gpuwise.step.memory.peak import memory_of
from gpuwise.workload.store import zoo

COLUMNS = (
    "source gpu gpu_count model family task method precision optimizer batch_per_gpu image_or_seq memory_mib kind note".split()
)
DEVICE, ALLOCATED = "max device memory during training", "peak allocated memory (torch)"
IMAGE = ["gpumemnet", "A100 40GB", "1", "resnet50", "resnet", "train", "full", "not stated", "not stated", "32", "not stated"]
LORA = ["litgpt", "A10G", "1", "llama-2-7b", "llama", "finetune", "lora", "bf16", "adamw", "2", "512", "18854", ALLOCATED, ""]


def table(*rows: list[str]) -> Table:
    return Table(kind="memory", columns={name: tuple(row[place] for row in rows) for place, name in enumerate(COLUMNS)})


def changed(row: list[str], **cells: str) -> list[str]:
    return [cells.get(name, value) for name, value in zip(COLUMNS, row, strict=True)]


def test_a_device_figure_is_compared_with_the_device_and_a_peak_with_what_is_allocated() -> None:
    device, allocated = [*IMAGE, "5229", DEVICE, ""], [*IMAGE, "3000", ALLOCATED, ""]
    asked, reasons = memory_questions(table(device, allocated), zoo_only=True)
    assert not reasons
    found = memory_of(asked[0].workload or zoo.load("resnet50"), 32, gpu=asked[0].gpu)
    assert predicted_bytes(asked[0]) == found.total_bytes
    assert predicted_bytes(asked[1]) == found.allocated_bytes
    assert [row.measured_s for row in score_memory(asked)] == [5229 * 2**20, 3000 * 2**20]


def test_the_optimizer_that_is_not_stated_is_momentum() -> None:
    asked, _ = memory_questions(table([*IMAGE, "5229", DEVICE, ""]), zoo_only=True)
    assert asked[0].workload is not None
    assert (asked[0].workload.optimizer, asked[0].workload.precision) == ("momentum", "fp32")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (changed(LORA, gpu="A100 40GB", gpu_count="2"), "sharded over several GPUs"),
        (changed(LORA, model="no-such-model"), "of unknown shape"),
        (changed(LORA, method="prefix"), "unknown method prefix"),
        (changed(LORA, precision="int3"), "unknown precision int3"),
        (changed(LORA, memory_mib=""), "no memory"),
        (changed(LORA, memory_mib="-3"), "no memory"),
        (changed(LORA, image_or_seq="some text"), "no sequence length"),
        (changed(LORA, source="diffusers_amused"), "diffusion model"),
        ([*changed([*IMAGE, "1", DEVICE, ""], gpu_count="2")], "several GPUs"),
        ([*changed([*IMAGE, "1", DEVICE, ""], task="infer")], "unknown task infer"),
    ],
)
def test_a_row_that_cannot_be_asked_is_counted_under_its_reason(row: list[str], reason: str) -> None:
    asked, reasons = memory_questions(table(row), zoo_only=True)
    assert asked == []
    assert [reason in text for text in reasons] == [True]


def test_recipes_on_a_machine_with_four_gpus_ran_on_one() -> None:
    asked, _ = memory_questions(table(LORA, changed(LORA, gpu_count="4")), zoo_only=True)
    assert predicted_bytes(asked[0]) == predicted_bytes(asked[1])


def test_the_longest_sample_of_alpaca_depends_on_the_tokenizer() -> None:
    names = ("phi-1.5 1.3 B", "Llama 2 7 B")
    rows = [changed(LORA, model=name, gpu="A100 40GB", image_or_seq="Alpaca (<=1079 tokens)") for name in names]
    rows += [changed(row, image_or_seq=tokens) for row, tokens in zip(rows, ("1044", "1304"), strict=True)]
    found = [predicted_bytes(entry) for entry in memory_questions(table(*rows), zoo_only=True)[0]]
    assert found[:2] == found[2:]


def test_half_of_the_families_may_be_fitted_and_the_choice_never_changes() -> None:
    families = "deit efficientnet ghostnet mnasnet mobilenet regnet resnet resnext vit".split()
    assert [name for name in families if fitted_half(name)] == "deit efficientnet ghostnet mnasnet regnet vit".split()


def test_rules_of_thumb_count_less_the_less_they_know() -> None:
    asked, _ = memory_questions(table([*IMAGE, "5229", DEVICE, ""]), zoo_only=True)
    found = memory_baselines(asked)
    assert list(found) == ["weights", "weights_gradients_optimizer", "live_tensors"]
    errors = [entry["median_ape"] for entry in found.values()]
    assert errors == sorted(errors, reverse=True)
    assert memory_baselines([]) == {}


def test_the_header_tells_a_table_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(LORA) + "\n", encoding="utf-8")
    assert read_table(path).kind == "memory"
