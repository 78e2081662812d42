"""`plan`: the names of the contract, axes a user fixes, refusals with reasons, small and mixed machines, what fits nowhere."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.common.runs import executors
from gpuwise.questions.common.runs.executors import executor_on
from gpuwise.questions.plan.text import render
from gpuwise.questions.plan.types import PlanAnswer
from gpuwise.questions.plan.words import describe_plan
from gpuwise.surfaces.cli.app import app

PLAN_KEYS = set(
    "data tensor pipeline expert sequence zero_stage micro_batch recompute step_s step_low_s step_high_s samples_per_s "
    "mfu_fraction memory exposed_comm_s bubble_fraction bound".split()
)
MEMORY_KEYS = set(
    "weight_bytes gradient_bytes optimizer_bytes activation_bytes workspace_bytes framework_bytes total_bytes".split()
)


@cache
def asked(model: str, cluster: str, **options: Any) -> PlanAnswer:
    return gpuwise.plan(model, cluster=cluster, **options)


def test_json_has_the_names_of_the_contract() -> None:
    result = CliRunner().invoke(
        app, ["plan", "gpt2", "--cluster", "2x2xRTX 3090", "--network", "25Gbit", "--batch", "32", "--json"]
    )
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {"model", "cluster", "plans", "rejected", "scaling", "assumptions", "data_date"} <= found.keys()
    assert 1 <= len(found["plans"]) <= 7
    for plan in found["plans"]:
        assert plan.keys() >= PLAN_KEYS
        assert plan["memory"].keys() >= MEMORY_KEYS
        assert plan["step_low_s"] < plan["step_s"] < plan["step_high_s"]
        assert plan["data"] * plan["tensor"] * plan["pipeline"] * plan["sequence"] == plan["gpu_count"]
        parts = (plan[name] for name in ("compute_s", "recompute_s", "update_s", "exposed_comm_s", "bubble_s", "wait_s"))
        assert sum(parts) == pytest.approx(plan["step_s"], rel=1e-6)
    for row in found["scaling"]:
        assert {"gpu_count", "samples_per_s", "efficiency_fraction"} <= row.keys()
    assert all({"reason", "count"} <= row.keys() for row in found["rejected"])


def test_text_says_what_to_do() -> None:
    answer = asked("gpt2", "4xRTX 3090", batch=64)
    text = render(answer, verbose=True)
    assert text.index("The fastest plan (") < text.index("Settings for") < text.index("samples/s", text.index("Settings for"))
    assert describe_plan(answer.entries[0]) in text
    assert "torchrun" in text


def test_gpipe_takes_as_long_and_holds_more() -> None:
    plain, all_at_once = (
        asked(
            "gpt2",
            "4xA100 SXM 80GB",
            batch=32,
            pipeline=4,
            chunks=1,
            micro_batch=2,
            recompute="none",
            schedule=name,
            scaling=False,
        )
        for name in ("1f1b", "gpipe")
    )
    one, other = plain.entries[0].estimate, all_at_once.entries[0].estimate
    assert other.step_s == one.step_s
    assert other.memory.activation_bytes > 2 * one.memory.activation_bytes
    assert any("ScheduleGPipe" in line for recipe in all_at_once.entries[0].recipes for line in recipe.lines)


def test_a_device_mesh_names_its_axes() -> None:
    answer = asked("gpt2", "4xA100 SXM 80GB", batch=16, tensor=2, data=2, zero=0, scaling=False)
    (lines,) = (recipe.lines for recipe in answer.entries[0].recipes if recipe.framework == "PyTorch device mesh")
    assert any("(2, 2), mesh_dim_names=('data', 'tensor')" in line for line in lines)


def test_large_batches_are_not_cut_small() -> None:
    answer = asked("mnist_cnn", "2xRTX 3090", batch=8192, data=2, zero=0)
    assert answer.entries[0].estimate.plan.micro_batch == 4096


def test_plans_come_fastest_first_and_one_is_the_simplest() -> None:
    answer = asked("gpt2", "8xA100 SXM 80GB", batch=128, precision="bf16")
    here = [entry for entry in answer.entries if entry.gpu_count == 8]
    assert here[0].estimate.step_s == min(entry.estimate.step_s for entry in here)
    assert sum("simplest within 5%" in entry.labels for entry in answer.entries) == 1
    assert "fastest" in answer.entries[0].labels
    assert any("fewest GPU-hours" in entry.labels for entry in answer.entries)


def test_the_simplest_plan_is_shown_however_many_are_faster() -> None:
    answer = asked("llama-2-7b", "4x8xH100 SXM", batch=256, precision="bf16")
    assert len(answer.entries) <= 7
    (easy,) = (entry for entry in answer.entries if "simplest within 5%" in entry.labels)
    assert easy.estimate.step_s <= 1.05 * answer.entries[0].estimate.step_s
    assert describe_plan(easy) in render(answer)


def test_one_plan_can_be_asked_for() -> None:
    answer = asked("gpt2", "8xA100 SXM 80GB", batch=64, data=2, tensor=2, pipeline=2, micro_batch=4, zero=1, recompute="full")
    for entry in answer.entries:
        plan = entry.estimate.plan
        if entry.gpu_count == 8:
            assert (plan.mesh.data, plan.mesh.tensor, plan.mesh.pipeline) == (2, 2, 2)
            assert (plan.micro_batch, plan.zero_stage, plan.recompute) == (4, 1, "full")
    flags = " ".join(line for recipe in answer.entries[0].recipes for line in recipe.lines)
    assert "--tensor-model-parallel-size 2" in flags
    assert "--recompute-granularity full" in flags


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "gpt2", "cluster": "6xA100 SXM 80GB", "tensor": 3, "link": ""}, ""),
        ({"model": "llama-2-7b", "cluster": "6xA100 SXM 80GB", "tensor": 3}, "32 attention heads cannot be divided evenly by 3"),
        ({"model": "gpt2", "cluster": "16xRTX 3090", "pipeline": 16}, "12 blocks are too few for 16 stages"),
        ({"model": "gpt2", "cluster": "2x2xRTX 3090", "network": "0Gbit"}, "0Gbit"),
        ({"model": "gpt2", "cluster": "what is this"}, "unknown GPU"),
        ({"model": "gpt2", "cluster": "1000000xH100 SXM"}, "more than gpuwise can plan for"),
        ({"model": "resnet50", "cluster": "2xRTX 3090", "tensor": 2}, "convolutions"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "tensor": 4, "data": 4}, "does not divide 4 GPUs"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "data": 4, "batch": 3}, "is not divisible by --data 4"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "batch": 64, "micro_batch": 7}, "cannot be split into micro-batches of 7"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "chunks": 2, "pipeline": 4}, "12 blocks cannot be split into 8 equal chunks"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "schedule": "random"}, "unknown schedule 'random'"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "schedule": "gpipe", "chunks": 2}, "only one chunk per stage"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "zero": 4}, "unknown ZeRO stage 4"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "recompute": "some"}, "unknown recomputation mode 'some'"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "batch": 0}, "invalid batch size 0"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "tensor": 0}, "invalid --tensor 0"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "on": "moon"}, "unknown executor 'moon'"),
        ({"model": "gpt2", "cluster": "4xRTX 3090", "mode": "infer"}, "supports only training"),
    ],
)
def test_what_cannot_be_planned_says_why(options: dict[str, Any], message: str) -> None:
    if not message:
        assert asked(**options).entries  # 12 heads do divide by 3
        return
    with pytest.raises(GpuwiseError) as refusal:
        asked(**options)
    assert message in str(refusal.value)
    assert refusal.value.hint


def test_a_model_that_fits_nowhere_is_answered_with_a_cluster_that_holds_it() -> None:
    answer = asked("llama-2-70b", "2xRTX 3090", precision="bf16", batch=2)
    assert not answer.fits
    assert answer.smallest is not None
    text, count = answer.smallest
    assert count > 2
    assert text in render(answer)
    assert asked("llama-2-70b", text, precision="bf16", batch=2, scaling=False).fits


def test_a_cluster_that_would_hold_it_does_so_with_the_same_options() -> None:
    options: dict[str, Any] = {"batch": 2, "data": 2, "zero": 0, "recompute": "none", "micro_batch": 1}
    answer = asked("gpt2-xl", "2x RTX 5090", **options)
    assert answer.smallest == ("4xRTX 5090", 4)  # 3 do not divide by --data 2
    assert asked("gpt2-xl", "4xRTX 5090", scaling=False, **options).fits


def test_options_that_rule_out_any_cluster_are_named() -> None:
    answer = asked("gpt2-xl", "2x RTX 5090", batch=2, data=2, tensor=1, pipeline=1, sequence=1, zero=0)
    assert answer.smallest is None
    assert "with the values you fixed (`--data`, `--tensor`, `--pipeline`, `--sequence`, `--zero`)" in " ".join(
        render(answer).split()
    )


def test_strict_exits_with_one_where_nothing_fits() -> None:
    command = ["plan", "llama-2-70b", "--cluster", "1xRTX 3090", "--precision", "bf16", "--strict"]
    assert CliRunner().invoke(app, command).exit_code == 1


def test_mixed_cards_get_samples_by_their_speed() -> None:
    link = "PCIe 4.0 x16, p2p"
    answer = asked("resnet50", "1x RTX 3090 + 1x RTX 2060", batch=64, link=link, zero=0, data=2)
    best = answer.entries[0]
    assert "samples in proportion to speed" in best.labels
    shares = dict(best.shares)
    assert sum(shares.values()) == 64
    assert shares["RTX 3090"] > shares["RTX 2060"]
    even = next(entry for entry in answer.entries if not entry.shares)
    assert best.estimate.step_s < even.estimate.step_s


def test_more_gpus_of_one_machine_are_never_said_to_do_more_than_perfect_by_much() -> None:
    answer = asked("resnet50", "4xRTX 3090", batch=256)
    shares = [row["efficiency_fraction"] for row in answer.scaling()]
    assert shares[0] == 1.0
    assert all(0.3 < share < 1.1 for share in shares)


def test_a_slow_network_is_named_as_what_would_help() -> None:
    answer = asked("bert-large-uncased", "2x2xRTX 3090", network="10Gbit", batch=64, pipeline=1)
    assert answer.entries[0].bound == "communication"
    assert any("Gbit network" in link.name and link.gain > 1.1 for link in answer.links)
    assert answer.separate is not None
    assert answer.separate.samples_per_s > answer.separate.one_job_samples_per_s


@pytest.mark.slow
def test_a_search_over_processes_finds_the_same() -> None:
    here, there = (asked("gpt2", "8xA100 SXM 80GB", batch=64, scaling=False, on=place) for place in ("", "processes:2"))
    assert [entry.estimate for entry in here.entries] == [entry.estimate for entry in there.entries]


def test_dask_without_dask_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    try:
        import distributed  # noqa: F401
    except ImportError:
        with pytest.raises(GpuwiseError, match="distributed") as refusal, executor_on("dask://localhost:8786"):
            pass
        assert refusal.value.hint == 'run `pip install "gpuwise[dask]"`'
    else:
        monkeypatch.setattr(executors, "_LONGEST_WAIT_S", 1)
        with pytest.raises(BadValue, match="no Dask scheduler"), executor_on("dask://localhost:1"):
            pass


@pytest.mark.parametrize(
    ("model", "gpu", "count", "batch"), [("resnet50", "RTX 2080 Ti", 4, 64), ("bert-large-uncased", "RTX 3090", 2, 16)]
)
def test_plain_data_parallel_takes_what_predict_says(model: str, gpu: str, count: int, batch: int) -> None:
    fixed = {"data": count, "zero": 0, "recompute": "none", "micro_batch": batch, "precision": "amp", "scaling": False}
    planned = asked(model, f"{count}x{gpu}", batch=count * batch, **fixed).entries[0].estimate
    query = predict_query(model=model, gpu=[gpu], gpus=count, batch=str(batch), precision="amp")
    assert planned.step_s == pytest.approx(predict_step(query).results[0].step_s, rel=1e-9)
    assert planned.exposed_comm_s > 0
    assert planned.wait_s > 0


def test_an_update_that_is_divided_does_not_make_memory_the_limit() -> None:
    alone = gpuwise.predict(model="gpt2-xl", gpu=["RTX 3090"], batch="1")
    best = asked("gpt2-xl", "2x8xRTX 3090", scaling=False).entries[0]
    assert best.estimate.plan.zero_stage == 1
    assert (alone.results[0].bound, best.bound) == ("memory", "compute")


def test_a_batch_that_does_not_divide_is_shared_nearly_evenly() -> None:
    answer = asked("resnet50", "3xRTX 2080 Ti", batch=512, precision="fp32")
    best = answer.entries[0]
    plan = best.estimate.plan
    assert (plan.mesh.data, plan.samples, best.samples) == (3, 512, 512)
    assert 0 < plan.short < plan.mesh.data * plan.micro_count
    assert "one sample fewer" in render(answer)
    assert [recipe.framework for recipe in best.recipes] == ["PyTorch DDP"]


def test_no_number_of_gpus_falls_behind_its_neighbours() -> None:
    rows = asked("resnet50", "4xRTX 2080 Ti", batch=512, precision="fp32").scaling()
    shares = [row["efficiency_fraction"] for row in rows]
    assert len(shares) == 4
    assert shares[2] > min(shares[1], shares[3]) - 0.02


def test_where_no_plan_is_possible_the_reason_is_told() -> None:
    answer = asked("resnet50", "4xRTX 3090", data=1, zero=2)
    assert not answer.fits
    assert "ZeRO-2: there is only one data rank" in render(answer)


def test_samples_by_speed_take_the_labels_of_slower_plans() -> None:
    first, *rest = asked("resnet50", "2x RTX 3090 + 1x RTX 2080 Ti", batch=300).entries
    assert "samples in proportion to speed" in first.labels
    assert not any("fastest" in entry.labels for entry in rest)
    near = [entry for entry in rest if "simplest within 5%" in entry.labels]
    assert all(entry.estimate.step_s <= 1.05 * first.estimate.step_s for entry in near)


@pytest.mark.parametrize(("cluster", "precision"), [("2x GTX 1080 Ti", "amp"), ("4x Tesla P40", "amp"), ("2x RTX 3090", "amp")])
def test_no_plan_uses_more_than_all_of_a_peak(cluster: str, precision: str) -> None:
    answer = gpuwise.plan("resnet50", cluster=cluster, precision=precision)
    assert all(0.0 < entry.mfu_fraction < 1.0 for entry in answer.entries)


def test_the_last_row_of_scaling_is_the_plan_that_was_asked_for() -> None:
    fixed = {"zero": 0, "pipeline": 1, "tensor": 1}
    answer = gpuwise.plan("bert-large", cluster="4x RTX 2080 Ti", **fixed)
    assert answer.scaling()[-1]["samples_per_s"] == pytest.approx(answer.entries[0].samples_per_s)


def test_the_gpu_that_is_meant_is_named() -> None:
    assert "A100 SXM 80GB" in CliRunner().invoke(app, ["plan", "bert-base", "--cluster", "4x A100"]).output


@pytest.mark.parametrize(
    ("model", "cluster"), [("llama-2-7b", "2x8xH100 SXM"), ("resnet50", "4xRTX 3090"), ("llama-2-70b", "2xRTX 3090")]
)
def test_a_brief_answer_is_short_and_a_verbose_one_has_the_recipes(model: str, cluster: str) -> None:
    answer = asked(model, cluster, precision="amp")
    lines = render(answer).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert ("torchrun" in render(answer, verbose=True)) == answer.fits


def test_where_adding_stops_paying_the_words_hold_for_the_figures() -> None:
    answer = asked("bert-large", "2x RTX 3090", batch=32)
    first, last = answer.scaling()
    assert answer.stops_at == 1
    assert 1 < last["samples_per_s"] / first["samples_per_s"] < 1.5
    assert "beyond 1 GPU, each additional GPU contributes less than half of its own speed at this batch size." in " ".join(
        render(answer).split()
    )


def test_any_number_of_gpus_is_asked_for_the_batch_of_the_question() -> None:
    answer = asked("llama-2-7b", "8x A100 SXM 80GB")
    assert {point.strong.samples for point in answer.points if point.strong} == {answer.batch}
    assert {entry.samples for entry in answer.entries} == {answer.batch}
    rows = {row["gpu_count"]: row["efficiency_fraction"] for row in answer.scaling()}
    assert all(rows[count] < 1.0 for count in (3, 5, 6, 7))  # which do not divide a batch of 8
