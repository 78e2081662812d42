"""How a model is to be captured: what a user chooses, independent of the framework."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue

__all__ = ["MODES", "OPTIMIZERS", "PRECISIONS", "Settings"]

MODES = ("train", "infer")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16", "fp8")
OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw", "adafactor", "lion", "adam8bit")
_IMPLEMENTATIONS = ("foreach", "fused", "for-loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices behind one workload. `accumulate` micro-batches make one step."""

    mode: str = "train"
    precision: str = "fp32"
    optimizer: str = "sgd"
    implementation: str = "foreach"
    accumulate: int = 1
    checkpoint: bool = False
    channels_last: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.mode, MODES, "mode"),
            (self.precision, PRECISIONS, "precision"),
            (self.optimizer, OPTIMIZERS, "optimizer"),
            (self.implementation, _IMPLEMENTATIONS, "optimizer implementation"),
        ):
            if value not in known:
                raise BadValue(f"unknown {what} '{value}'", looked_in=", ".join(known), hint=f"for example `{known[0]}`")
        if not 1 <= self.accumulate <= 1024:
            raise BadValue(f"{self.accumulate} micro-batches a step cannot be captured", hint="between 1 and 1024")
