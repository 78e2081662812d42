"""From what exporters told, in recorded shapes, to figures and findings: old and new names, odd labels, thousands of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.core.errors import GpuwiseError
from gpuwise.live.sample.dcgm import METRICS, Fleet, read_fleet
from gpuwise.live.sample.prometheus import Samples, Server, Window
from gpuwise.questions.watch.cluster import ClusterAnswer, judge_fleet
from gpuwise.questions.watch.cluster_text import render
from making_cluster import HEALTHY

WINDOW = Window(start_s=1_800_000_000.0, end_s=1_800_000_600.0)
TIMES = WINDOW.times_s
MODERN = {  # the same GPU, as exporter 4.9 tells it
    "DCGM_FI_DEV_GPU_UTIL_RATIO": 0.97,
    "DCGM_FI_DEV_MEMORY_UTIL_RATIO": 0.4,
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.95e9,
    "DCGM_FI_DEV_BOARD_POWER_WATTS": 640.5,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 62,
    "DCGM_FI_DEV_FB_USED_BYTES": 60_000 * 2**20,
    "DCGM_FI_DEV_FB_FREE_BYTES": 21_000 * 2**20,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 4e8,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1e8,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 0.97,
    "DCGM_FI_PROF_SM_UTIL_RATIO": 0.9,
    "DCGM_FI_DEV_XID_ERROR": 0,
}


@dataclass(frozen=True)
class Series:
    """One metric of one GPU."""

    labels: Mapping[str, str]
    at_s: Any
    values: Any


class Recorded(Server):
    """A server that answers from a list."""

    def __init__(self, kept: Sequence[Series]) -> None:
        super().__init__("http://recorded:9090")
        self.kept, self.asked = kept, 0

    def names(self, pattern: str, window: Window) -> tuple[str, ...]:
        return tuple({one.labels.get("__name__", "") for one in self.kept})

    def samples(self, names: Sequence[str], window: Window) -> Samples:
        self.asked += 1
        found = [one for one in self.kept if one.labels.get("__name__", names[0]) in names]
        return Samples(
            labels=tuple(one.labels for one in found),
            series=np.repeat(np.arange(len(found)), [len(one.at_s) for one in found]),
            at_s=np.concatenate([one.at_s for one in found]),
            values=np.concatenate([one.values for one in found]),
        )


def told(labels: Mapping[str, str], values: Mapping[str, Any], *, begin: int = 0, end: int = 61) -> list[Series]:
    """One GPU's metrics, each a number or one number a moment."""
    return [
        Series(
            labels={"__name__": name, **labels},
            at_s=TIMES[begin:end],
            values=np.broadcast_to(np.asarray(value, dtype=float), (61,))[begin:end].copy(),
        )
        for name, value in values.items()
    ]


def gpu(host: str, index: int, values: Mapping[str, Any] = {}, **more: Any) -> list[Series]:
    labels = {"Hostname": host, "gpu": str(index), "UUID": f"GPU-{host}-{index}", "modelName": "NVIDIA H100 80GB HBM3"}
    return told({**labels, **more.pop("labels", {})}, {**HEALTHY, **values}, **more)


def judged(*gpus: list[Series]) -> ClusterAnswer:
    server = Recorded([one for series in gpus for one in series])
    return judge_fleet(read_fleet(server, WINDOW), address=server.address)


def codes(answer: ClusterAnswer) -> list[str]:
    return [found.finding.code for found in answer.findings]


def test_a_healthy_cluster_has_no_finding() -> None:
    answer = judged(*(gpu("a", index) for index in range(8)))
    assert codes(answer) == []
    assert answer.verdict == "healthy: 8 GPUs, busy 97% of the time, and no check found anything wrong"


def test_old_and_new_names_mean_the_same() -> None:
    new = told({"hostname": "a", "gpu": "0", "gpu_uuid": "GPU-1", "model_name": "NVIDIA H100 80GB HBM3"}, MODERN)
    old, modern = judged(gpu("a", 0)).members[0], judged(new).members[0]
    assert replace(modern.vitals, name="") == replace(old.vitals, name="")
    assert modern.place == "a GPU 0"
    assert (modern.memory_used_bytes, modern.sm_fraction) == (old.memory_used_bytes, old.sm_fraction)


def test_a_ratio_that_counts_to_a_hundred_is_percent() -> None:
    values = {**MODERN, "DCGM_FI_DEV_GPU_UTIL_RATIO": 97}
    assert judged(told({"gpu": "0", "instance": "node7:9400"}, values)).members[0].vitals.busy_fraction == pytest.approx(0.97)


def test_what_dcgm_does_not_know_is_not_a_number() -> None:
    blank = {"DCGM_FI_DEV_GPU_TEMP": 9223372036854775794, "DCGM_FI_DEV_POWER_USAGE": 140737488355328.0}
    vitals = judged(gpu("a", 0, blank)).members[0].vitals
    assert (vitals.temperature_c, vitals.power_watts) == (None, None)


