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
    question="one Titan X vs. the four GPUs in AWS g2.8xlarge",
    how="compare '4x GRID K520' as one job; networks from 2015",
    why="our prediction does not include the overhead of a virtual machine",
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
    question="bandwidthTest on a GTX 980: which slot is the card in, and does it work correctly",
    how="links: PCIe 3.0 x16, 2.0 x16; predict copied.py:Copy --mode infer: bytes per second for a 32 MiB copy, as in that test",
    why="a copy this short does not reach the spec-sheet rate (224)",
)
def _bandwidth_test(value: Mapping[str, Any]) -> Reply:
    copy = step(_COPY, "GTX 980", "1", mode="infer", input=("x=batch,8,1024,1024:fp32",)).by_op[0]
    return {
        "h2d_gbs": _achieved("PCIe 3.0 x16"),
        "d2d_gbs": copy.moved_bytes / copy.seconds / 1e9,
        "pcie2_x16_max": find_link("PCIe 2.0 x16").bytes_per_s_one_way / 1e9,
    }


@scenario("S045", question="a card in a Thunderbolt 3 box", how="matters egpu; GTX 1080, three kinds of work")
def _razer(value: Mapping[str, Any]) -> Reply:
    return {"egpu_penalty": matters_over("egpu", "GTX 1080")}


_two_processes = unanswered(
    "S062",
    question="two independent processes on two cards reach 1.14 times the speed of one",
    why="the cause of this measurement was never found; in our model, two independent jobs are twice as fast as one",
)


@scenario("S063", question="lanes that one GPU can use", how="build --gpu 'GTX 1080' --lanes 28")
def _lanes(value: Mapping[str, Any]) -> Reply:
    return {"lanes_1gpu": line("lanes", "GTX 1080", lanes="28").value or 0.0}


@scenario(
    "S079",
    question="an LSTM on two GTX 1080 Ti cards, by framework; the values are for 100 to 200 "
    "steps, and are said to be lower for 24",
    how="predict word_lstm --seq 150 --batch 64 --gpus 2, stacks tf-1.15 and torch-1.4; CNTK is not supported, so we use PyTorch",
    why="for 24 steps we predict 1.1, because a step this short cannot hide its communication; frameworks overlap differently",
)
def _lstm(value: Mapping[str, Any]) -> Reply:
    def speedup(stack: str) -> float:
        one, two = (step("word_lstm", _GTX, "64", seq=150, stack=stack, gpus=count) for count in (1, 2))
        return two.samples_per_s / one.samples_per_s

    return {"tf": speedup("tf-1.15"), "pytorch": speedup("torch-1.4"), "cntk": speedup("torch-1.4")}


@scenario(
    "S082",
    question="two GTX 1080 Ti cards at x8 each",
    how="predict --gpus 2 and matters pcie-lanes; three kinds of work",
    why="at these batch sizes, gradient exchange is hidden behind the backward pass for CNNs, but not for transformers and RNNs",
)
def _two_at_x8(value: Mapping[str, Any]) -> Reply:
    def speedup(model: str, batch: str) -> float:
        both = step(model, _GTX, batch, gpus=2).samples_per_s / step(model, _GTX, batch).samples_per_s
        return both / (1 + 0.01 * (matter("pcie-lanes", model, _GTX, batch=batch, gpus=2).together or 0.0))

    return {"speedup2": over([speedup(*kind) for kind in KINDS.items()]), "x8_penalty": _together("pcie-lanes", _GTX, 2)}


@scenario(
    "S086",
    question="GTX 1080 Ti in PCIe 2.0 slots",
    how="matters pcie-gen, one and two GPUs; three kinds of work",
    why="almost no loss for CNNs, the quoted loss for RNNs",
)
def _pcie2(value: Mapping[str, Any]) -> Reply:
    return {"pcie2_1gpu": matters_over("pcie-gen", _GTX, gpus=2), "pcie2_2gpu": _together("pcie-gen", _GTX, 2)}


@scenario(
    "S089",
    question="an external GPU for NLP",
    how="matters egpu; GTX 1080 Ti, bert-base, word_lstm, gnmt: the range it gives, from no loss as computed to the measured one",
    why="text takes few bytes, so almost nothing crosses the cable during training and we compute no loss; readers measured more",
    quoted=True,
)
def _egpu_nlp(value: Mapping[str, Any]) -> Reply:
    kinds = {"bert-base": "16", "word_lstm": "64", "gnmt": "32"}
    told = [matter("egpu", model, _GTX, batch=batch) for model, batch in kinds.items()]
    computed = over([one.value / 100 for one in told])
    return {"egpu_penalty": replace(computed, high=max((one.high or one.value) / 100 for one in told))}


