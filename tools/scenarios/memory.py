"""What fits, how much 16 bits save, and whether memory adds up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpuwise
from gpuwise.core.units import GIB, MIB
from gpuwise.hardware.machines import find_link
from scenarios.asking import KINDS, card, held, matter
from scenarios.types import Asked, Choice, Ours, Reply, over, scenario, unanswered

__all__ = ["ENTRIES"]

_NLP_2017 = ("word_lstm", "word_lstm_medium", "char_rnn", "bilstm", "gnmt", "transformer_base", "transformer_big")
_ENOUGH = 16  # batch size below which training is impractical


@scenario(
    "S005",
    question="Why does AlexNet take so much more memory than its parameters?",
    how="`fit alexnet --batch 256` in fp32.",
    why="The 61 million parameters take 0.24 GB, not 0.4 GB. The rest is gradients, momentum, activations and workspace.",
)
def _alexnet(value: Mapping[str, Any]) -> Reply:
    found = held("alexnet", "Titan X Maxwell", "256").memory
    return {"alexnet_train_gb": found.total_bytes / 1e9, "alexnet_param_gb": found.weight_bytes / 1e9}


@scenario(
    "S015",
    question="How much does keeping activations in host memory slow down training, at 8 GB/s?",
    how="`matters activation-offload --model vgg16 --gpu 'GTX Titan' --batch 32 --pcie 'PCIe 2.0 x16'` in fp32. The link "
    "table gives the rate of PCIe 2.0 x16.",
)
def _offload(value: Mapping[str, Any]) -> Reply:
    link = "PCIe 2.0 x16"  # the one with the rate in question
    lost = matter("activation-offload", "vgg16", "GTX Titan", batch="32", precision="fp32", pcie=link).value
    return {"offload_penalty": lost / 100, "pcie_gbs": find_link(link).bytes_per_s_one_way / 1e9}


@scenario("S034", question="How much memory does one GPU on a Titan Z have?", how="`gpus 'Titan Z'`.")
def _titan_z(value: Mapping[str, Any]) -> Reply:
    return {"TitanZ_usable_gb": card("Titan Z").usable_memory_bytes / GIB}


@scenario("S039", question="How much of a GTX 970's memory is fast?", how="`gpus 'GTX 970'`.")
def _gtx970(value: Mapping[str, Any]) -> Reply:
    return {"gtx970_fast_gb": card("GTX 970").usable_memory_bytes / GIB}


@scenario(
    "S085",
    question="For what share of NLP work is 8 GB enough?",
    how="`fit` for seven language models from 2017 on a GTX 1070 in fp32. We count how many of them can run 16 samples at once.",
)
def _nlp(value: Mapping[str, Any]) -> Reply:
    fitting = [held(model, "GTX 1070").max_batch >= _ENOUGH for model in _NLP_2017]
    return {"nlp_8gb_ok": sum(fitting) / len(fitting)}


_volumes = unanswered(
    "S117",
    question="What hardware does a 3D network need if it takes 30 to 60 GB on a CPU?",
    why="We do not know the network, and the quoted memory is the reader's own measurement.",
)


@scenario("S137", question="How much memory does a desktop environment take on a laptop's GTX 1050 Ti?", how="`matters display`.")
def _display(value: Mapping[str, Any]) -> Reply:
    return {"vram_gb": _desktop("GTX 1050 Ti Mobile", GIB)}


@scenario(
    "S173",
    question="How much memory does a desktop environment take on a GTX 1080 Ti?",
    how="`matters display`.",
    why="Desktop environments use more memory than they did in 2018. Our range is 0.3 to 1.5 GB.",
)
def _display_desktop(value: Mapping[str, Any]) -> Reply:
    return {"vram_mb": _desktop("GTX 1080 Ti", 1e6)}


def _desktop(gpu: str, unit: float) -> Ours:
    found = matter("display", "resnet50", gpu, batch="16")
    low, high = found.low or found.value, found.high or found.value
    return Ours(value=found.value * MIB / unit, low=low * MIB / unit, high=high * MIB / unit)


@scenario(
    "S152",
    question="How much memory does each model take if many are loaded, each from a 93 MB file?",
    how="`fit resnet50 --mode infer --batch 1`: the allocated memory, without the one-time overhead of the framework. The "
    "file of this model is 98 MB in size.",
)
def _many_models(value: Mapping[str, Any]) -> Reply:
    return {"mb_per_model": held("resnet50", "GTX 1080 Ti", "1", mode="infer").memory.allocated_bytes / 1e6}


@scenario(
    "S190",
    question="How much memory would you need in fp32 to match 11 GB in 16-bit precision?",
    how="`fit`: the largest batch in amp divided by the largest in fp32, times 11.",
    why="The quoted answer contradicts the same author's 50% rule. The gain depends on the model.",
)
def _doubled(value: Mapping[str, Any]) -> Reply:
    found = _more_batch("RTX 2080 Ti")
    size = card("RTX 2080 Ti").memory_bytes / GIB
    return {"equiv": Ours(value=size * found.value, low=size * found.low, high=size * found.high, unit="GB")}


@scenario(
    "S192",
    question="Can two 8 GB cards train a BERT that needs 12 GB?",
    how="`fit bert-base --gpus 2` at the batch size that fills 12 GB.",
)
def _pooled(value: Mapping[str, Any]) -> Reply:
    batch = str(held("bert-base", "Titan V").max_batch)
    alone, two = (held("bert-base", "RTX 2070", batch, gpus=count).memory.total_bytes for count in (1, 2))
    fits = held("bert-base", "RTX 2070", batch, gpus=2).fits
    return {
        "pooled": Choice(
            agrees=fits is value["pooled"] and two >= alone, text=f"no: each of the two cards needs {two / GIB:.1f} GB"
        )
    }


@scenario(
    "S199",
    question="With 3,000 USD, which is best for medical images: a Titan RTX, two RTX 2080 Ti cards or four RTX 2070 cards?",
    how="`compare` with all three at launch prices, on unet in amp at the largest batch for two RTX 2080 Ti cards.",
)
def _medical(value: Mapping[str, Any]) -> Reply:
    batch = str(held("unet", "RTX 2080 Ti", precision="amp", gpus=2).max_batch)
    names = ["4x RTX 2070", "2x RTX 2080 Ti", "Titan RTX"]
    found = gpuwise.compare(names, model=["unet"], precision="amp", batch=batch)
    fits = {pair.gpu: pair.fits for pair in found.pairs} | {names[0]: found.pairs[0].baseline_fits}
    paid = {deal.gpu: deal.price_usd or 0.0 for deal in found.deals}
    able = [deal for deal in found.deals if fits[deal.gpu] and paid[deal.gpu] <= value["budget"]]
    kept = " or ".join(deal.gpu for deal in able)
    lacking = f"{kept}: four RTX 2070 cards do not have enough memory"
    text = f"{names[0]} have enough memory too" if fits[names[0]] else lacking
    return {"budget": Choice(agrees={deal.gpu for deal in able} == set(names[1:]), text=text)}


@scenario(
    "S200",
    question="What is the largest batch for Faster R-CNN on 11 GB?",
    how="`fit mask_rcnn` on a GTX 1080 Ti in fp32.",
    why="Our network is Mask R-CNN with a ResNet-50. The question does not say exactly which network and image size it is about.",
)
def _detector(value: Mapping[str, Any]) -> Reply:
    return {"batch_max_11gb": float(held("mask_rcnn", "GTX 1080 Ti").max_batch)}


@scenario(
    "S202",
    question="For image models on an RTX 2070, how much larger can the batch be in 16-bit precision?",
    how="`fit resnet50`: the largest batch in amp and in fp32.",
)
def _batch_gain(value: Mapping[str, Any]) -> Reply:
    return {"batch_gain": held("resnet50", "RTX 2070", precision="amp").max_batch / held("resnet50", "RTX 2070").max_batch}


@scenario(
    "S224",
    question="By what factor does 16-bit precision stretch 8 GB of memory?",
    how="`fit`: the largest batch in amp divided by the largest in fp32.",
    why="The factor is about two for CNNs and close to one for transformers and RNNs with fp32 weights, so no single factor "
    "fits all models.",
)
def _half_more(value: Mapping[str, Any]) -> Reply:
    return {"factor": _more_batch("RTX 2070")}


def _more_batch(gpu: str) -> Ours:
    return over([held(model, gpu, precision="amp").max_batch / held(model, gpu).max_batch for model in KINDS])


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
