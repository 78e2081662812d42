"""What `plan` recommends on random small clusters: never slower than one GPU alone, and in agreement with its own rows."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

import pytest

import gpuwise
from gpuwise.questions.common import plan_case
from gpuwise.questions.plan import answer as plan_answer
from gpuwise.questions.plan.text import render
from gpuwise.questions.plan.types import FASTEST, PlanAnswer
from gpuwise.questions.plan.words import describe_verdict, format_rate
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.search import WITHIN
from gpuwise.scale.plans.types import Mesh, Plan

CARDS = ("RTX 4090", "RTX 3060 12GB", "RTX 2080 Ti", "GTX 1080 Ti")
NETWORKS = ("", "1Gbit", "100Gbit")
BATCHES = (48, 512)
MODEL: dict[str, Any] = {"model": "mnist_cnn", "precision": "fp32"}  # small, so that hundreds of plans take seconds
CASES = 38  # of each of four parts


@pytest.fixture
def _price_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of the same cards and micro-batches share what their kernels cost; faster links are another question."""

    def costs(**given: Any) -> Costs:
        key = (given["gpu"].name, *given["sizes"].batches.tolist())
        return _PRICED.setdefault(key, Costs(**given))

    monkeypatch.setattr(plan_case, "Costs", costs)
    monkeypatch.setattr(plan_answer, "faster_links", lambda *_: ())


_PRICED: dict[tuple[Any, ...], Costs] = {}


def _cluster(draw: random.Random) -> tuple[str, str]:
    """A cluster and its network as a user could write them: like cards, nodes, or different cards."""
    form = draw.choice(("one node", "nodes", "mixed", "mixed", "machines"))
    first, *others = draw.sample(CARDS, draw.choice((2, 2, 3)))
    if form == "one node":
        return f"{draw.randint(1, 4)}x{first}", draw.choice(NETWORKS)
    if form == "nodes":
        return f"2x{draw.randint(1, 2)}x{first}", draw.choice(NETWORKS)
    text = draw.choice((" + ", ", ")).join(f"{draw.choice((1, 1, 2))}x {card}" for card in (first, *others))
    return text, draw.choice(NETWORKS[1:]) if form == "machines" else ""


@cache
def _alone(card: str, batch: int) -> float:
    """Samples per second of one card that nothing is planned around."""
    return gpuwise.plan(**MODEL, cluster=f"1x{card}", batch=batch).recommended.samples_per_s


def _claims(answer: PlanAnswer) -> None:
    """Every number of the verdict comes from a row of the answer."""
    best, rows, lines = answer.recommended, answer.scaling(), render(answer).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    said = " ".join(describe_verdict(answer))
    assert f"{format_rate(best.samples_per_s)} samples/s" in said
    assert sum(FASTEST in entry.labels for entry in answer.entries) == 1
    assert FASTEST in answer.fastest.labels
    assert WITHIN * best.samples_per_s >= answer.fastest.samples_per_s
    grown = re.search(r"GPUs are (\d+\.\d+) times as fast as (?:one|the|\dx)", said)
    if grown:
        assert float(grown[1]) == pytest.approx(best.samples_per_s / rows[0]["samples_per_s"], abs=0.006)
    if best.gpu_count < answer.cluster.gpu_count:
        assert said.startswith("Use ")
        assert answer.on_all is not None
        part = re.search(r"together reach (\d+)% of that speed", said)
        if part:
            assert float(part[1]) == pytest.approx(100 * answer.on_all.samples_per_s / best.samples_per_s, abs=0.51)
        else:
            assert "together are only" in said
    apart = re.search(
        r"which is (?:(\d+\.\d+) times|(\d+)% of) the throughput of one run on all GPUs \(([\d,.]+)", render(answer)
    )
    if apart and answer.separate and answer.on_all:
        assert apart[3] == format_rate(answer.on_all.samples_per_s)


@pytest.mark.usefixtures("_price_once")
@pytest.mark.parametrize("part", range(4))
def test_no_recommended_plan_is_slower_than_one_gpu(part: int) -> None:
    draw = random.Random(part)  # noqa: S311
    for _ in range(CASES):
        (text, network), batch = _cluster(draw), draw.choice(BATCHES)
        answer = gpuwise.plan(**MODEL, cluster=text, network=network, batch=batch)
        cards = [gpu.name for gpu, _ in parse_cluster(text)[0].kinds]
        best = max(_alone(card, batch) for card in cards)
        assert answer.recommended.samples_per_s >= best * (1 - 1e-9), (text, network, batch)
        _claims(answer)


# ---------------------------------------------------------------- single questions


@cache
def _asked(model: str, cluster: str, **options: Any) -> PlanAnswer:
    return gpuwise.plan(model, cluster=cluster, **options)


def _verdict(answer: PlanAnswer) -> str:
    return " ".join(describe_verdict(answer))


def test_mixed_cards_are_compared_with_the_best_of_them() -> None:
    answer = _asked("resnet50", "1x RTX 4090 + 1x RTX 2080 Ti")
    alone = _asked("resnet50", "1x RTX 4090", batch=answer.batch)
    first, last = answer.scaling()
    assert (first["gpu"], first["samples_per_s"]) == ("RTX 4090", pytest.approx(alone.recommended.samples_per_s, rel=0.01))
    assert "times as fast as the RTX 4090 alone" in _verdict(answer)
    rates = [_alone_rate(card, answer.batch) for card in ("RTX 4090", "RTX 2080 Ti")]
    assert last["efficiency_fraction"] == pytest.approx(last["samples_per_s"] / sum(rates), rel=0.01)


