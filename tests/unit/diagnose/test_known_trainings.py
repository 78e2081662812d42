"""Whole trainings as people record them, with one thing wrong each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from judging_causes import Case, Made, examine
from making_fleets import all_reduce, fleet, in_one_file, on_own_devices, ranks
from making_hosts import Host, loop
from making_traces import ALL_REDUCE, HGEMM

PACKAGES = "/opt/conda/lib/python3.10/site-packages"
MULTI_TENSOR = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"
AUTOGRAD = 88
ENGINE = "<built-in method run_backward of torch._C._EngineBase object at 0x7fcc834c7bb0>"
Act = Callable[[Host, int], None]


def network(host: Host, forward: int = 8, backward: int = 12, us: float = 500.0) -> None:
    """A forward pass on the main thread, a backward pass on autograd's, and an optimizer that updates everything at once."""
    with host.frames("model.py(70): forward", "nn.Module: Net_0", "torch/nn/modules/module.py(1501): _call_impl"):
        host.eager(forward, us)
    with (
        host.frames("torch/_tensor.py(525): backward", "torch/autograd/__init__.py(267): backward", ENGINE),
        host.elsewhere(AUTOGRAD),
        host.cpu("autograd::engine::evaluate_function: AddmmBackward0"),
    ):
        host.eager(backward, us)
    with host.frames("torch/optim/optimizer.py(484): wrapper"), host.note("Optimizer.step#AdamW.step"):
        for _ in range(3):
            host.launch(MULTI_TENSOR, 60.0)


def batch(host: Host, us: float, *, workers: bool = True) -> None:
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    with host.frames("torch/utils/data/dataloader.py(701): __next__"), host.note(f"enumerate(DataLoader)#{kind}.__next__"):
        inner = (
            "torch/utils/data/_utils/fetch.py(52): fetch",
            "dataset.py(31): __getitem__",
            f"{PACKAGES}/PIL/Image.py(900): convert",
        )
        with host.frames(*(() if workers else inner)):
            host.think(us)


def to_device(host: Host, us: float = 200.0) -> None:
    with host.cpu("aten::to", "aten::_to_copy", "aten::copy_"):
        host._issue(
            "gpu_memcpy", "Memcpy", "Memcpy HtoD (Pinned -> Device)", us, "cudaMemcpyAsync", 7, 5.0, bytes=int(us * 12_000)
        )


def program(
    act: Act, *, steps: int = 6, host: Callable[[], Host] = Host, mark: str = "ProfilerStep#{}", load_us: float = 200.0
) -> Callable[[bool], Host]:
    """A healthy training in which something is done after each step; `act` blames what is wrong."""

    def build(cured: bool) -> Host:
        def body(made: Host, number: int) -> None:
            batch(made, load_us)
            to_device(made)
            with made.frames("train.py(60): train_step"):
                network(made)
            if not cured:
                act(made, number)

        return loop(body, steps=steps, host=host(), mark=mark)

    return build


def vision(cured: bool) -> Host:
    """A loader without workers, and a log line each step."""

    def body(host: Host, number: int) -> None:
        if cured:
            batch(host, 100.0)
        else:
            with host.blame():
                batch(host, 45_000.0, workers=False)
        to_device(host, 400.0)
        network(host)
        host.item()
        with host.frames("train.py(96): log"):
            host.think(300.0)

    return loop(body)


def accumulation(cured: bool) -> Host:
    """Four micro-batches a step in a trainer of a library, and a callback of the user's at its end."""
    trainer = (
        f"{PACKAGES}/transformers/trainer.py(2200): train",
        f"{PACKAGES}/transformers/trainer.py(2480): _inner_training_loop",
    )

    def body(host: Host, number: int) -> None:
        for _ in range(4):
            batch(host, 150.0)
            with host.frames(f"{PACKAGES}/transformers/trainer.py(3700): training_step"):
                host.eager(20, 400.0)
        with host.note("Optimizer.step#AdamW.step"):
            host.launch(MULTI_TENSOR, 400.0)
        if not cured:
            callback = f"{PACKAGES}/transformers/trainer_callback.py(510): on_step_end"
            with host.blame(), host.frames(callback, "callbacks.py(30): on_step_end", "json/__init__.py(120): dump"):
                host.think(50_000.0)

    return loop(body, frames=("train.py(210): <module>", *trainer), steps=5)


