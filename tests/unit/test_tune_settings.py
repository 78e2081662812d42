"""What `gpuwise tune` tries on a device, what it leaves out and why, and how it tells what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.evidence.ranges import change_range
from gpuwise.live.tune import worker
from gpuwise.live.tune.scripts import Script
from gpuwise.live.tune.types import Change, DeviceFacts, Gain, Order, Trial
from gpuwise.questions.tune import measuring as tune_measuring
from gpuwise.questions.tune.ask import NAMES, OwnSetting, TuneQuery, ask
from gpuwise.questions.tune.changes import Plan, applied, model_plan, script_plan
from gpuwise.questions.tune.measured_text import render_measured
from gpuwise.questions.tune.options import TuneOptions
from gpuwise.questions.tune.predicting import Expected, predictor_of
from gpuwise.questions.tune.types import Best, MeasuredAnswer, Tried
from gpuwise.surfaces.cli.app import app
from gpuwise.workload import find

AMPERE = DeviceFacts(
    device="cuda:0",
    name="NVIDIA GeForce RTX 3090",
    torch="2.9.1",
    threads=8,
    memory_bytes=24e9,
    precisions=("fp32", "tf32", "amp-bf16", "amp"),
    uuid="GPU-1",
)
HERE = DeviceFacts(
    device="cpu",
    name="some CPU",
    torch="2.9.1",
    threads=2,
    memory_bytes=8e9,
    precisions=("fp32", "amp-bf16"),
    no_compiler="no g++",
)


@pytest.fixture(autouse=True)
def _no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))


def settings_query(*words: str, **options: Any) -> TuneQuery:
    query = ask(TuneOptions(words, **options))
    assert isinstance(query, TuneQuery)
    return query


def planned(model: str, facts: DeviceFacts, batch: int = 32, names: Sequence[str] = NAMES, **settings: Any) -> Plan:
    query = settings_query(model, batch=batch, **settings)
    assert query.capture is not None
    order = Order(request=query.capture.request, device=facts.device)
    return model_plan(
        names,
        order,
        facts,
        predictor_of(facts),
        lambda run: find.workload(msgspec.structs.replace(run.request, batch=None), compiled=run.compiled),
    )


def reasons(plan: Plan) -> dict[tuple[str, str], str]:
    return {(one.name, one.value): one.reason for one in plan.pruned}


def test_on_a_gpu_everything_it_can_do_is_tried_with_a_range_from_published_pairs() -> None:
    plan = planned("resnet50", AMPERE)
    names = {(change.name, change.value) for change in plan.tried}
    assert {("precision", "amp"), ("precision", "tf32"), ("compile", "on"), ("channels-last", "on"), ("batch", "64")} <= names
    expected = plan.tried[Change("precision", "amp")]
    width = change_range("precision")
    assert expected is not None
    assert width is not None
    assert expected.middle > 1.3
    assert (expected.low, expected.high) == pytest.approx((expected.middle * width.low, expected.middle * width.high))
    assert "no data loader" in reasons(plan)["workers", ""]


def test_what_a_prediction_rules_out_is_pruned_and_told() -> None:
    plan = planned("resnet50", AMPERE, batch=512)
    (told,) = [reason for (name, value), reason in reasons(plan).items() if name == "batch"]
    assert "GB is free" in told
    assert not any(change.name == "batch" for change in plan.tried)
    plan = planned("vgg16", AMPERE, batch=64, names=("batch",), mode="infer")
    assert [change.value for change in plan.tried] == ["128"]  # the first doubling is tried whatever the prediction
    assert "with twice the batch, the run is predicted to be only" in reasons(plan)["batch", "256"]
    useless = Plan()
    useless.take(Change("compile", "on"), Expected(0.8, 0.9, 1.01))
    assert useless.tried == {}
    assert useless.pruned[0].reason == "with this change, the run is predicted to be only 0.80 to 1.01 times as fast"


def test_what_the_model_or_the_device_has_no_use_for_is_not_tried() -> None:
    plan = planned("bert-base", HERE, batch=8)
    told = reasons(plan)
    assert told["channels-last", "on"] == "the model has no convolutions"
    assert told["compile", "on"] == "no g++"
    assert {change.value for change in plan.tried if change.name == "precision"} == {"amp-bf16"}
    assert "already runs in 16-bit" in reasons(planned("resnet50", AMPERE, precision="amp"))["precision", "amp-bf16"]
    assert not any(change.name == "optimizer" for change in planned("resnet50", AMPERE, mode="infer").tried)


def test_a_run_of_a_named_model_goes_from_the_question_to_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the runs themselves: those are made up."""
    asked: list[Order] = []

    def run(order: Order, facts: DeviceFacts, **more: Any) -> Trial:
        asked.append(order)
        faster = 2.0 if order.request.settings.precision == "amp-bf16" else 1.0
        return Trial(batch=order.request.batch or 0, step_s=(order.request.batch or 0) / 100 / faster)

    monkeypatch.setattr(tune_measuring, "facts_of", lambda device: HERE)
    monkeypatch.setattr(tune_measuring, "run_model", run)
    answer = gpuwise.tune("resnet18", try_="precision,optimizer,batch,compile")
    assert answer.verdict == "precision amp-bf16: 2.00 times as fast (2.00 to 2.00)"
    assert answer.best is not None
    assert answer.best.changes == (Change("precision", "amp-bf16"),)
    assert {order.request.model for order in asked} == {"torchvision:resnet18"}
    assert {order.request.settings.implementation for order in asked} == {"for-loop", "foreach", "fused"}
    assert ("compile", "on", "no g++") in [tuple(one) for one in answer.pruned]
    batch = next(entry for entry in answer.assumptions if entry.name == "batch at the start")
    assert int(batch.value) < 128
    assert "predicted to take more than" in batch.effect
    with pytest.raises(BadValue, match=r"some CPU \(cpu\) does not support tf32"):
        gpuwise.tune("resnet18", precision="tf32")
    monkeypatch.setattr(
        tune_measuring, "run_model", lambda *order, **more: Trial(fault="out of memory at batch 8", kind="memory")
    )
    with pytest.raises(BadValue, match="does not run even without changes: out of memory") as refused:
        gpuwise.tune("resnet18")
    assert "--batch 8" in refused.value.hint


