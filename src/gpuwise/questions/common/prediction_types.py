"""The types of a prediction for one model on one GPU, and of an answer with several predictions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.options import Shown
from gpuwise.step.memory.peak import Memory

__all__ = ["OpShare", "PredictAnswer", "Prediction", "Training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpShare:
    """All ops of one kind: their count, time and bound, and their position on a roofline."""

    op: str
    count: int
    seconds: float
    bound: str
    flops: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How much is trained: the samples of an epoch, and how many epochs."""

    samples: float
    epochs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One model on one GPU (or several of one kind). `range_basis` is assumed if no measurement supports the range.
    `peak_flops_per_s` is the GPU's peak in the types that the step `computes_in`. `method` is what is trained if that is
    not all weights, `tokens` the tokens per sample that a step of a language model processes, `samples` what the samples of
    other models are called, and `audio_s` the seconds of sound in a sample of a speech model. `training` is the total
    amount of training, if the user says how much.
    """

    gpu: Gpu
    gpu_count: int
    mode: str
    precision: str
    batch: int
    seq: int | None
    step_s: float
    step_low_s: float
    step_high_s: float
    range_basis: str
    bound: str
    bound_fractions: dict[str, float]
    lanes_s: dict[str, float]
    memory: Memory
    fits: bool
    coverage_fraction: float
    utilisation_fraction: float | None
    peak_flops_per_s: float | None
    computes_in: str
    by_op: tuple[OpShare, ...]
    assumptions: tuple[Assumption, ...]
    method: str = ""
    trained_parameters: int | None = None
    tokens: int | None = None
    samples: str = "samples"
    audio_s: float | None = None
    training: Training | None = None

    @property
    def samples_per_s(self) -> float:
        return self.batch * self.gpu_count / self.step_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of a language model; a decoding step counts one token per sample."""
        return None if self.tokens is None else self.samples_per_s * self.tokens

    @property
    def rate(self) -> tuple[float, str]:
        """The speed in the unit that people use for this kind of model, and that unit."""
        if self.audio_s is not None:
            return self.samples_per_s * self.audio_s, "x realtime"
        return (self.samples_per_s, f"{self.samples}/s") if self.tokens_per_s is None else (self.tokens_per_s, "tokens/s")

    @property
    def epoch_s(self) -> float | None:
        """One pass over the training samples."""
        return None if self.training is None else self.training.samples / self.samples_per_s

    def _trained(self) -> dict[str, Any]:
        """The time of an epoch and of all epochs, with its range."""
        if self.training is None or self.epoch_s is None:
            return {}
        whole = self.epoch_s * self.training.epochs
        return {
            "samples": self.training.samples,
            "epochs": self.training.epochs,
            "epoch_s": self.epoch_s,
            "training_s": whole,
            "training_low_s": whole * self.step_low_s / self.step_s,
            "training_high_s": whole * self.step_high_s / self.step_s,
        }

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        rate, unit = self.rate
        return {
            "gpu": self.gpu.name,
            "gpu_count": self.gpu_count,
            "mode": self.mode,
            **({"method": self.method, "trained_parameters": self.trained_parameters} if self.method else {}),
            "precision": self.precision,
            "batch": self.batch,
            "seq": self.seq,
            "step_s": self.step_s,
            "step_low_s": self.step_low_s,
            "step_high_s": self.step_high_s,
            "range_basis": self.range_basis,
            "samples_per_s": self.samples_per_s,
            **({"tokens_per_s": self.tokens_per_s} if self.tokens is not None else {}),
            "rate": rate,
            "rate_unit": unit,
            **self._trained(),
            "bound": self.bound,
            "bound_fractions": self.bound_fractions,
            "lanes_s": self.lanes_s,
            "memory": asdict(self.memory) | {"total_bytes": self.memory.total_bytes},
            "fits": self.fits,
            "coverage_fraction": self.coverage_fraction,
            "utilisation_fraction": self.utilisation_fraction,
            "peak_flops_per_s": self.peak_flops_per_s,
            "computes_in": self.computes_in,
            "by_op": [asdict(share) for share in self.by_op],
            "assumptions": as_dicts(self.assumptions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictAnswer(Shown):
    """The predictions, one for each GPU, in the order requested."""

    TEXT: ClassVar[str] = "questions.predict.text.render"
    FIGURE: ClassVar[str] = "questions.predict.figure.steps_figure"

    model: str
    results: tuple[Prediction, ...]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "model": self.model,
            "results": [result.to_dict() for result in self.results],
            "assumptions": as_dicts(self.assumptions),
            "notes": list(self.notes),
            "data_date": self.data_date.isoformat(),
        }
