"""Card A or card B: speed ratios, over several kinds of work if the question names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpuwise
from scenarios.asking import EARLY, KINDS, card, gain, ratio, step
from scenarios.types import Asked, Ours, Reply, over, scenario, unanswered

__all__ = ["ENTRIES"]

_TITAN_X = "Titan X Maxwell"
_THEN = "before cuDNN 5, kernels for Kepler were slow; our Kepler efficiencies are not measured and are too high"
_V100_OVER_2080TI = 8  # of the price: Lambda, best GPU for TensorFlow, 2019-02 ("only 1/8th of the price")


@scenario(
    "S002",
    question="P100 vs. Titan Xp, and its gain from 16-bit precision",
    how="compare GP100, Titan Xp; fp32, then fp16",
    why="PyTorch accumulates in fp32, so a P100 reaches 8.4 TFLOP/s in fp16 and 8.6 in fp32; twice "
    "that rate would need accumulation in fp16",
)
def _p100(value: Mapping[str, Any]) -> Reply:
    return {"P100/TitanXp": ratio("Quadro GP100", "Titan Xp"), "fp16_gain": gain("Quadro GP100", "fp16")}


@scenario("S014", question="Titan X vs. GTX 980", how="compare; networks from 2015, fp32")
def _titan_x(value: Mapping[str, Any]) -> Reply:
    return {"TitanX/980": ratio(_TITAN_X, "GTX 980", EARLY)}


@scenario(
    "S017",
    question="Titan X vs. GTX 580 on MNIST, measured",
    how="predict mnist_cnn, batch 64",
    why="cuDNN never ran on Fermi, so an older, slower library was used; our model assumes the same library for both",
    at_least=("TitanX/GTX580_mnist",),
)
def _fermi(value: Mapping[str, Any]) -> Reply:
    return {"TitanX/GTX580_mnist": ratio(_TITAN_X, "GTX 580", {"mnist_cnn": "64"})}


@scenario(
    "S018",
    question="the GPU in AWS g2 vs. Titan X",
    how="compare GRID K520, Titan X; networks from 2015",
    why="its spec sheet gives 37% of the arithmetic rate and 48% of the bandwidth; in our model, "
    "Kepler reaches a smaller share of its peak",
)
def _g2(value: Mapping[str, Any]) -> Reply:
    return {"g2/TitanX": ratio("GRID K520", _TITAN_X, EARLY)}


@scenario("S023", question="a chart from 2015, Titan X = 1", how="compare; networks from 2015", why=f"GTX 580 and 960: {_THEN}")
def _chart(value: Mapping[str, Any]) -> Reply:
    names = {"g2": "GRID K520", "Titan": "GTX Titan"}
    return {key: ratio(names.get(key, f"GTX {key}"), _TITAN_X, EARLY) for key in value}


@scenario(
    "S025",
    question="CaffeNet in Caffe with the first cuDNN: images per second",
    how="predict alexnet, batch 256, the oldest stack we have (torch7 with cuDNN 4)",
    why=f"we have no measurements for Caffe with cuDNN 1 or 2, and {_THEN}",
)
def _caffe(value: Mapping[str, Any]) -> Reply:
    names = {"K40": "K40m", "GTX770": "GTX 770", "GTX960": "GTX 960"}
    return {f"img_s.{key}": step("alexnet", names[key], "256", stack="torch7-4").samples_per_s for key in value["img_s"]}


@scenario(
    "S027",
    question="Quadro K5000 vs. GTX 680",
    how="compare; networks from 2015",
    why="its clock is 70% of that of a GTX 680",
)
def _k5000(value: Mapping[str, Any]) -> Reply:
    return {"K5000/680": ratio("Quadro K5000", "GTX 680", EARLY)}


@scenario(
    "S046",
    question="Quadro M2000M vs. GTX 960",
    how="compare; networks from 2015",
    why="according to its spec sheet, the laptop chip has 60% of the cores and 70% of the "
    "bandwidth, so the quoted answer cannot be right",
)
def _m2000m(value: Mapping[str, Any]) -> Reply:
    return {"M2000M/960": ratio("Quadro M2000M", "GTX 960", EARLY)}


@scenario(
    "S053",
    question="GT 635 vs. a six-core Xeon",
    how="predict mnist_cnn and alexnet on both (nearest CPU: Xeon E5-2630 v3, eight cores)",
    why="the question does not name the version of the GT 635 or the program; we use one with 14 GB/s, "
    "and today's CPU libraries are several times faster",
)
def _gt635(value: Mapping[str, Any]) -> Reply:
    return {"GT635/xeon6": ratio("GT 635", "Xeon E5-2630 v3", {"mnist_cnn": "64", "alexnet": "16"})}


@scenario(
    "S055",
    question="AlexNet in Caffe, GTX 1080 slower than 980 Ti",
    how="predict alexnet --mode infer, batch 128, torch7 with cuDNN 5 (4 for the third)",
    why="an old library chose slow kernels on a new chip: the reader's two versions differ by 25% on one card",
)
def _alexnet(value: Mapping[str, Any]) -> Reply:
    rate = {
        (gpu, stack): step("alexnet", gpu, "128", mode="infer", stack=stack).samples_per_s
        for gpu, stack in (("GTX 1080", "torch7-5"), ("GTX 980 Ti", "torch7-4"), ("GTX 980 Ti", "torch7-5"))
    }
    new, four, five = rate.values()
    return {"1080": new, "980Ti_cudnn4": four, "980Ti_cudnn5": five, "ratio": new / four}


@scenario("S093", question="laptop GTX 1060 vs. the desktop card", how="compare; fp32")
def _laptop(value: Mapping[str, Any]) -> Reply:
    return {"1060M/1060": ratio("GTX 1060 Mobile", "GTX 1060 6GB")}


@scenario("S103", question="GTX 1050 Ti vs. GTX 960", how="compare; fp32")
def _small(value: Mapping[str, Any]) -> Reply:
    return {"1050Ti/960": ratio("GTX 1050 Ti", "GTX 960")}


@scenario("S126", question="GTX 1060 with faster memory", how="gpus: the bandwidth of both")
def _faster_memory(value: Mapping[str, Any]) -> Reply:
    return {"bw_ratio": card("GTX 1060 6GB 9Gbps").memory_bytes_per_s / card("GTX 1060 6GB").memory_bytes_per_s}


@scenario(
    "S142",
    question="detection with ResNet-101, one image at a time: CPU vs. GTX 1080 Ti",
    how="compare 'Core i7-4770K', 'GTX 1080 Ti' on resnet101 and mask_rcnn --mode infer --batch 1, with its stated range",
    why="it is not known why the reader's program took a minute per image; CPU predictions are accurate only to a factor of two",
)
def _detection(value: Mapping[str, Any]) -> Reply:
    names, nets = ["Core i7-4770K", "GTX 1080 Ti"], ["resnet101", "mask_rcnn"]
    pairs = gpuwise.compare(names, model=nets, mode="infer", batch="1", precision="fp32").pairs
    middle = over([pair.ratio for pair in pairs]).value
    return {
        "infer_speedup": Ours(
            value=middle, low=min(pair.ratio_low for pair in pairs), high=max(pair.ratio_high for pair in pairs)
        )
    }


@scenario("S160", question="how much faster the generation after GTX 10 will be", how="compare RTX 2080, GTX 1080; fp32")
def _next(value: Mapping[str, Any]) -> Reply:
    return {"gen_gain": ratio("RTX 2080", "GTX 1080")}


@scenario(
    "S169",
    question="a 3D CNN five times slower on a K80 than on a Titan Xp",
    how="predict resnet50 and unet on both",
    why="the cards alone explain a factor of three; the rest is not caused by the GPU, because "
    "the reader augmented images on the CPU",
)
def _k80(value: Mapping[str, Any]) -> Reply:
    return {"slowdown": ratio("Titan Xp", "K80", {"resnet50": "32", "unet": "2"})}


@scenario("S175", question="RTX 2080 Ti vs. Titan V for CNNs", how="predict resnet50, vgg16; fp32 and amp")
def _titan_v(value: Mapping[str, Any]) -> Reply:
    nets = {"resnet50": "64", "vgg16": "32"}
    both = [ratio("RTX 2080 Ti", "Titan V", nets, precision) for precision in ("fp32", "amp")]
    return {"2080Ti/TitanV": over([found for each in both for found in (each.low, each.high)])}


@scenario(
    "S193",
    question="RTX 2070 and 2080 Ti vs. GTX 1080 Ti",
    how="predict resnet50 and word_lstm in amp and fp32",
    why="readers measured 0 to 15%, while the guide says 30%; our ratio is higher with tensor cores and below 1 in fp32",
)
def _turing(value: Mapping[str, Any]) -> Reply:
    return {
        "2070/1080Ti": _mixed("RTX 2070", "GTX 1080 Ti", "resnet50"),
        "2080Ti/1080Ti_lstm": _mixed("RTX 2080 Ti", "GTX 1080 Ti", "word_lstm"),
    }


@scenario(
    "S196",
    question="ResNet-152: RTX 2080 Ti in 16-bit precision vs. GTX 1080 Ti in fp32",
    how="predict resnet152, batch 32, in amp and fp32",
    why="16-bit kernels were immature in 2018 (Lambda, 2019-02: 1.6 times the speed of a GTX "
    "1080 Ti in 16 bits); our stacks are newer",
)
def _resnet152(value: Mapping[str, Any]) -> Reply:
    return {"2080Ti16/1080Ti32": _mixed("RTX 2080 Ti", "GTX 1080 Ti", "resnet152", "32")}


@scenario(
    "S197",
    question="16-bit precision on a GTX 1080 Ti",
    how="predict in fp16 and fp32",
    why="readers saw a gain of 10 to 15%",
)
def _pascal(value: Mapping[str, Any]) -> Reply:
    return {"speedup": gain("GTX 1080 Ti", "fp16")}


_ncs = unanswered(
    "S210",
    question="Intel's compute stick vs. RTX 2070",
    why="the quoted answer is wrong by a factor of more than ten; the stick is not a GPU, so it is not in the catalogue",
)


@scenario(
    "S212",
    question="16-bit precision on a GTX 1080 Ti, measured",
    how="predict in fp16 and fp32",
    why="16-bit precision halves the traffic but adds conversions: we predict a loss, while the reader "
    "saw a gain; our calibration has no such step",
)
def _pascal_measured(value: Mapping[str, Any]) -> Reply:
    found = gain("GTX 1080 Ti", "fp16")
    return {"speedup": Ours(value=found.value - 1, low=found.low - 1, high=found.high - 1)}


_shared_memory = unanswered(
    "S219",
    question="why RTX is weak at word RNNs",
    why="the quoted answer is speculation, which a later edition contradicts; shared memory is not in "
    "the catalogue, and we find no such weakness",
)


@scenario(
    "S225",
    question="TPU vs. GPU for transformers",
    how="predict transformer_big, bert-base: four TPU v2 chips (one Cloud TPU) in bf16, V100 in amp",
    why="our calibration includes no TPU",
)
def _tpu(value: Mapping[str, Any]) -> Reply:
    nets = {"transformer_big": "", "bert-base": "32"}
    return {
        "ratio": over(
            [
                step(model, "TPU v2", batch, "amp-bf16", gpus=4).samples_per_s
                / step(model, "V100 SXM 16GB", batch, "amp").samples_per_s
                for model, batch in nets.items()
            ]
        )
    }


@scenario(
    "S226",
    question="speed per dollar, RTX 2060 vs. V100",
    how="compare on three models; V100 at eight times the price of an RTX 2080 Ti (Lambda, 2019-02)",
    at_least=("ratio",),
)
def _per_dollar(value: Mapping[str, Any]) -> Reply:
    price = _V100_OVER_2080TI * (card("RTX 2080 Ti").launch_usd or 0.0)
    found = gpuwise.compare(["V100 PCIe 16GB", "RTX 2060"], model=list(KINDS), batch="16", price=[f"V100 PCIe 16GB={price}"])
    return {"ratio": next(deal.value or 0.0 for deal in found.deals if deal.gpu == "RTX 2060")}


def _mixed(gpu: str, base: str, model: str, batch: str = "64") -> float:
    """16 bits with tensor cores against fp32 without."""
    return step(model, gpu, batch, "amp").samples_per_s / step(model, base, batch).samples_per_s


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