def test_a_device_that_nobody_knows_gets_no_prediction_and_nothing_is_pruned_by_it() -> None:
    plan = planned("resnet50", msgspec.structs.replace(AMPERE, name="Unheard Of 9000"))
    assert set(plan.tried.values()) == {None}


def test_changes_end_up_in_the_run() -> None:
    query = settings_query("resnet50", batch=32)
    assert query.capture is not None
    changed = applied(
        Order(request=query.capture.request, device="cpu"),
        (
            Change("batch", "64"),
            Change("precision", "amp"),
            Change("channels-last", "on"),
            Change("compile", "on"),
            Change("optimizer", "fused"),
        ),
    )
    settings = changed.request.settings
    assert (changed.request.batch, changed.compiled) == (64, True)
    assert (settings.precision, settings.channels_last, settings.implementation) == ("amp", True, "fused")


def test_a_model_of_the_zoo_runs_as_its_library_builds_it() -> None:
    assert settings_query("ResNet-50").runs == "torchvision:resnet50"
    assert settings_query("bert-base").runs.startswith("hf:")
    assert settings_query("net.py:Net").runs == "net.py:Net"


def test_a_script_is_tried_by_its_flags_and_by_hooks() -> None:
    first = Trial(batch=64, step_s=0.1, wait_s=0.05, work_low_s=0.04, workers=0)
    own = [
        OwnSetting(name="compile", flags=("--compile",)),
        OwnSetting(name="loader", flags=("--loader", "{}"), values=("a", "b")),
    ]
    plan = script_plan((*NAMES, "loader"), own, first, HERE)
    tried = {(change.name, change.value) for change in plan.tried}
    assert {
        ("compile", "on"),
        ("loader", "a"),
        ("loader", "b"),
        ("batch", "128"),
        ("workers", "1"),
        ("precision", "amp-bf16"),
    } <= tried
    workers = plan.tried[Change("workers", "1")]
    assert workers is not None
    assert workers.high == pytest.approx(0.1 / 0.04)
    assert "--set channels-last=" in reasons(plan)["channels-last", ""]
    assert "do not need pinned memory" in reasons(plan)["pinned", ""]
    script = Script(path=Path("train.py"), arguments=("--epochs", "1"), flags={one.name: one.flags for one in own})
    variant = (Change("compile", "on"), Change("loader", "b"), Change("workers", "2"))
    assert script.command(variant)[1:] == ["train.py", "--epochs", "1", "--compile", "--loader", "b"]
    assert script.hooked(variant) == {"workers": "2"}