@scenario(
    "S094",
    question="Thunderbolt 3: rate and loss",
    how="links: Thunderbolt 3; matters egpu",
    why="at most 32 of the 40 Gbit/s on the wire carry PCIe data, and about 2.4 GB/s are usable",
)
def _thunderbolt(value: Mapping[str, Any]) -> Reply:
    return {"tb3_gbs": _achieved("Thunderbolt 3"), "penalty": matters_over("egpu", _GTX)}


@scenario(
    "S123",
    question="a third GPU at eight lanes",
    how="matters pcie-lanes --gpus 3; three kinds of work",
    why="almost no loss for CNNs, the quoted loss for transformers and RNNs",
)
def _third(value: Mapping[str, Any]) -> Reply:
    return {"3gpu_penalty": _together("pcie-lanes", _GTX, 3)}


@scenario("S168", question="Thunderbolt 3 and large networks", how="matters egpu; RTX 2080 Ti, three kinds of work")
def _egpu_large(value: Mapping[str, Any]) -> Reply:
    return {"egpu_penalty": matters_over("egpu", "RTX 2080 Ti")}


@scenario("S171", question="transfer rate between two Titan X cards on one switch", how="links: PCIe 3.0 x16")
def _peers(value: Mapping[str, Any]) -> Reply:
    return {"p2p_gbs": _achieved("PCIe 3.0 x16")}


@scenario(
    "S172",
    question="lanes, disks and RAM for four RTX cards",
    how="build --gpu '4x RTX 2080 Ti' --lanes X299 --ram 64GB; matters ram-size",
)
def _host_for_four(value: Mapping[str, Any]) -> Reply:
    need = matter("ram-size", "resnet50", "RTX 2080 Ti", batch="64", gpus=4).value
    total = 4 * card("RTX 2080 Ti").memory_bytes / GIB
    return {
        "lanes_per_gpu": line("lanes", "4x RTX 2080 Ti", lanes="X299", ram="64GB").limit or 0.0,
        "nvme_lanes": _shared_lanes("RTX 2080 Ti", nvme=0) - _shared_lanes("RTX 2080 Ti", nvme=1),
        "ram": Choice(agrees=abs(need - total) < 1, text=f"{need:.0f} GB, the sum of the cards'"),
    }


@scenario(
    "S181",
    question="NVLink between two RTX cards",
    how="matters nvlink; RTX 2080 Ti, two GPUs, three kinds of work",
    why="the author's message count is doubtful: CNNs gain nothing, but transformers and RNNs gain at small batch sizes",
)
def _nvlink(value: Mapping[str, Any]) -> Reply:
    found = matters_over("nvlink", "RTX 2080 Ti", gpus=2)
    return {"n2_benefit": Choice(agrees=found.value < 0.05, text=f"{found}")}


@scenario(
    "S183",
    question="lanes behind the switches on a board with four x16 slots",
    how="build --gpu '4x GTX 1080 Ti' --lanes X99 --board 'slots=7,x16=4,spacing=2,switch=yes': lanes that all cards share",
)
def _switch(value: Mapping[str, Any]) -> Reply:
    return {"lanes": _shared_lanes(_GTX)}


def _shared_lanes(gpu: str, **box: Any) -> float:
    """Lanes of the CPU that four cards behind a switch share."""
    query = ask(BuildOptions(gpu=[f"4x {gpu}"], lanes="X99", board="slots=7,x16=4,spacing=2,switch=yes", **box))
    return sum(link.lanes / link.shared for link in card_links(query.cards, query.box))


@scenario("S184", question="the link between two CPUs vs. two x16 slots", how="links: QPI 9.6 GT/s, PCIe 3.0 x16")
def _sockets(value: Mapping[str, Any]) -> Reply:
    return {name: find_link(link).bytes_per_s_one_way / 1e9 for name, link in (("qpi", "QPI"), ("x16", "PCIe 3.0 x16"))}


@scenario("S207", question="transfer rate of PCIe 3.0 x1", how="links: PCIe 3.0 x1")
def _x1(value: Mapping[str, Any]) -> Reply:
    return {"x1_mbs": find_link("PCIe 3.0 x1").bytes_per_s_one_way / 1e6}


_cluster = unanswered(
    "S223",
    question="96 GPUs with 8-bit gradients",
    why="the cluster, its network and the network load are not stated, and our plans do not cover 8-bit gradients",
)


def _achieved(link: str) -> float:
    found = find_link(link)
    return found.bytes_per_s_one_way * found.achieved_fraction / 1e9


def _together(topic: str, gpu: str, count: int) -> Ours:
    """What several GPUs as one job lose."""
    return over([0.01 * (matter(topic, model, gpu, batch=batch, gpus=count).together or 0.0) for model, batch in KINDS.items()])


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
