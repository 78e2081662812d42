"""How many seconds of audio one sample of a speech model contains; its speed is expressed relative to that.

A Whisper window is always 30 s. A frame of wav2vec 2.0 is 20 ms of sound at 16 kHz (strides of 320 samples). A mel frame of
Tacotron 2 is 256 samples, and WaveGlow's samples are those of its sound, both at 22.05 kHz.
"""

from __future__ import annotations

from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import zoo

__all__ = ["WINDOW_S", "audio_s", "transcribes"]

WINDOW_S = 30.0  # the length of a Whisper window
_FRAME_S = 320 / 16_000
_SYNTHESIS_HZ = 22_050
_HOP = 256


def transcribes(model: str) -> bool:
    """Return whether this is a built-in model that transcribes speech token by token."""
    return zoo.has(model) and zoo.entry(model).family == "whisper"


def audio_s(workload: Workload) -> float | None:
    """Return the seconds of sound in one sample of this workload, or None if it is not a speech model."""
    family = _family(workload.model)
    if family == "whisper":
        return WINDOW_S
    if family == "wav2vec2" and workload.seq is not None:
        return workload.seq * _FRAME_S
    frames, samples = workload.options.get("frames"), workload.options.get("samples")
    if family == "tacotron" and isinstance(frames, int):
        return frames * _HOP / _SYNTHESIS_HZ
    return samples / _SYNTHESIS_HZ if family == "waveglow" and isinstance(samples, int) else None


def _family(model: str) -> str:
    """Return the family of a built-in model, even if it was captured from its source instead."""
    source = f"hf:{model.removeprefix('hf:')}"
    found = next((one for one in zoo.entries().values() if source == one.source), None)
    return found.family if found else zoo.entry(model).family if zoo.has(model) else ""
