"""Every GPU of a file and every rank of a run is seen: a row each, who is late and why, and what counts as communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from judging_causes import Case, examine
from making_fleets import all_reduce, fleet, in_one_file, on_own_devices, ranks
from making_hosts import Host, busy_fraction, joined, loop, overlap
from making_traces import HGEMM, RELU

WORLD = 4
SENT = 700.0
Build = Callable[[bool], Any]


def exchange(
    late: int | None = None, *, slow_us: float = 0.0, stall_us: float = 0.0, turns: bool = False
) -> Callable[..., list[Host]]:
    """Steps with a collective at the end. One rank has slower kernels or a host that stalls; with `turns`, another in each."""

    def body(hosts: list[Host], number: int) -> None:
        for place, host in enumerate(hosts):
            mine = place == (number % len(hosts) if turns else late)
            if mine and stall_us:
                with host.blame(), host.frames("train.py(60): train_step", "tokenizer.py(8): tokenize"):
                    host.think(stall_us)
            host.eager(12, 500.0 + (slow_us if mine else 0.0))
        all_reduce(hosts, 400.0)

    def made(world: int = WORLD, steps: int = 6) -> list[Host]:
        return fleet(world, body, steps=steps, made=on_own_devices(ranks(world)))

    return made


def apart(hosts: Sequence[Host], clocks_us: float = 0.0) -> list[Host]:
    """A file each, on device 0 of a node of its own, with a clock of its own."""
    for place, host in enumerate(hosts):
        for event in host.events:
            event["ts"] += place * clocks_us
            if "device" in event["args"]:
                event["args"]["device"] = event["pid"] = 0
        host.busy = {0: host.busy[host.device]}
        host.device = 0
    return list(hosts)


def straggling(one_file: bool, **how: Any) -> Build:
    def build(cured: bool) -> Any:
        hosts = exchange(2, **({} if cured else how))()
        return in_one_file(hosts) if one_file else apart(hosts, 500.0)

    return build


def all_stalled(one_file: bool) -> Build:
    """Every host does the same long work: nobody is late, and no collective is to blame."""

    def build(cured: bool) -> Any:
        def body(hosts: list[Host], number: int) -> None:
            for host in hosts:
                host.eager(12)
                if not cured:
                    with host.blame(), host.frames("train.py(60): train_step", "tokenizer.py(8): tokenize"):
                        host.think(25_000.0)
            all_reduce(hosts, 400.0)

        hosts = fleet(WORLD, body, made=on_own_devices(ranks(WORLD)))
        return in_one_file(hosts) if one_file else apart(hosts)

    return build


def moe(*names: str, exposed: bool = True) -> Build:
    """Experts on other ranks: tokens are sent before the experts work and brought back after."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            for _ in range(6):
                host.eager(4, 400.0)
                for name in names:
                    if cured:
                        continue
                    host.launch(name, SENT, stream=7 if exposed else 20)
                host.eager(4, 400.0)

        return loop(body, host=Host(stack=False, rank=0, world_size=8))

    return build