def eight(cured: bool) -> Made:
    """Eight GPUs in a file, of which one has a lower clock."""

    def body(hosts: list[Host], number: int) -> None:
        for place, host in enumerate(hosts):
            host.eager(10, 700.0 if place == 5 and not cured else 500.0)
        all_reduce(hosts, 500.0)

    return in_one_file(fleet(8, body, steps=4, made=on_own_devices(ranks(8, stack=False))))


def saved(host: Host, number: int) -> None:
    if number % 3 == 0:
        with host.blame(), host.frames("train.py(180): save", "torch/serialization.py(850): save"):
            for _ in range(10):
                host.item()
            host.think(150_000.0)


def collected(host: Host, number: int) -> None:
    """The garbage collector runs in no function of Python, somewhere in the step."""
    if number % 2 == 0:
        with host.blame(), host.frames("train.py(60): train_step"):
            host.think(60_000.0)


def logged(host: Host, number: int) -> None:
    for _ in range(3):
        host.item()
    with host.blame(), host.frames("train.py(90): log_step", "torch/utils/tensorboard/writer.py(370): add_scalar"):
        host.think(25_000.0)


def on_cpu_tensors(host: Host, number: int) -> None:
    """Sampling negatives on the CPU: a sort takes most of it."""
    with host.blame():
        for name, us in (("aten::index_select", 3000.0), ("aten::sort", 22_000.0), ("aten::cat", 4000.0)):
            with host.cpu(name):
                host.think(us)


def own_backward(cured: bool) -> Host:
    """A backward function in Python on the thread of autograd; the main thread waits in the engine meanwhile."""

    def body(host: Host, number: int) -> None:
        with host.frames("train.py(60): train_step"):
            host.eager(8)
            with host.frames("torch/autograd/graph.py(744): _engine_run_backward"), host.elsewhere(AUTOGRAD):
                host.eager(6)
                if not cured:
                    with host.blame(), host.cpu("MyFunctionBackward"), host.frames("ops.py(44): backward"):
                        host.think(30_000.0)
                host.eager(6)

    return loop(body)


def from_a_worker(cured: bool) -> Host:
    """A thread prepares and launches; the main thread waits in a queue all the time."""

    def body(host: Host, number: int) -> None:
        with (
            host.frames("serve.py(88): collect", "queue.py(171): get", "threading.py(327): wait"),
            host.elsewhere(91),
            host.frames("threading.py(973): _bootstrap", "worker.py(12): run"),
        ):
            if not cured:
                with host.blame(), host.frames("worker.py(30): preprocess"):
                    host.think(30_000.0)
            host.eager()

    return loop(body)


def recompiled(host: Host, number: int) -> None:
    """Shapes that change: the model is compiled again in two steps of three."""
    if number % 3:
        dynamo = ("torch/_dynamo/eval_frame.py(745): compile_wrapper", "torch/_dynamo/convert_frame.py(1344): __call__")
        with host.blame(), host.frames("train.py(60): train_step", *dynamo, "torch/_inductor/compile_fx.py(1903): compile_fx"):
            host.think(200_000.0)
            with host.frames(
                "torch/_inductor/async_compile.py(300): triton", f"{PACKAGES}/triton/compiler/compiler.py(240): compile"
            ):
                host.think(60_000.0)
            host.call("cuModuleLoadData", 4000.0)


def simulated(cured: bool) -> Host:
    """Reinforcement learning: the policy is tiny, the environment is stepped on the CPU after each action is read."""

    def body(host: Host, number: int) -> None:
        with host.frames("rollout.py(22): collect"):
            for _ in range(8):
                host.eager(6, 40.0)
                host.item()
                if not cured:
                    with host.blame(), host.frames(f"{PACKAGES}/gymnasium/core.py(450): step"):
                        host.think(5000.0)
        network(host)

    return loop(body)