def test_a_script_that_does_not_wait_needs_no_more_workers() -> None:
    first = Trial(batch=0, step_s=0.1, wait_s=0.0001, work_low_s=0.0999, workers=2)
    told = reasons(script_plan(("workers", "batch"), [], first, AMPERE))
    assert any(name == "workers" and "times as fast" in reason for (name, _), reason in told.items())
    assert told["batch", ""] == "the script's batch size is not visible"


def test_power_by_watt_keeps_its_word() -> None:
    arguments = ["tune", "power", "resnet50", "--gpu", "RTX 3090", "--precision", "amp", "--batch", "64"]
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    limits = answer["limits"]
    assert [row["limit_watts"] for row in limits] == sorted(row["limit_watts"] for row in limits)
    assert [row["speed_fraction"] for row in limits] == sorted(row["speed_fraction"] for row in limits)
    for row in limits:
        assert row["watts"] <= row["limit_watts"] <= answer["rated_watts"]
        assert row["speed_low_fraction"] <= row["speed_fraction"] <= row["speed_high_fraction"] <= 1.0
        assert row["joules_per_sample"] == pytest.approx(row["watts"] * row["step_s"] / 64)
    fast = [row for row in limits if round(row["speed_fraction"], 2) >= 0.95]
    assert answer["limit_for_95_watts"] == fast[0]["limit_watts"]
    assert answer["limit_for_least_energy_watts"] == min(limits, key=lambda row: row["joules_per_sample"])["limit_watts"]
    found = gpuwise.predict(model="resnet50", gpu=["RTX 3090"], precision="amp", batch="64").results[0]
    assert limits[-1]["step_s"] == pytest.approx(found.step_s)
    text = CliRunner().invoke(app, arguments).stdout
    assert f"{answer['limit_for_95_watts']:g} W is enough for 95% of the full speed" in text


def answered(**changes: Any) -> MeasuredAnswer:
    start = tuple(Trial(batch=32, step_s=0.1, workers=0) for _ in range(3))
    bf16 = Tried(
        change=Change("precision", "amp-bf16"),
        expected=Expected(1.0, 1.5, 2.0),
        gain=Gain(1.7, 1.8, 1.9, 3),
        trials=tuple(Trial(batch=32, step_s=0.055) for _ in range(3)),
    )
    twice = Tried(
        change=Change("batch", "64"),
        expected=Expected(0.9, 1.0, 1.1),
        gain=Gain(1.1, 1.2, 1.3, 3),
        trials=(Trial(batch=64, step_s=0.16),) * 3,
    )
    broken = Tried(
        change=Change("compile", "on"), expected=None, gain=None, trials=(), fault="no figure within 9 s", kind="timeout"
    )
    best = Best(
        changes=(bf16.change, twice.change),
        gain=Gain(1.9, 2.0, 2.1, 3),
        product=2.16,
        start=start,
        trials=(Trial(batch=64, step_s=0.1),) * 3,
    )
    answer = MeasuredAnswer(
        model="net.py:Net",
        facts=HERE,
        start=start,
        tried=(bf16, twice, broken),
        pruned=(),
        best=best,
        seconds=60.0,
        is_script=False,
        assumptions=(),
        data_date=date(2026, 1, 1),
    )
    return replace(answer, **changes)


