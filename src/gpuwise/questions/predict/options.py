"""The options of `predict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import DenoisingSteps, Link, Option

__all__ = ["PredictOptions"]

_BATCH = (
    "Samples per step on each GPU, or auto for the largest power of two that fits; for several: 8,32,128 or 1..128 (doubling)."
)
_USERS = "The number of concurrent requests (default: 1); for a curve: 1,8,32 or 1..64 (doubling)."
_SLA = "The maximum time per token, such as 50ms, to show how many users it allows."
_FIRST = "The maximum time to the first token, such as 2s, to show how many users it allows."
_CACHED = "The fraction of each prompt that is already cached, such as 0.5, for the what-if estimate."


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions(LanguageOptions):
    """Predict the time and memory of a training or inference step on one or more GPUs, with the range and the bottleneck."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)

    batch: Annotated[Union[int, str, None], Option(help=_BATCH)] = None
    precision: Annotated[
        str, Option(help="The precision: fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8; for several: fp32,amp.")
    ] = ""
    steps: DenoisingSteps = None
    samples: Annotated[
        Optional[float], Option(help="The number of training samples per epoch; adds the time per epoch.", above=0, high=1e18)
    ] = None
    epochs: Annotated[Optional[float], Option(help="The number of epochs, with --samples (default: 1).", above=0, high=1e9)] = (
        None
    )
    users: Annotated[Union[int, str, None], Option(help=_USERS)] = None  # type: ignore[assignment]  # a curve has several
    sla: Annotated[str, Option(help=_SLA)] = ""
    first_token: Annotated[str, Option(help=_FIRST)] = ""
    prefix_cached: Annotated[Optional[float], Option(help=_CACHED, low=0, high=1)] = None
    link: Link = ""
    image_decode: Annotated[bool, Option(help="Also predict the data loader, which decodes JPEG files on the host CPU.")] = False
    workers: Annotated[
        Optional[int], Option(help="The number of loader processes per GPU, with --image-decode.", low=1, high=1024)
    ] = None
    on_this_machine: Annotated[
        bool, Option(help="Predict for the device that `gpuwise bench` measured on this machine, instead of --gpu.", page=False)
    ] = False
