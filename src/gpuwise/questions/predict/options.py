"""What `predict` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.questions.common.options import Link, Option
from gpuwise.questions.common.text_options import TextOptions

__all__ = ["PredictOptions"]

_BATCH = (
    "Samples per step on each GPU, or auto for the largest power of two that fits; for several, 8,32,128 or 1..128 (doubling)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions(TextOptions):
    """Predict the time and memory of a training or inference step on one or more GPUs, with a range and the bottleneck."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)

    batch: Annotated[Union[int, str, None], Option(help=_BATCH)] = None
    precision: Annotated[
        str, Option(help="The precision: fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8; for several, fp32,amp.")
    ] = ""
    link: Link = ""
    image_decode: Annotated[bool, Option(help="Also predict the data loader, which decodes JPEG files on the host's cores.")] = (
        False
    )
    workers: Annotated[
        Optional[int], Option(help="The number of loader processes per GPU, with --image-decode.", low=1, high=1024)
    ] = None
    on_this_machine: Annotated[
        bool, Option(help="Predict for the device that `gpuwise bench` measured on this machine, instead of --gpu.", page=False)
    ] = False
