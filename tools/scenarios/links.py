"""Lanes, generations of PCIe, Thunderbolt, sockets, and several GPUs on one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuwise.box.checks import card_links
from gpuwise.core.units import GIB
from gpuwise.hardware.machines import find_link
from gpuwise.questions.build.ask import ask
from gpuwise.questions.build.options import BuildOptions
from scenarios.asking import EARLY, KINDS, card, line, matter, matters_over, step
from scenarios.types import Asked, Choice, Ours, Reply, over, scenario, unanswered

__all__ = ["ENTRIES"]

_GTX = "GTX 1080 Ti"
_COPY = f"{Path(__file__).with_name('copied.py')}:Copy"


@scenario(
    "S011",
    question="Is one Titan X as fast as the four GPUs in an AWS g2.8xlarge instance?",
    how="`compare '4x GRID K520'` with one job, on networks from 2015.",
    why="Our prediction does not include the overhead of a virtual machine.",
    at_least=("TitanX_ge_4x_g2",),
)
def _g2_8xlarge(value: Mapping[str, Any]) -> Reply:
    return {
        "TitanX_ge_4x_g2": over(
            [
                step(model, "Titan X Maxwell", batch).samples_per_s / step(model, "GRID K520", batch, gpus=4).samples_per_s
                for model, batch in EARLY.items()
            ]
        )
    }


@scenario(
    "S016",
    question="According to bandwidthTest, which slot is this GTX 980 in, and does the card work correctly?",
    how="The link tables give the rates of PCIe 3.0 x16 and 2.0 x16. `predict copied.py:Copy --mode infer` gives the rate of "
    "a 32 MiB copy, as in that test.",
    why="A copy this short does not reach the rate on the spec sheet (224 GB/s).",
)
def _bandwidth_test(value: Mapping[str, Any]) -> Reply:
    copy = step(_COPY, "GTX 980", "1", mode="infer", input=("x=batch,8,1024,1024:fp32",)).by_op[0]
    return {
        "h2d_gbs": _achieved("PCIe 3.0 x16"),
        "d2d_gbs": copy.moved_bytes / copy.seconds / 1e9,
        "pcie2_x16_max": find_link("PCIe 2.0 x16").bytes_per_s_one_way / 1e9,
    }


@scenario(
    "S045",
    question="How much speed does a card lose in a Thunderbolt 3 box?",
    how="`matters egpu` on a GTX 1080, for three kinds of work.",
)
def _razer(value: Mapping[str, Any]) -> Reply:
    return {"egpu_penalty": matters_over("egpu", "GTX 1080")}


_two_processes = unanswered(
    "S062",
    question="Why do two independent processes on two cards reach only 1.14 times the speed of one?",
    why="The cause was never found. In our model, two independent processes reach twice the speed of one.",
)


@scenario("S063", question="How many lanes can one GPU use?", how="`build --gpu 'GTX 1080' --lanes 28`.")
def _lanes(value: Mapping[str, Any]) -> Reply:
    return {"lanes_1gpu": line("lanes", "GTX 1080", lanes="28").value or 0.0}


@scenario(
    "S079",
    question="How much faster is an LSTM on two GTX 1080 Ti cards, by framework? (The quoted values are for 100 to 200 time "
    "steps. For 24, they are said to be lower.)",
    how="`predict word_lstm --seq 150 --batch 64 --gpus 2` with the stacks tf-1.15 and torch-1.4. gpuwise does not support "
    "CNTK, so we use PyTorch instead.",
    why="For 24 time steps, we predict a speed-up of 1.1, because a step this short cannot hide its communication. Frameworks "
    "overlap communication and computation in different ways.",
)
def _lstm(value: Mapping[str, Any]) -> Reply:
    def speedup(stack: str) -> float:
        one, two = (step("word_lstm", _GTX, "64", seq=150, stack=stack, gpus=count) for count in (1, 2))
        return two.samples_per_s / one.samples_per_s

    return {"tf": speedup("tf-1.15"), "pytorch": speedup("torch-1.4"), "cntk": speedup("torch-1.4")}


@scenario(
    "S082",
    question="How much faster are two GTX 1080 Ti cards at x8 each?",
    how="`predict --gpus 2` and `matters pcie-lanes`, for three kinds of work.",
    why="At these batch sizes, the backward pass hides the exchange of gradients in CNNs, but not in transformers and RNNs.",
)
def _two_at_x8(value: Mapping[str, Any]) -> Reply:
    def speedup(model: str, batch: str) -> float:
        both = step(model, _GTX, batch, gpus=2).samples_per_s / step(model, _GTX, batch).samples_per_s
        return both / (1 + 0.01 * (matter("pcie-lanes", model, _GTX, batch=batch, gpus=2).together or 0.0))

    return {"speedup2": over([speedup(*kind) for kind in KINDS.items()]), "x8_penalty": _together("pcie-lanes", _GTX, 2)}


@scenario(
    "S086",
    question="How much speed does a GTX 1080 Ti lose in a PCIe 2.0 slot?",
    how="`matters pcie-gen` with one and two GPUs, for three kinds of work.",
    why="For CNNs, the loss is almost zero. For RNNs, it is as large as quoted.",
)
def _pcie2(value: Mapping[str, Any]) -> Reply:
    return {"pcie2_1gpu": matters_over("pcie-gen", _GTX, gpus=2), "pcie2_2gpu": _together("pcie-gen", _GTX, 2)}


@scenario(
    "S089",
    question="How much speed does an external GPU lose in NLP?",
    how="`matters egpu` on a GTX 1080 Ti with bert-base, word_lstm and gnmt. The range in the answer extends from the computed "
    "loss of zero to the measured loss.",
    why="Text takes up few bytes, so almost nothing crosses the cable during training, and we compute a loss of zero. Readers "
    "measured a larger loss.",
    quoted=True,
)
def _egpu_nlp(value: Mapping[str, Any]) -> Reply:
    kinds = {"bert-base": "16", "word_lstm": "64", "gnmt": "32"}
    told = [matter("egpu", model, _GTX, batch=batch) for model, batch in kinds.items()]
    computed = over([one.value / 100 for one in told])
    return {"egpu_penalty": replace(computed, high=max((one.high or one.value) / 100 for one in told))}


@scenario(
    "S094",
    question="What is the transfer rate of Thunderbolt 3, and how much speed does it cost?",
    how="The link table gives the rate of Thunderbolt 3, and `matters egpu` gives the loss.",
    why="Of the 40 Gbit/s on the wire, at most 32 Gbit/s carry PCIe data, and about 2.4 GB/s are usable.",
)
def _thunderbolt(value: Mapping[str, Any]) -> Reply:
    return {"tb3_gbs": _achieved("Thunderbolt 3"), "penalty": matters_over("egpu", _GTX)}


@scenario(
    "S123",
    question="How much speed does a third GPU lose with only eight lanes?",
    how="`matters pcie-lanes --gpus 3`, for three kinds of work.",
    why="For CNNs, the loss is almost zero. For transformers and RNNs, it is as large as quoted.",
)
def _third(value: Mapping[str, Any]) -> Reply:
    return {"3gpu_penalty": _together("pcie-lanes", _GTX, 3)}


@scenario(
    "S168",
    question="Does Thunderbolt 3 slow down large networks?",
    how="`matters egpu` on an RTX 2080 Ti, for three kinds of work.",
)
def _egpu_large(value: Mapping[str, Any]) -> Reply:
    return {"egpu_penalty": matters_over("egpu", "RTX 2080 Ti")}


@scenario(
    "S171",
    question="What is the transfer rate between two Titan X cards on one switch?",
    how="The link table gives the rate of PCIe 3.0 x16.",
)
def _peers(value: Mapping[str, Any]) -> Reply:
    return {"p2p_gbs": _achieved("PCIe 3.0 x16")}


@scenario(
    "S172",
    question="How many lanes and how much RAM do four RTX cards and their disks need?",
    how="`build --gpu '4x RTX 2080 Ti' --lanes X299 --ram 64GB` and `matters ram-size`.",
)
def _host_for_four(value: Mapping[str, Any]) -> Reply:
    need = matter("ram-size", "resnet50", "RTX 2080 Ti", batch="64", gpus=4).value
    total = 4 * card("RTX 2080 Ti").memory_bytes / GIB
    return {
        "lanes_per_gpu": line("lanes", "4x RTX 2080 Ti", lanes="X299", ram="64GB").limit or 0.0,
        "nvme_lanes": _shared_lanes("RTX 2080 Ti", nvme=0) - _shared_lanes("RTX 2080 Ti", nvme=1),
        "ram": Choice(agrees=abs(need - total) < 1, text=f"{need:.0f} GB, as much as all cards together"),
    }


@scenario(
    "S181",
    question="Does NVLink help two RTX cards?",
    how="`matters nvlink` on two RTX 2080 Ti cards, for three kinds of work.",
    why="We doubt the author's count of messages. CNNs gain nothing, but transformers and RNNs gain at small batch sizes.",
)
def _nvlink(value: Mapping[str, Any]) -> Reply:
    found = matters_over("nvlink", "RTX 2080 Ti", gpus=2)
    return {"n2_benefit": Choice(agrees=found.value < 0.05, text=f"{found}")}


@scenario(
    "S183",
    question="How many lanes are behind the switches on a board with four x16 slots?",
    how="`build --gpu '4x GTX 1080 Ti' --lanes X99 --board 'slots=7,x16=4,spacing=2,switch=yes'`: the lanes that all cards "
    "share.",
)
def _switch(value: Mapping[str, Any]) -> Reply:
    return {"lanes": _shared_lanes(_GTX)}


def _shared_lanes(gpu: str, **box: Any) -> float:
    """The CPU lanes that four cards behind a switch share."""
    query = ask(BuildOptions(gpu=[f"4x {gpu}"], lanes="X99", board="slots=7,x16=4,spacing=2,switch=yes", **box))
    return sum(link.lanes / link.shared for link in card_links(query.cards, query.box))


@scenario(
    "S184",
    question="How fast is the link between two CPUs compared with two x16 slots?",
    how="The link tables give the rates of QPI 9.6 GT/s and PCIe 3.0 x16.",
)
def _sockets(value: Mapping[str, Any]) -> Reply:
    return {name: find_link(link).bytes_per_s_one_way / 1e9 for name, link in (("qpi", "QPI"), ("x16", "PCIe 3.0 x16"))}


@scenario("S207", question="What is the transfer rate of PCIe 3.0 x1?", how="The link table gives the rate of PCIe 3.0 x1.")
def _x1(value: Mapping[str, Any]) -> Reply:
    return {"x1_mbs": find_link("PCIe 3.0 x1").bytes_per_s_one_way / 1e6}


_cluster = unanswered(
    "S223",
    question="How much faster are 96 GPUs with 8-bit gradients?",
    why="The question does not state the cluster, its network or the network load, and our plans do not cover 8-bit gradients.",
)


def _achieved(link: str) -> float:
    found = find_link(link)
    return found.bytes_per_s_one_way * found.achieved_fraction / 1e9


def _together(topic: str, gpu: str, count: int) -> Ours:
    """What several GPUs lose when they run one job."""
    return over([0.01 * (matter(topic, model, gpu, batch=batch, gpus=count).together or 0.0) for model, batch in KINDS.items()])


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