def buckets(cured: bool) -> Host:
    """Gradients are exchanged in buckets beside the backward pass."""

    def body(host: Host, number: int) -> None:
        host.eager(8)
        for _ in range(4):
            host.eager(4)
            host.launch(ALL_REDUCE, 900.0, stream=20)

    return loop(body, host=Host(rank=0, world_size=8))


def many_features(cured: bool) -> Host:
    """A recommender with hundreds of tiny tables."""
    lookup = "void at::native::indexSelectSmallIndex<float, long, unsigned int, 2, 2, -2>(int)"

    def body(host: Host, number: int) -> None:
        if cured:
            host.graph([(lookup, 3.0)] * 100 + [(HGEMM, 60.0)] * 6)
        else:
            with host.blame():
                host.eager(100, 3.0, think_us=22.0, name=lookup)
            host.eager(6, 60.0)

    return loop(body)


def long_first_step(cured: bool) -> Host:
    """Six seconds of cudaFree in the first step hide a slow loader in all others."""

    def body(host: Host, number: int) -> None:
        if number == 1:
            host.call("cudaFree", 6_000_000.0)
        if not cured:
            with host.blame():
                batch(host, 40_000.0)
        network(host)

    return loop(body, lead_in=False, steps=7)


def amd() -> Host:
    gpu = {"id": 0, "name": "AMD Instinct MI250X", "totalGlobalMem": 68_702_699_520, "numSms": 110, "warpSize": 64}
    return Host(hip=True, device=2, gpu=gpu)


def prepared(host: Host, number: int) -> None:
    with (
        host.blame(),
        host.frames(
            "image_processing.py(120): preprocess", f"{PACKAGES}/cv2/__init__.py(1): resize", "<built-in function resize>"
        ),
    ):
        host.think(30_000.0)


TRAININGS = [
    Case(name="vision", build=vision, first=("input_starved", "single_process_loader"), absent=("host_work", "launch_bound")),
    Case(name="accumulation", build=accumulation, first=("host_work",), where=("on_step_end (callbacks.py:30)",)),
    Case(name="eight GPUs", build=eight, first=("straggler",), absent=("exposed_comm",)),
    Case(
        name="checkpoints",
        build=program(saved, steps=9),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("save (train.py:180)",),
    ),
    Case(name="garbage collection", build=program(collected), first=("host_work",), absent=("launch_bound", "input_starved")),
    Case(
        name="logging",
        build=program(logged),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("log_step (train.py:90)",),
    ),
    Case(
        name="tensors on the CPU",
        build=program(on_cpu_tensors, host=lambda: Host(stack=False)),
        first=("host_work",),
        absent=("launch_bound",),
        where=("aten::sort",),
    ),
    Case(name="own backward", build=own_backward, first=("host_work",), where=("backward (ops.py:44)",)),
    Case(name="worker thread", build=from_a_worker, first=("host_work",), where=("preprocess (worker.py:30)",)),
    Case(name="recompiled", build=program(recompiled), first=("compiling",), absent=("launch_bound",)),
    Case(
        name="reinforcement learning",
        build=simulated,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("collect (rollout.py:22)", "step (gymnasium/core.py:450)", "step (core.py:450)"),
    ),
    Case(name="buckets", build=buckets, absent=("exposed_comm", "host_work")),
    Case(name="recommender", build=many_features, first=("launch_bound", "small_model"), absent=("host_work",)),
    Case(name="long first step", build=long_first_step, first=("input_starved",), absent=("allocator_churn",), warm_up=1),
    Case(
        name="AMD",
        build=program(prepared, host=amd),
        first=("host_work",),
        absent=("launch_bound",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="images prepared in the loop",
        build=program(prepared),
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="one step alone",
        build=program(prepared, steps=1),
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
        gain=False,
    ),
    Case(name="nothing wrong", build=program(lambda host, number: host.think(100.0)), absent=("host_work", "input_starved")),
    Case(
        name="an old profiler",
        build=program(lambda host, number: unseen(host), host=lambda: Host(stack=False, old=True)),
        first=("host_work",),
        absent=("launch_bound",),
        confidence="low",
    ),
]


def unseen(host: Host) -> None:
    with host.blame():
        host.think(30_000.0)


@pytest.mark.parametrize("case", TRAININGS, ids=lambda case: case.name)
def test_a_whole_training_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
