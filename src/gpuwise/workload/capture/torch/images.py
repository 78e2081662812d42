"""Image models: square images in, class scores out (for the whole image or each position); cross-entropy in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuwise.workload.capture.torch.step import Subject

__all__ = ["image_subject", "scores_of"]

_CLASSES = 1000


def image_subject(build: Callable[[], torch.nn.Module], size: int, channels: int = 3) -> Subject:
    """Capture this model on `size` x `size` images; in training with labels and cross-entropy."""

    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, channels, size, size), torch.zeros(batch, dtype=torch.int64)

    def forward(model: torch.nn.Module, batch: Any, training: bool) -> Any:
        scores = scores_of(model(batch[0]))
        return torch.nn.functional.cross_entropy(scores, _labels(batch[1], scores)) if training else scores

    return Subject(build=build, inputs=inputs, forward=forward)


def _labels(labels: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return one label per image, or one per position if scores are per position."""
    places = scores.shape[2:]
    return labels if not places else labels.new_zeros((scores.shape[0], *places))


def scores_of(output: Any) -> torch.Tensor:
    """The main scores of a model that may return several (GoogLeNet and Inception add auxiliary ones in training)."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        return next(iter(output.values()))
    return output[0]