def test_totals_of_pcie_become_rates() -> None:
    grown = {"DCGM_FI_DEV_PCIE_RX_THROUGHPUT": 1e9 + 3e5 * 10 * np.arange(61)}  # KB, 10 s apart: 0.3 GB/s
    values = {name: value for name, value in HEALTHY.items() if "PCIE" not in name}
    answer = judged(told({"gpu": "0", "Hostname": "a"}, {**values, **grown}))
    assert answer.members[0].vitals.traffic_bytes_per_s == pytest.approx(3e8)


def test_a_gpu_whose_pods_come_and_go_is_one_gpu() -> None:
    first = gpu("a", 0, labels={"exported_pod": "train-worker-0", "exported_namespace": "ml"}, end=30)
    second = gpu("a", 0, labels={"exported_pod": "other-worker-3", "exported_namespace": "ml"}, begin=30)
    answer = judged(first, second)
    assert [device.job for device in answer.devices] == ["pods ml/other"]
    assert answer.members[0].vitals.sample_count == 61


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        ({"hpc_job": "12"}, "job 12"),
        ({"pod": "bert-master-0", "namespace": "ml"}, "pods ml/bert"),
        ({"pod": "dcgm-exporter-x7"}, ""),
        ({"pod": "nvidia-dcgm-exporter-abcde", "exported_pod": "bert-worker-11", "exported_namespace": "ml"}, "pods ml/bert"),
        ({}, ""),
    ],
)
def test_the_job_is_read_from_the_labels(labels: dict[str, str], job: str) -> None:
    assert judged(gpu("a", 0, labels=labels)).devices[0].job == job


def test_slices_of_a_gpu_are_told_apart_and_busy_by_their_engine() -> None:
    values = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.6, "DCGM_FI_DEV_FB_USED": 4_000, "DCGM_FI_DEV_FB_FREE": 5_000}
    slices = [told({"UUID": "GPU-1", "gpu": "0", "Hostname": "a", "GPU_I_ID": str(part)}, values) for part in (1, 2)]
    answer = judged(*slices)
    assert [device.index for device in answer.devices] == ["0 slice 1", "0 slice 2"]
    assert answer.members[1].vitals.busy_fraction == pytest.approx(0.6)


def test_a_low_clock_is_told_without_the_drivers_reasons_unless_it_is_the_power_cap() -> None:
    quiet = {name: value for name, value in HEALTHY.items() if "THROTTLE" not in name}
    slow = {**quiet, "DCGM_FI_DEV_SM_CLOCK": 1200, "DCGM_FI_DEV_POWER_USAGE": 300}
    capped = {**quiet, "DCGM_FI_DEV_SM_CLOCK": 1200, "DCGM_FI_DEV_POWER_USAGE": 699}
    labels = {"modelName": "NVIDIA H100 80GB HBM3", "Hostname": "a", "gpu": "0"}
    answer = judged(told(labels, slow))
    assert codes(answer) == ["throttled"]
    assert answer.findings[0].finding.confidence == "low"
    assert "it draws 300 of 700 W, so the power cap is not the reason" in answer.findings[0].finding.evidence[0]
    assert codes(judged(told(labels, capped))) == []


