"""Rows of image generation: what a program's call contains, and which user reports reflect the GPU's speed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwise.evidence.e2e import Part
from gpuwise.hardware.types import Gpu
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import DTYPE_BYTES, Settings
from gpuwise.workload.store import zoo
from gpuwise.workload.store.pipelines import Pipeline, pipeline_of

__all__ = ["SCRIPT", "WEB_UI", "around", "call_fraction", "moved_bytes", "program_of", "unlike"]

WEB_UI, SCRIPT = "web ui", "script"  # programs whose whole call was timed: with hooks and options around every layer, or without
_WEB_UIS = re.compile(r"SD\.next|A1111|Forge|Comfy|Invoke|web ?ui", re.IGNORECASE)
_WHOLE_CALL = re.compile(r"wall time|end-to-end", re.IGNORECASE)
_STEPS = re.compile(r"(\d{1,4}) steps")
_USUAL_STEPS = 20.0
_BUILD = re.compile(r"torch \S*?\+(cu\d+|cpu)", re.IGNORECASE)
_IN_SLICES = re.compile(
    r"original|doggettx|invokeai|dynamic attention|split attention|batch matrix|sub-?quadratic|disabled|\bV1\b", re.IGNORECASE
)
_OTHER_DECODER = re.compile(r"consistency decoder|tiny vae", re.IGNORECASE)
_KEEPS_ON_THE_HOST = re.compile(r"^SD\.next,.*Scaled-Dot-Product", re.IGNORECASE)  # only this program uses this name
_KEPT_WEIGHTS = 0.25  # share of the memory above which it keeps weights on the host between uses, by default
_MOST_WEIGHTS = 0.75  # share of the memory above which programs have to move weights back and forth


def call_fraction(cells: Mapping[str, str]) -> float:
    """Return the share of one iteration in a program's whole call, or 0 if only the iterations were timed."""
    note = cells.get("note", "")
    if cells["unit"] != "it_per_s" or not _WHOLE_CALL.search(note):
        return 0.0
    found = _STEPS.search(note)
    return 1.0 / (float(found[1]) if found and int(found[1]) else _USUAL_STEPS)


def program_of(cells: Mapping[str, str]) -> str:
    """Return the kind of program behind a whole call, or an empty string if it is not one."""
    if not call_fraction(cells):
        return ""
    return WEB_UI if _WEB_UIS.search(cells["stack"]) else SCRIPT


def around(cells: Mapping[str, str], request: Request, batch: float) -> tuple[Part, ...]:
    """Return the models that a call runs besides the denoiser, as a share per iteration at this batch."""
    fraction, pipeline = call_fraction(cells), pipeline_of(request.model)
    if not fraction or pipeline is None:
        return ()
    images = batch / pipeline.passes
    named = [(name, float(pipeline.passes)) for name in pipeline.texts] + [(pipeline.decoder, images)]
    settings = Settings(mode="infer", precision=request.settings.precision, optimizer="none")
    return tuple(
        Part(workload=zoo.load(name, Request(model=name, settings=settings)), batch=size, share=fraction) for name, size in named
    )


def moved_bytes(cells: Mapping[str, str], gpu: Gpu, request: Request) -> float:
    """Return the bytes of weights that a program moves to the GPU per iteration, as its share of a call."""
    pipeline = pipeline_of(request.model)
    if pipeline is None or not _KEEPS_ON_THE_HOST.search(cells["stack"]):
        return 0.0
    weights = _weight_bytes(pipeline, request)
    return call_fraction(cells) * weights if weights > _KEPT_WEIGHTS * gpu.usable_memory_bytes else 0.0


def unlike(cells: Mapping[str, str], gpu: Gpu, request: Request) -> str:
    """Return why a call differs from the one that the models describe, or an empty string if nothing suggests that it does."""
    pipeline = pipeline_of(request.model)
    if pipeline is None or not call_fraction(cells):
        return ""
    build = _BUILD.search(cells["stack"])
    if build and gpu.vendor != "NVIDIA":
        return (
            f"a {'CPU' if build[1] == 'cpu' else 'CUDA'} build of PyTorch on a card from {gpu.vendor}, which "
            "runs translated kernels"
        )
    if _IN_SLICES.search(cells["stack"]):
        return "attention in slices, which gpuwise does not predict"
    if _OTHER_DECODER.search(cells["stack"]):
        return "a decoder other than the model's own"
    if _weight_bytes(pipeline, request) > _MOST_WEIGHTS * gpu.usable_memory_bytes:
        return "weights that do not fit in memory at once, so programs swap them in and out"
    return ""


def _weight_bytes(pipeline: Pipeline, request: Request) -> float:
    return pipeline.parameters * DTYPE_BYTES.get(request.settings.precision, DTYPE_BYTES["fp32"])