def not_communication(*names: str) -> Build:
    """Kernels whose names only sound like it."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager(10)
            for name in names:
                host.launch(name, 900.0)

        return loop(body, host=Host(stack=False))

    return build


def streams_at_once(cured: bool) -> Host:
    """Kernels on three streams, always two at once."""

    def body(host: Host, number: int) -> None:
        for _ in range(10):
            host.launch(HGEMM, 900.0, stream=7)
            host.launch(HGEMM, 800.0, stream=13)
            host.launch(RELU, 250.0, stream=21)

    return loop(body)


GPUS = [
    Case(
        name="a GPU of a file is slow",
        build=straggling(True, slow_us=250.0),
        first=("straggler",),
        absent=("exposed_comm",),
        lost=False,
    ),
    Case(
        name="a rank is slow",
        build=straggling(False, slow_us=250.0),
        first=("straggler",),
        absent=("exposed_comm",),
        lost=False,
    ),
    Case(
        name="the host of a GPU in a file stalls",
        build=straggling(True, stall_us=20_000.0),
        first=("straggler", "host_work"),
        absent=("exposed_comm", "launch_bound"),
        lost=False,
    ),
    Case(
        name="the host of a rank stalls",
        build=straggling(False, stall_us=20_000.0),
        first=("straggler", "host_work"),
        absent=("exposed_comm", "launch_bound"),
        lost=False,
    ),
    Case(name="all ranks alike", build=lambda cured: apart(exchange()(), 5000.0), absent=("straggler", "exposed_comm")),
    Case(name="all GPUs of a file alike", build=lambda cured: in_one_file(exchange()()), absent=("straggler", "exposed_comm")),
    *(
        Case(
            name=f"all hosts stall alike, in {'one file' if one_file else 'files of their own'}",
            build=all_stalled(one_file),
            first=("host_work",),
            absent=("straggler", "exposed_comm", "launch_bound"),
            where=("tokenize (tokenizer.py:8)",),
        )
        for one_file in (True, False)
    ),
    Case(
        name="every rank is late in turn",
        build=lambda cured: apart(exchange(slow_us=0.0 if cured else 250.0, turns=True)(steps=8)),
        first=None,
        absent=("straggler",),
    ),
    Case(
        name="DeepEP between nodes",
        build=moe(
            "void deep_ep::internode::dispatch<false, 8, 4096, false>(int4*, float*)",
            "void deep_ep::internode::combine<8, __nv_bfloat16>(int4*, float*)",
        ),
        first=("exposed_comm",),
        lost_s=12 * SENT * 1e-6,
    ),
    Case(
        name="DeepEP within a node",
        build=moe(
            "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
            "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)",
        ),
        first=("exposed_comm",),
        lost_s=12 * SENT * 1e-6,
    ),
    Case(
        name="DeepEP of low latency",
        build=moe(
            "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*, int*)",
            "void deep_ep::internode_ll::combine<false, 7168, 9>(void*, void*, int*)",
        ),
        first=("exposed_comm",),
        lost_s=12 * SENT * 1e-6,
    ),
    Case(
        name="all-to-all of an inference engine",
        build=moe(
            "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<true>(FusedMoeCommKernelParam)", "moe_a2a_combine_kernel"
        ),
        first=("exposed_comm",),
        lost_s=12 * SENT * 1e-6,
    ),
    Case(
        name="DeepEP hidden behind the experts",
        build=moe("void deep_ep::internode::dispatch<false, 8, 4096, false>(int4*, float*)", exposed=False),
        absent=("exposed_comm",),
    ),
    Case(
        name="kernels that only sound like communication",
        build=not_communication(
            "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)",
            "void moe_align_block_size_kernel<int>(int*, int*, int*)",
            "void at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<DispatchRadixSort<false>>(int)",
        ),
        absent=("exposed_comm",),
    ),
    Case(name="streams at once", build=streams_at_once),
]


@pytest.mark.parametrize("case", GPUS, ids=lambda case: case.name)
def test_ranks_and_gpus_are_charged_for_what_they_cost(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def rows(made: Sequence[Host], folder: Path) -> list[dict[str, Any]]:
    paths = [str(host.write(folder / f"rank{place}.json")) for place, host in enumerate(made)]
    found: list[dict[str, Any]] = gpuwise.why(paths).to_dict().get("gpus", [])
    return found


def communication_s(host: Host, device: int) -> float:
    """The true time of collectives in a step."""
    spans = [
        (event["ts"] - host.begin_us, event["ts"] - host.begin_us + event["dur"])
        for event in host.events
        if "nccl" in event["name"] and event["args"].get("device") == device
    ]
    window = [(host.steps[0][0], host.steps[-1][1])]
    return overlap(joined(spans), window) * 1e-6 / len(host.steps)


@pytest.mark.parametrize("world", [1, 2, 8])
def test_every_gpu_of_a_file_has_a_row(world: int, tmp_path: Path) -> None:
    whole = in_one_file(exchange(0, slow_us=200.0)(world, 4))
    found = rows([whole], tmp_path)
    assert len(found) == world, f"{len(found)} rows of gpus, expected {world}"
    for key, true in (("busy_fraction", busy_fraction), ("communication_s", communication_s)):
        said = sorted(row[key] for row in found)
        assert said == pytest.approx(sorted(true(whole, device) for device in range(world)), rel=0.05), key
    assert [row["step_s"] for row in found] == pytest.approx([found[0]["step_s"]] * world, rel=0.02)


def test_every_rank_has_a_row(tmp_path: Path) -> None:
    made = apart(exchange(1, slow_us=200.0)())
    found = rows(made, tmp_path)
    assert [row["rank"] for row in found] == list(range(WORLD))
    assert [row["busy_fraction"] for row in found] == pytest.approx([busy_fraction(host, 0) for host in made], rel=0.05)
    # the last collective of the recording runs after the window of the steps
    assert [row["communication_s"] for row in found] == pytest.approx([communication_s(host, 0) for host in made], rel=1 / 6)


def test_a_gpu_that_only_copies_has_a_row(tmp_path: Path) -> None:
    def body(host: Host, number: int) -> None:
        host.eager()
        host.device = 1
        host._issue("gpu_memcpy", "Memcpy", "Memcpy PtoP (Device -> Device)", 4000.0, "cudaMemcpyPeerAsync", 9, 5.0, bytes=10**8)
        host.device = 0

    host = loop(body)
    found = rows([host], tmp_path)
    assert len(found) == 2
    assert sorted(row["busy_fraction"] for row in found)[0] == pytest.approx(busy_fraction(host, 1), rel=0.05)


@pytest.mark.parametrize("one_file", [True, False])
def test_the_late_one_is_named_and_so_is_what_it_does(one_file: bool, tmp_path: Path) -> None:
    made = straggling(one_file, stall_us=20_000.0)(False)
    hosts = [made] if one_file else made
    answer = gpuwise.why([str(host.write(tmp_path / f"rank{place}.json")) for place, host in enumerate(hosts)]).to_dict()
    late = next((finding for finding in answer["findings"] if finding["code"] == "straggler"), None)
    assert late is not None, f"first verdict {answer['verdict']}, expected straggler"
    assert any(f"{word} 2" in late["title"] for word in ("GPU", "rank", "device")), late["title"]
    told = " ".join(str(part) for finding in answer["findings"] for part in (finding.get("where"), *finding["evidence"]))
    assert "tokenize (tokenizer.py:8)" in told, f"expected what the late one does, got {told}"


def test_two_late_ranks_are_told_by_single_collectives(tmp_path: Path) -> None:
    """Rank 1 is late to the first exchange of a step and rank 2 to the second: each waits for the other one, so that sums over
    a step show half of what is lost."""

    def body(hosts: list[Host], number: int) -> None:
        for late in (1, 2):
            for place, host in enumerate(hosts):
                host.eager(8, 900.0 if place == late else 500.0)
            all_reduce(hosts, 300.0)

    made = apart(fleet(WORLD, body, made=on_own_devices(ranks(WORLD))))
    found = gpuwise.why([str(host.write(tmp_path / f"rank{place}.json")) for place, host in enumerate(made)]).to_dict()
    late = next((finding for finding in found["findings"] if finding["code"] == "straggler"), None)
    assert late is not None, f"{found['verdict']}, expected straggler"
    assert "rank 1" in late["title"] or "rank 2" in late["title"], late["title"]
    assert 0.95 * 8 * 400e-6 <= late["seconds_per_step"] <= 1.05 * 2 * 8 * 400e-6  # what one of them costs, and what both do


def test_the_loader_of_the_late_rank_is_named(tmp_path: Path) -> None:
    """The rank that keeps the others waiting waits for its own loader."""

    def body(hosts: list[Host], number: int) -> None:
        for place, host in enumerate(hosts):
            with host.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                host.think(20_000.0 if place == 3 else 100.0)
            host.eager(12)
        all_reduce(hosts, 400.0)

    made = apart(fleet(WORLD, body, made=on_own_devices(ranks(WORLD))))
    found = gpuwise.why([str(host.write(tmp_path / f"rank{place}.json")) for place, host in enumerate(made)]).to_dict()
    late = next((finding for finding in found["findings"] if finding["code"] == "straggler"), None)
    assert late is not None, f"{found['verdict']}, expected straggler"
    assert "rank 3" in late["title"], late["title"]
    told = " ".join(text for finding in found["findings"] for text in (finding["title"], *finding["evidence"]))
    assert "loader" in told or "input" in told, f"what rank 3 waits for is not told: {told}"
