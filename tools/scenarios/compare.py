"""Card A or card B: speed ratios, over several kinds of work if the question names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpuwise
from scenarios.asking import EARLY, KINDS, card, gain, ratio, step
from scenarios.types import Asked, Ours, Reply, over, scenario, unanswered

__all__ = ["ENTRIES"]

_TITAN_X = "Titan X Maxwell"
_THEN = "Before cuDNN 5, kernels for Kepler were slow. Our efficiencies for Kepler were not measured and are too high."
_V100_OVER_2080TI = 8  # of the price: Lambda, best GPU for TensorFlow, 2019-02 ("only 1/8th of the price")


@scenario(
    "S002",
    question="How fast is a P100 compared with a Titan Xp, and how much does it gain from 16-bit precision?",
    how="`compare` with a GP100 and a Titan Xp, in fp32 and then in fp16.",
    why="PyTorch accumulates in fp32, so a P100 reaches 8.4 TFLOP/s in fp16 and 8.6 TFLOP/s in fp32. To reach twice that rate, "
    "it would have to accumulate in fp16.",
)
def _p100(value: Mapping[str, Any]) -> Reply:
    return {"P100/TitanXp": ratio("Quadro GP100", "Titan Xp"), "fp16_gain": gain("Quadro GP100", "fp16")}


@scenario("S014", question="How much faster is a Titan X than a GTX 980?", how="`compare` on networks from 2015, in fp32.")
def _titan_x(value: Mapping[str, Any]) -> Reply:
    return {"TitanX/980": ratio(_TITAN_X, "GTX 980", EARLY)}


@scenario(
    "S017",
    question="How much faster is a Titan X than a GTX 580 on MNIST? (A reader's measurement.)",
    how="`predict mnist_cnn` at batch 64.",
    why="cuDNN never ran on Fermi, so the GTX 580 used an older, slower library. Our model assumes the same library for both "
    "cards.",
    at_least=("TitanX/GTX580_mnist",),
)
def _fermi(value: Mapping[str, Any]) -> Reply:
    return {"TitanX/GTX580_mnist": ratio(_TITAN_X, "GTX 580", {"mnist_cnn": "64"})}


@scenario(
    "S018",
    question="How fast is the GPU in an AWS g2 instance compared with a Titan X?",
    how="`compare` with a GRID K520 and a Titan X, on networks from 2015.",
    why="According to their spec sheets, the GRID K520 has 37% of the arithmetic rate of a Titan X and 48% of its bandwidth. In "
    "our model, Kepler GPUs reach a smaller share of their peak.",
)
def _g2(value: Mapping[str, Any]) -> Reply:
    return {"g2/TitanX": ratio("GRID K520", _TITAN_X, EARLY)}


@scenario(
    "S023",
    question="How fast are these cards, relative to a Titan X? (A chart from 2015.)",
    how="`compare` on networks from 2015.",
    why=f"We disagree about the GTX Titan and the GTX 680, which are Kepler GPUs. {_THEN}",
)
def _chart(value: Mapping[str, Any]) -> Reply:
    names = {"g2": "GRID K520", "Titan": "GTX Titan"}
    return {key: ratio(names.get(key, f"GTX {key}"), _TITAN_X, EARLY) for key in value}


@scenario(
    "S025",
    question="How many images per second does CaffeNet process in Caffe with the first cuDNN?",
    how="`predict alexnet` at batch 256, with the oldest stack we have (torch7 with cuDNN 4).",
    why=f"We have no measurements for Caffe with cuDNN 1 or 2. {_THEN}",
)
def _caffe(value: Mapping[str, Any]) -> Reply:
    names = {"K40": "K40m", "GTX770": "GTX 770", "GTX960": "GTX 960"}
    return {f"img_s.{key}": step("alexnet", names[key], "256", stack="torch7-4").samples_per_s for key in value["img_s"]}


@scenario(
    "S027",
    question="How fast is a Quadro K5000 compared with a GTX 680?",
    how="`compare` on networks from 2015.",
    why="The clock of the Quadro K5000 is 70% of that of the GTX 680.",
)
def _k5000(value: Mapping[str, Any]) -> Reply:
    return {"K5000/680": ratio("Quadro K5000", "GTX 680", EARLY)}


@scenario(
    "S046",
    question="Is a Quadro M2000M as fast as a GTX 960?",
    how="`compare` on networks from 2015.",
    why="According to their spec sheets, the laptop chip has 60% of the cores of a GTX 960 and 70% of its bandwidth, so the "
    "quoted answer cannot be right.",
)
def _m2000m(value: Mapping[str, Any]) -> Reply:
    return {"M2000M/960": ratio("Quadro M2000M", "GTX 960", EARLY)}


@scenario(
    "S053",
    question="Is a GT 635 faster than a six-core Xeon?",
    how="`predict mnist_cnn` and `predict alexnet` on both (the most similar CPU we have is the eight-core Xeon E5-2630 v3).",
    why="The question does not name the program or the version of the GT 635. We use a version with 14 GB/s. Today's CPU "
    "libraries are several times as fast as the libraries of that time.",
)
def _gt635(value: Mapping[str, Any]) -> Reply:
    return {"GT635/xeon6": ratio("GT 635", "Xeon E5-2630 v3", {"mnist_cnn": "64", "alexnet": "16"})}


@scenario(
    "S055",
    question="Why is a GTX 1080 slower than a GTX 980 Ti on AlexNet in Caffe?",
    how="`predict alexnet --mode infer` at batch 128, with torch7 and cuDNN 5 (cuDNN 4 for the second value).",
    why="The old library chose slow kernels for the new chip. On the same card, the reader's two cuDNN versions differ by 25%.",
)
def _alexnet(value: Mapping[str, Any]) -> Reply:
    rate = {
        (gpu, stack): step("alexnet", gpu, "128", mode="infer", stack=stack).samples_per_s
        for gpu, stack in (("GTX 1080", "torch7-5"), ("GTX 980 Ti", "torch7-4"), ("GTX 980 Ti", "torch7-5"))
    }
    new, four, five = rate.values()
    return {"1080": new, "980Ti_cudnn4": four, "980Ti_cudnn5": five, "ratio": new / four}


@scenario("S093", question="Is a laptop GTX 1060 as fast as the desktop card?", how="`compare` in fp32.")
def _laptop(value: Mapping[str, Any]) -> Reply:
    return {"1060M/1060": ratio("GTX 1060 Mobile", "GTX 1060 6GB")}


@scenario("S103", question="Is a GTX 1050 Ti faster than a GTX 960?", how="`compare` in fp32.")
def _small(value: Mapping[str, Any]) -> Reply:
    return {"1050Ti/960": ratio("GTX 1050 Ti", "GTX 960")}


@scenario(
    "S126",
    question="How much more bandwidth does the GTX 1060 with faster memory have?",
    how="`gpus` gives the bandwidth of both versions.",
)
def _faster_memory(value: Mapping[str, Any]) -> Reply:
    return {"bw_ratio": card("GTX 1060 6GB 9Gbps").memory_bytes_per_s / card("GTX 1060 6GB").memory_bytes_per_s}


@scenario(
    "S142",
    question="How much faster is a GTX 1080 Ti than a CPU for detection with ResNet-101, one image at a time?",
    how="`compare 'Core i7-4770K' 'GTX 1080 Ti'` on resnet101 and mask_rcnn with `--mode infer --batch 1`, including the "
    "range in the answer.",
    why="We do not know why the reader's program took a minute per image. CPU predictions are accurate only to within a "
    "factor of two.",
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


@scenario("S160", question="How much faster will the generation after GTX 10 be?", how="`compare 'RTX 2080' 'GTX 1080'` in fp32.")
def _next(value: Mapping[str, Any]) -> Reply:
    return {"gen_gain": ratio("RTX 2080", "GTX 1080")}


@scenario(
    "S169",
    question="Why is a 3D CNN five times slower on a K80 than on a Titan Xp?",
    how="`predict resnet50` and `predict unet` on both cards.",
    why="The cards alone explain a factor of three. The rest has another cause: the reader augmented images on the CPU.",
)
def _k80(value: Mapping[str, Any]) -> Reply:
    return {"slowdown": ratio("Titan Xp", "K80", {"resnet50": "32", "unet": "2"})}


@scenario(
    "S175",
    question="Is an RTX 2080 Ti as fast as a Titan V for CNNs?",
    how="`predict resnet50` and `predict vgg16`, in fp32 and amp.",
)
def _titan_v(value: Mapping[str, Any]) -> Reply:
    nets = {"resnet50": "64", "vgg16": "32"}
    both = [ratio("RTX 2080 Ti", "Titan V", nets, precision) for precision in ("fp32", "amp")]
    return {"2080Ti/TitanV": over([found for each in both for found in (each.low, each.high)])}


@scenario(
    "S193",
    question="How much faster are the RTX 2070 and the RTX 2080 Ti than a GTX 1080 Ti?",
    how="`predict resnet50` and `predict word_lstm`, in amp and fp32.",
    why="Readers measured a gain of 0 to 15%, while the guide says 30%. With tensor cores, our ratio is higher; in fp32, it is "
    "below 1.",
)
def _turing(value: Mapping[str, Any]) -> Reply:
    return {
        "2070/1080Ti": _mixed("RTX 2070", "GTX 1080 Ti", "resnet50"),
        "2080Ti/1080Ti_lstm": _mixed("RTX 2080 Ti", "GTX 1080 Ti", "word_lstm"),
    }


@scenario(
    "S196",
    question="How much faster is ResNet-152 on an RTX 2080 Ti in 16-bit precision than on a GTX 1080 Ti in fp32?",
    how="`predict resnet152` at batch 32, in amp and fp32.",
    why="16-bit kernels were immature in 2018. In February 2019, Lambda measured a speed-up of 1.6 over a GTX 1080 Ti "
    "in 16-bit precision. Our software stacks are newer.",
)
def _resnet152(value: Mapping[str, Any]) -> Reply:
    return {"2080Ti16/1080Ti32": _mixed("RTX 2080 Ti", "GTX 1080 Ti", "resnet152", "32")}


@scenario(
    "S197",
    question="How much faster is 16-bit precision than fp32 on a GTX 1080 Ti?",
    how="`predict` in fp16 and fp32.",
    why="Readers saw a gain of 10 to 15%.",
)
def _pascal(value: Mapping[str, Any]) -> Reply:
    return {"speedup": gain("GTX 1080 Ti", "fp16")}


_ncs = unanswered(
    "S210",
    question="How fast is Intel's compute stick compared with an RTX 2070?",
    why="The quoted answer is wrong by a factor of more than ten. The stick is not a GPU, so it is not in the catalogue.",
)


@scenario(
    "S212",
    question="How much speed does a GTX 1080 Ti gain from 16-bit precision? (A reader's measurement.)",
    how="`predict` in fp16 and fp32.",
    why="16-bit precision halves the memory traffic but adds conversions. We predict a loss, while the reader saw a gain. Our "
    "calibration data contains no such step.",
)
def _pascal_measured(value: Mapping[str, Any]) -> Reply:
    found = gain("GTX 1080 Ti", "fp16")
    return {"speedup": Ours(value=found.value - 1, low=found.low - 1, high=found.high - 1)}


_shared_memory = unanswered(
    "S219",
    question="Why are RTX cards slow at word-level RNNs?",
    why="The quoted answer is speculation, and a later edition contradicts it. Shared memory is not in the catalogue, and we "
    "find no such weakness.",
)


@scenario(
    "S225",
    question="How fast is a TPU compared with a GPU for transformers?",
    how="`predict transformer_big` and `predict bert-base`, on four TPU v2 chips (one Cloud TPU) in bf16 and on a V100 in amp.",
    why="Our calibration data includes no TPUs.",
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
    question="How much more speed per dollar does an RTX 2060 offer than a V100?",
    how="`compare` on three models, with a V100 at eight times the price of an RTX 2080 Ti (Lambda, February 2019).",
    at_least=("ratio",),
)
def _per_dollar(value: Mapping[str, Any]) -> Reply:
    price = _V100_OVER_2080TI * (card("RTX 2080 Ti").launch_usd or 0.0)
    found = gpuwise.compare(["V100 PCIe 16GB", "RTX 2060"], model=list(KINDS), batch="16", price=[f"V100 PCIe 16GB={price}"])
    return {"ratio": next(deal.value or 0.0 for deal in found.deals if deal.gpu == "RTX 2060")}


def _mixed(gpu: str, base: str, model: str, batch: str = "64") -> float:
    """16 bits with tensor cores, compared with fp32 without."""
    return step(model, gpu, batch, "amp").samples_per_s / step(model, base, batch).samples_per_s


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
