"""Predicts speech recognition: the encoder processes a window of sound once, then the decoder writes the text token by token.

Both are ordinary steps of a model (`steps.py`). Decoding runs in `transformers`, whose host cost per layer was fitted on text
generation (docs/concepts/generating-text.md); a layer of Whisper's decoder attends twice, to the text and to the sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpuwise.hardware.types import Gpu
from gpuwise.prediction.run import Run
from gpuwise.prediction.steps import Steps, predict_steps
from gpuwise.step.memory.peak import Memory
from gpuwise.step.time.engines import fitted_engines
from gpuwise.step.types import Array, Stack
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.store.speech import WINDOW_S

__all__ = ["Transcripts", "transcribe"]

_ENGINE = "transformers"
_ATTENTIONS = 2  # attention ops in a decoder layer
_WIDER = 1.15  # range for a model that only resembles the measured ones, assumed


@dataclass(frozen=True, kw_only=True, eq=False)
class Transcripts:
    """The prediction for `windows` of sound at once, each transcribed in `tokens`, on each of several GPUs; arrays have one
    entry per GPU.
    """

    windows: int
    tokens: int
    listening: Steps
    writing: Steps

    @cached_property
    def call_s(self) -> Array:
        """Time from sound to text, for all windows together."""
        found: Array = self.listening.step_s[0] + self.tokens * self.writing.step_s[0]
        return found

    @cached_property
    def realtime(self) -> Array:
        """Seconds of sound transcribed per second."""
        found: Array = self.windows * WINDOW_S / self.call_s
        return found

    def memory(self, place: int) -> Memory:
        """The peak of encoding or decoding, whichever needs more."""
        return max((steps.memory(0, place) for steps in (self.listening, self.writing)), key=lambda held: held.total_bytes)

    def held_bytes(self, windows: int, place: int) -> float:
        """Return the memory that this many windows at once need on this GPU."""
        gpu = self.listening.gpus[place]
        return max(steps.needs.total_bytes(gpu, windows) for steps in (self.listening, self.writing))


def transcribe(model: str, gpus: Sequence[Gpu], run: Run, *, precision: str, windows: int, tokens: int) -> Transcripts:
    """Predict this many windows at once on each of these GPUs."""
    writing = _phase(model, precision, "decode").sized(seq=max(1, tokens // 2))
    stack = _as_written(run.setting.stack)
    return Transcripts(
        windows=windows,
        tokens=tokens,
        listening=predict_steps(_phase(model, precision, "prefill"), gpus, run, [windows]),
        writing=predict_steps(writing, gpus, replace(run, setting=replace(run.setting, stack=stack)), [windows]),
    )


def _as_written(stack: Stack) -> Stack:
    """PyTorch's kernels, with the host cost of `generate`. No speech model was measured, so the range is based on no rows."""
    fitted = fitted_engines()[_ENGINE]
    low, high = fitted.ranges["decode"]
    ends = (low / _WIDER, high * _WIDER)
    return replace(stack, layer_s=fitted.layer_s / _ATTENTIONS, step_s=fitted.step_s, widths=ends, rows=0)


def _phase(model: str, precision: str, phase: str) -> Workload:
    settings = Settings(mode="infer", precision=precision, optimizer="none")
    return zoo.load(model, Request(model=model, phase=phase, settings=settings))
