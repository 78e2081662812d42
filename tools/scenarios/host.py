"""The effect of the rest of the machine (CPU, RAM, disks, clocks, heat)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scenarios.asking import EARLY, KINDS, line, matter, matters_over, step
from scenarios.types import Asked, Ours, Reply, over, scenario, unanswered

__all__ = ["ENTRIES"]

_HARD_DISK = 150.0  # MB/s, as `gpuwise matters ssd` takes it


@scenario(
    "S004",
    question="Does a quad-core CPU from 2007 slow down a GTX 970?",
    how="`matters cpu` for networks from 2015 and a small MLP.",
    why="A slow CPU has no effect while the GPU is busy. It matters only for small networks.",
)
def _old_cpu(value: Mapping[str, Any]) -> Reply:
    return {"cpu_penalty": matters_over("cpu", "GTX 970", {**EARLY, "mnist_mlp": "128"})}


@scenario(
    "S009",
    question="What do I need for a machine with up to four GTX 980 cards?",
    how="`build --gpu '4x GTX 980'`, `matters cpu` and `matters ssd`, for networks from 2015.",
    why="The CPU issues ops while the GPU works, so a slow CPU has no effect on typical networks. It is enough to have as "
    "much RAM as GPU memory.",
)
def _desktop(value: Mapping[str, Any]) -> Reply:
    reads = [matter("ssd", model, "GTX 980", batch=batch).value for model, batch in EARLY.items()]
    ram = line("ram", "4x GTX 980")
    return {
        "psu_4gpu_w": line("psu", "4x GTX 980").limit or 0.0,
        "threads_per_gpu": (line("cpu", "4x GTX 980").limit or 0.0) / 4,
        "ram_per_gpumem": (ram.limit or 0.0) / (4 * 4 * 2**30),
        "ssd_gain": over([max(0.0, rate / _HARD_DISK - 1) for rate in reads]),
        "cpu<3GHz": matters_over("cpu", "GTX 980", EARLY),
    }


@scenario("S032", question="Is a superclocked Titan X worth it?", how="`matters brand` for networks from 2015.")
def _superclocked(value: Mapping[str, Any]) -> Reply:
    return {"oc_gain": matters_over("brand", "Titan X Maxwell", EARLY)}


@scenario("S038", question="How hot may a card get?", how="`matters cooling` gives this temperature.", quoted=True)
def _hot(value: Mapping[str, Any]) -> Reply:
    return {"max_temp_c": _degrees(r"[Bb]elow (\d+) °C")[0]}


_equal_cards = unanswered(
    "S071",
    question="Why is one of three machines five times slower than the other two, which are identical?",
    why="The cause was never found. To find it, `gpuwise why` would need a profile.",
)


@scenario(
    "S078",
    question="How much do water cooling and faster RAM help?",
    how="`matters cooling` and `matters ram-speed` on a GTX 1080 Ti, for three kinds of work.",
)
def _water(value: Mapping[str, Any]) -> Reply:
    return {"water_gain": matters_over("cooling", "GTX 1080 Ti"), "ram_clock": matters_over("ram-speed", "GTX 1080 Ti")}


@scenario(
    "S112",
    question="How much faster is a GTX 1080 Ti at its highest possible clock?",
    how="`matters brand` (a 3% higher clock), for three kinds of work.",
)
def _clocks(value: Mapping[str, Any]) -> Reply:
    return {"clock_tuning": matters_over("brand", "GTX 1080 Ti")}


@scenario(
    "S114",
    question="How much slower is training on MNIST and ImageNet if the CPU runs at a third of its clock?",
    how="`predict mnist_cnn` and `predict alexnet` on a GTX 970, with `--cpu 'old quad-core'` and with a desktop CPU that is "
    "twice as fast.",
    why="Our CPU classes differ by a factor of two at most. The loss depends on the network: a small MLP loses speed, but a "
    "CNN does not.",
)
def _third_clock(value: Mapping[str, Any]) -> Reply:
    def lost(model: str) -> float:
        slow, fast = (step(model, "GTX 970", "128", cpu=cpu).step_s for cpu in ("old quad-core", "desktop"))
        return slow / fast - 1

    return {"mnist": over([lost("mnist_cnn"), lost("mnist_mlp")]), "imagenet": lost("alexnet")}


_offboard = unanswered(
    "S118",
    question="What is the latency if a drone offloads its computation over a radio link?",
    why="The quoted value is the latency of a mobile network and does not depend on the GPU.",
)


@scenario(
    "S162",
    question="How much do case fans lower the temperature?",
    how="`matters cooling` gives this range for a better case.",
    quoted=True,
)
def _case(value: Mapping[str, Any]) -> Reply:
    low, high = _degrees(r"better case cools them by (\d+) to (\d+) °C")
    return {"case_dC": Ours(value=(low + high) / 2, low=low, high=high, unit="°C")}


def _degrees(pattern: str) -> tuple[float, ...]:
    """The temperatures in the answer of `matters cooling`."""
    found = matter("cooling", "resnet50", "GTX 1080 Ti", batch=KINDS["resnet50"])
    match = re.search(pattern, f"{found.answer} {found.source}")
    if match is None:
        raise ValueError("`gpuwise matters cooling` names no temperature")
    return tuple(float(group) for group in match.groups())


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