def test_the_answer_says_what_was_faster_together_and_how_to_write_it() -> None:
    answer = answered()
    text = render_measured(answer)
    assert text.startswith("precision amp-bf16 and batch 64: 2.00 times as fast (1.90 to 2.10)")
    assert '+ with torch.autocast("cpu", dtype=torch.bfloat16):' in text
    assert "- batch = 32\n+ batch = 64" in text
    assert "their separate gains would multiply to 2.16" in text
    assert "compile on: no figure within 9 s" in text
    rows = {(row["setting"], row["value"]): row for row in answer.to_dict()["tried"]}
    assert rows["precision", "amp-bf16"]["as_predicted"] is True
    assert rows["batch", "64"]["as_predicted"] is False
    assert rows["compile", "on"]["as_predicted"] is None
    assert answer.to_dict()["best"]["samples_per_s"] == pytest.approx(640.0)


def test_without_a_certain_gain_nothing_is_recommended() -> None:
    best = answered().best
    assert best is not None
    assert "no time to measure them together" in answered(best=None).verdict
    unsure = answered(best=replace(best, gain=Gain(0.98, 1.1, 1.2, 3)))
    assert unsure.diff() == []
    assert unsure.verdict == "none of the changes was faster in every round"
    (first, *_) = answered().tried
    hurried = answered(tried=(replace(first, gain=Gain(1.7, 1.8, 1.9, 2)),))
    assert hurried.verdict.startswith("no verdict, because there was not enough time for 3 rounds")


def fake_torch(capability: tuple[int, int], hip: str | None = None) -> SimpleNamespace:
    """As much of torch with a card as is asked."""
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_capability=lambda device: capability,
        get_device_properties=lambda device: SimpleNamespace(uuid="1-2"),
        get_device_name=lambda device: "some card",
        mem_get_info=lambda device: (8e9, 10e9),
    )
    backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False))
    version = SimpleNamespace(hip=hip)
    return SimpleNamespace(cuda=cuda, backends=backends, version=version, __version__="2.9", get_num_threads=lambda: 8)


@pytest.mark.parametrize(
    ("torch", "precisions", "uuid"),
    [
        (fake_torch((7, 5)), ("fp32", "amp"), "GPU-1-2"),
        (fake_torch((8, 6)), ("fp32", "tf32", "amp-bf16", "amp"), "GPU-1-2"),
        (fake_torch((11, 0), hip="6.2"), ("fp32", "amp-bf16", "amp"), ""),
    ],
)
def test_what_a_card_can_do_follows_from_its_generation(
    torch: SimpleNamespace, precisions: tuple[str, ...], uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_torch", lambda: torch)
    facts = worker._facts("")
    assert (facts.device, facts.name, facts.memory_bytes) == ("cuda:0", "some card", 8e9)
    assert (facts.precisions, facts.uuid) == (precisions, uuid)


def test_one_round_has_no_range_and_the_time_for_three_is_told() -> None:
    once = replace(answered().tried[0], gain=Gain(548.05, 548.05, 548.05, 1))
    late = replace(
        once, gain=None, trials=(), fault="there was no time left to try it; `--seconds 240` should be enough", kind="timeout"
    )
    answer = answered(tried=(once, late), best=None, needed_s=240.0, start=answered().start[:1])
    text = render_measured(answer)
    assert "548.05 to 548.05" not in text
    assert answer.to_dict()["tried"][0]["gain_low"] is None
    assert "`--seconds 240` should be enough" in answer.verdict
    assert "no verdict" in answered(tried=(late,), best=None).verdict


def test_what_comes_before_the_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[float]()

    def stopped(variants: Any, run: Any, *, seconds: float, **more: Any) -> Any:
        given.append(seconds)
        raise BadValue("enough")

    monkeypatch.setattr(tune_measuring, "measured", stopped)
    monkeypatch.setattr(tune_measuring, "time", SimpleNamespace(monotonic=lambda: 140.0))
    query = replace(settings_query("resnet50"), seconds=100.0)
    plan = Plan(tried={Change("compile", "on"): None}, pruned=[])
    with pytest.raises(BadValue, match="enough"):
        tune_measuring._answer(query, HERE, plan, lambda variant: Trial(), None, (), 100.0, lambda text: None)
    assert given == [pytest.approx(0.8 * 100.0 - 40.0)]