def _alone_rate(card: str, batch: int) -> float:
    return _asked("resnet50", f"1x {card}", batch=batch).recommended.samples_per_s


def test_a_card_that_only_slows_the_others_down_is_left_out() -> None:
    answer = _asked("resnet50", "2x RTX 3090 + GTX 1050 Ti", network="10Gbit")
    best = answer.recommended
    assert (best.gpu, best.gpu_count) == ("RTX 3090", 2)
    assert answer.entries[0] is best
    assert _verdict(answer).startswith("Use 2x RTX 3090 alone (2-way data parallelism")
    assert any("fastest on all GPUs" in entry.labels for entry in answer.entries)


def test_a_card_too_small_for_the_model_does_not_rule_out_the_others() -> None:
    answer = _asked("gpt2", "RTX 3090 + GTX 1050 2GB", zero=0, pipeline=1, tensor=1, sequence=1)
    assert answer.fits
    assert (answer.recommended.gpu, answer.on_all) == ("RTX 3090", None)
    assert "No plan on both GPUs fits in memory." in _verdict(answer)


def test_a_model_too_large_for_all_cards_is_measured_against_the_smallest() -> None:
    answer = _asked("llama-2-70b", "RTX 3090 + RTX 3060 8GB", batch=2, precision="fp32")
    assert not answer.fits
    assert "but the smallest GPU can safely use only" in _verdict(answer)


def test_a_slow_network_leaves_one_gpu() -> None:
    answer = _asked("gpt2", "2x1xRTX 3090", network="1Gbit")
    best = answer.recommended
    assert best.gpu_count == 1
    assert answer.to_dict()["plans"][answer.to_dict()["recommended"]]["gpu_count"] == 1
    assert _verdict(answer).startswith("Use one GPU (2 micro-batches of 8")
    assert "Both GPUs together reach 39% of that speed" in _verdict(answer)
    assert "hardly slows" not in render(answer)


def test_a_plan_that_the_user_fixed_comes_first_but_is_not_recommended_where_one_gpu_is_faster() -> None:
    answer = _asked("gpt2", "2x1xRTX 3090", network="1Gbit", data=2, scaling=False)
    assert answer.entries[0].estimate.plan.mesh.data == 2
    assert answer.recommended.gpu_count == 1
    assert _verdict(answer).startswith("Use one GPU")


def test_data_parallelism_with_any_setting_is_simpler_than_a_divided_model() -> None:
    data = Plan(mesh=Mesh(data=2), zero_stage=1, recompute="full", offload=True, micro_count=4)
    for mesh in (Mesh(tensor=2), Mesh(pipeline=2), Mesh(sequence=2), Mesh(data=2, expert=2)):
        assert data.complexity < Plan(mesh=mesh).complexity
    assert Plan(mesh=Mesh(), recompute="full").complexity < Plan(mesh=Mesh(data=2)).complexity
    assert Plan(mesh=Mesh(tensor=2)).complexity < Plan(mesh=Mesh(pipeline=2)).complexity


def test_separate_runs_are_compared_with_the_plan_in_the_headline() -> None:
    answer = _asked("resnet50", "1x RTX 4090 + 1x RTX 2080 Ti")
    assert answer.separate is not None
    assert answer.separate.one_job_samples_per_s == answer.recommended.samples_per_s == answer.scaling()[-1]["samples_per_s"]
    assert answer.separate.samples_per_s > WITHIN * answer.separate.one_job_samples_per_s
    assert "Two separate training runs, each on one GPU with a batch of " in _verdict(answer)


def test_samples_of_each_kind_are_listed_in_words() -> None:
    answer = _asked("gpt2", "RTX 3090 + RTX 2080 Ti + GTX 1080 Ti", batch=32)
    assert re.search(
        r"3-way data parallelism, \d+ samples on the RTX 3090, \d+ on the RTX 2080 Ti and \d+ on the GTX 1080 Ti\.",
        _verdict(answer),
    )


def test_shares_fit_each_card() -> None:
    answer = _asked("resnet50", "RTX 3090 + RTX 3060 8GB", batch=1024)
    best = answer.recommended
    assert dict(best.shares)["RTX 3090"] > dict(best.shares)["RTX 3060 8GB"]
    assert best.estimate.memory.total_bytes < 24 * 2**30
    (recipe,) = best.recipes
    assert any(re.search(r"\d+ on each RTX 3060 8GB in \d+ micro-batches", line) for line in recipe.lines)
    assert any(line.startswith("loss = loss * samples_of_this_rank * 2 / 1024") for line in recipe.lines)
    parts = [getattr(best.estimate, f"{name}_s") for name in ("compute", "recompute", "update", "exposed_comm", "bubble", "wait")]
    assert min(parts) >= 0.0
    assert sum(parts) == pytest.approx(best.estimate.step_s)


def test_a_network_between_different_cards_makes_them_machines() -> None:
    near, far = (_asked("resnet50", "RTX 4090 + RTX 3090", network=network) for network in ("", "10Gbit"))
    assert (near.cluster.node_count, far.cluster.node_count) == (1, 2)
    assert far.entries[-1].estimate.step_s > near.entries[0].estimate.step_s
    assert "Ethernet 10 Gbit between nodes" in " ".join(render(far).split())


def test_a_network_without_effect_is_named() -> None:
    answer = _asked("resnet50", "2x RTX 3090", network="10Gbit")
    assert answer.cluster.network is None
    assert "`--network` 10Gbit has no effect: all GPUs are in one machine" in _verdict(answer)
    assert "no effect" not in _verdict(_asked("resnet50", "2x1xRTX 3090", network="10Gbit"))
