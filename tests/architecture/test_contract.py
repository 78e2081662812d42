"""The JSON keys that scripts and the page rely on: they may be added to, never renamed or dropped."""

from __future__ import annotations

import csv
import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwise.surfaces.cli.app import app

ROOT = Path(__file__).parents[2]
EVERY = "assumptions data_date"
MEMORY = (
    "weight_bytes gradient_bytes optimizer_bytes activation_bytes workspace_bytes framework_bytes total_bytes"  # of a step's peak
)
# command -> where in its JSON -> the keys that stand there; `[]` is the first entry of a list
KEYS: dict[str, dict[str, str]] = {
    "predict resnet18 --gpu T4 --batch 8": {
        "": f"model results {EVERY}",
        "results[]": "gpu gpu_count mode precision batch step_s "
        "step_low_s step_high_s samples_per_s rate rate_unit bound bound_fractions memory "
        "fits coverage_fraction by_op assumptions",
        "results[].bound_fractions": "compute memory launch input copy communication",
        "results[].memory": MEMORY,
        "results[].by_op[]": "op count seconds bound",
        "results[].assumptions[]": "name value basis effect",
    },
    "predict llama-3-8b --weights q4_k_m --gpu 'RTX 3090'": {
        "": f"model results {EVERY}",
        "results[]": "gpu gpu_count step_s step_low_s step_high_s samples_per_s rate rate_unit ttft_s time_per_token_s "
        "tokens_per_s bound memory fits",
    },
    "predict sdxl --gpu 'RTX 4090'": {"results[]": "gpu step_s samples_per_s rate rate_unit memory fits"},
    "gpus 'RTX 3090'": {
        "": f"gpus {EVERY}",
        "gpus[]": "name aliases vendor architecture compute_capability sm_count boost_clock_hz memory_bytes usable_memory_bytes "
        "memory_bytes_per_s l2_bytes peak_dense_flops_per_s tdp_watts launched_on launch_usd curated sources",
        "gpus[].peak_dense_flops_per_s": "matrix vector",
        "gpus[].peak_dense_flops_per_s.matrix": "bf16 fp16 tf32 int8",
        "gpus[].peak_dense_flops_per_s.vector": "fp32 fp16",
    },
    "capture resnet18": {
        "": "model mode precision batch parameters forward_flops "
        "backward_flops optimizer_flops ops coverage_fraction unknown_ops "
        f"symbolic {EVERY}",
    },
    "fit gpt2-xl --gpu 'RTX 3090' --batch 1": {
        "": f"model gpu batch memory fits max_batch remedies {EVERY}",
        "memory": MEMORY,
        "remedies[]": "name max_batch memory_bytes step_s cost",
    },
    "compare 'RTX 3090' 'RTX 4090' --model resnet18": {
        "": f"pairs memory flips {EVERY}",
        "pairs[]": "gpu baseline workload precision ratio ratio_low ratio_high why",
    },
    "which --model resnet18 --budget 900": {
        "": f"verdict options rejected changes_if {EVERY}",
        "options[]": "gpu gpu_count source fits step_s samples_per_s upfront_usd total_usd usd_per_million_samples kg_co2e build "
        "reasons",
        "rejected[]": "gpu reason",
    },
    "why examples/slow_loader.json.gz": {
        "": f"files gpu step_s busy_fraction verdict findings abstained ranks {EVERY}",
        "findings[]": "code title seconds_per_step share_fraction gain_low gain_high confidence evidence remedy verify",
        "abstained[]": "code reason record_next",
    },
    "plan resnet18 --cluster '2x RTX 3090'": {
        "": f"model cluster plans rejected scaling {EVERY}",
        "plans[]": "data tensor pipeline expert sequence zero_stage "
        "micro_batch recompute step_s step_low_s step_high_s samples_per_s "
        "mfu_fraction memory exposed_comm_s bubble_fraction bound",
        "scaling[]": "gpu_count samples_per_s efficiency_fraction",
    },
    "cost --gpu 'RTX 3090'": {"": EVERY},
    "build --gpu 'RTX 3090'": {"": EVERY},
    "matters pcie-lanes": {"": EVERY},
}


@cache
def answer_of(command: str) -> dict[str, Any]:
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in shlex.split(command)]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def entry_at(answer: Any, where: str) -> Any:
    for part in filter(None, where.split(".")):
        answer = answer[part.removesuffix("[]")]
        if part.endswith("[]"):
            assert answer, f"{where} is empty: the case shows nothing"
            answer = answer[0]
    return answer


@pytest.mark.parametrize(
    ("command", "where"),
    [(command, where) for command, places in KEYS.items() for where in places],
    ids=lambda text: text or "top",
)
def test_the_keys_of_the_contract_stand_where_they_stood(command: str, where: str) -> None:
    assert set(KEYS[command][where].split()) - entry_at(answer_of(command), where).keys() == set()


def test_the_keys_of_validate_stand_where_they_stood(tmp_path: Path) -> None:
    table = ROOT / "src" / "gpuwise" / "evidence" / "data" / "measurements.csv"
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    few = [row for row in rows if row["model"] == "resnet18"][:6] or rows[:6]
    held_out = tmp_path / "e2e.csv"
    with held_out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(few)
    done = CliRunner().invoke(app, ["validate", "--held-out", str(held_out), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    wanted = (
        "table rows predicted skipped mean_ape median_ape p90_ape bias kendall_tau ratio_median_ape coverage_fraction baselines"
    )
    assert {*wanted.split(), "by", "residuals"} - found.keys() == set()
    assert set("row predicted low high measured".split()) - found["residuals"][0].keys() == set()
    assert {"gpu", "family", "source"} <= found["by"].keys()