def test_heat_for_a_moment_is_no_throttling() -> None:
    few = np.where(np.arange(61) < 2, 0x40, 0)
    assert codes(judged(gpu("a", 0, {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": few}))) == []


@pytest.mark.parametrize(
    ("values", "confidence", "lost"),
    [
        ({"DCGM_FI_DEV_XID_ERRORS": 31}, "low", 0.0),
        ({"DCGM_FI_DEV_XID_ERRORS": np.where(np.arange(61) < 40, 0, 79)}, "high", 0.95),
    ],
)
def test_an_error_that_is_new_weighs_more_than_one_that_stands(values: dict[str, Any], confidence: str, lost: float) -> None:
    (found,) = judged(gpu("a", 0, values), gpu("a", 1)).findings
    assert (found.finding.code, found.finding.confidence, found.lost_gpus) == ("gpu_fault", confidence, pytest.approx(lost))


def test_a_gpu_that_falls_silent_is_named_and_nothing_else_is_said_of_it() -> None:
    (found,) = judged(gpu("a", 0), gpu("a", 1, {"DCGM_FI_DEV_GPU_UTIL": 0}, end=31)).findings
    assert found.finding.code == "gpu_fault"
    assert found.finding.evidence == ("no reports for 5 min",)


def test_peers_of_other_jobs_and_products_are_no_measure() -> None:
    slow = {"DCGM_FI_DEV_SM_CLOCK": 1500}
    rank = [gpu("a", index, slow if index == 3 else {}) for index in range(4)]
    assert codes(judged(*rank)) == ["straggler"]
    alone = [gpu(f"host{index}", 0, slow if index == 3 else {}) for index in range(4)]
    assert codes(judged(*alone)) == []
    other = [gpu("a", index, slow if index == 3 else {}, labels={"hpc_job": str(index == 3)}) for index in range(4)]
    assert codes(judged(*other)) == []
    assert "straggler" in {entry.code for entry in judged(*alone).abstained}


def test_one_straggler_holds_the_whole_job() -> None:
    rank = [gpu("a", index, {"DCGM_FI_DEV_GPU_UTIL": 48.5} if index == 3 else {}) for index in range(8)]
    (found,) = judged(*rank).findings
    assert found.lost_gpus == pytest.approx(4.0)
    assert found.finding.gain.high == pytest.approx(2.0)


def test_gpus_that_only_count_as_busy_are_noted() -> None:
    assert "fewer than half of the SMs are active on 1 GPU" in judged(gpu("a", 0, {"DCGM_FI_PROF_SM_ACTIVE": 0.1})).notes[0]


def test_thousands_take_one_question_a_figure() -> None:
    few = [gpu(f"host{number // 8}", number % 8) for number in range(2000)]
    few[1234] = gpu("host154", 2, {"DCGM_FI_DEV_GPU_UTIL": 1})
    server = Recorded([one for series in few for one in series])
    answer = judge_fleet(read_fleet(server, WINDOW), address=server.address)
    assert server.asked <= len(METRICS)
    assert answer.verdict == "2,000 GPUs, busy 97% of the time: 1 idle"
    assert "host154 GPU 2 (H100 SXM 80GB): busy 1.0%" in render(answer)


def test_a_long_list_is_cut_in_the_text_and_whole_in_json() -> None:
    answer = judged(*(gpu("a", index, {"DCGM_FI_DEV_GPU_UTIL": 0}) for index in range(30)))
    assert "and 28 more (`-v` lists more)" in render(answer)
    assert "and 20 more (`--json` lists all)" in render(answer, verbose=True)
    assert len(answer.to_dict()["findings"][0]["gpus"]) == 30


def test_the_json_has_the_keys_of_why() -> None:
    answer = judged(gpu("a", 0, {"DCGM_FI_DEV_GPU_UTIL": 0})).to_dict()
    assert {
        "files",
        "gpu",
        "step_s",
        "busy_fraction",
        "verdict",
        "findings",
        "abstained",
        "ranks",
        "assumptions",
        "data_date",
    } <= set(answer)
    keys = "code title seconds_per_step share_fraction gain_low gain_high confidence evidence remedy verify gpus"
    assert set(keys.split()) <= set(answer["findings"][0])


VALUES = st.one_of(st.floats(), st.integers(-5, 2**63).map(float))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted({name for names in METRICS.values() for name in names})), VALUES), max_size=12))
def test_whatever_is_exported_gives_an_answer(values: list[tuple[str, float]]) -> None:
    series = [one for number in range(3) for one in told({"gpu": str(number), "instance": "x:1"}, dict(values))]
    if not series:
        return
    answer = judge_fleet(read_fleet(Recorded(series), WINDOW), address="http://x")
    assert render(answer)
    for found in answer.findings:
        assert 1.0 <= found.finding.gain.low <= found.finding.gain.high <= 20.0
        assert 0.0 <= found.finding.share_fraction <= 1.0


def test_a_server_that_had_metrics_once_is_told_from_one_that_has_none() -> None:
    old = [Series(labels=one.labels, at_s=one.at_s[:0], values=one.values[:0]) for one in gpu("a", 0)]

    class Past(Recorded):
        def samples(self, names: Sequence[str], window: Window) -> Samples:
            return Samples(labels=(), series=np.array([], dtype=int), at_s=np.array([]), values=np.array([]))

    with pytest.raises(GpuwiseError, match=r"for this time window \(it had some earlier\)"):
        read_fleet(Past(old), WINDOW)
    with pytest.raises(GpuwiseError, match=r"for this time window\n"):
        read_fleet(Past([]), WINDOW)


def test_labels_that_say_nothing_break_nothing() -> None:
    bare = [Series(labels={"__name__": one.labels["__name__"]}, at_s=one.at_s, values=one.values) for one in gpu("a", 0)]
    answer = judged(bare, [Series(labels={}, at_s=TIMES * 1e200, values=TIMES)])
    assert answer.members[0].place == "unknown host GPU ?"


def test_a_fleet_without_figures_is_blank() -> None:
    fleet = Fleet(devices=(), times_s=TIMES, step_s=10.0, figures={})
    assert not fleet.has("busy_fraction")
    assert fleet.of("busy_fraction").shape == (0, 61)
