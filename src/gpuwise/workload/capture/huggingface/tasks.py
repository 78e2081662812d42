"""The task of a Hugging Face model, which determines its inputs and loss: text, speech, images, or images with texts.

The task follows from the head named in the configuration, or else from what transformers can build for that model type. Sequences
are full: without padding there is no attention mask, so a GPU can use its fused causal attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.models.auto import modeling_auto

from gpuwise.core.errors import BadValue

__all__ = ["Task", "choose_task", "longest", "step_of"]

Inputs = Callable[[Any, int, int], dict[str, torch.Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of model. `seq` is the default length (0: no sequence), and `batch` is the default batch of a training step."""

    name: str
    mapping: str
    inputs: Inputs
    labels: Inputs
    seq: int
    batch: int = 32


def _tokens(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.zeros(batch, seq, dtype=torch.int64)}


def _mel(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Return thirty seconds of audio, for which the model is built: two spectrogram frames per encoder position."""
    return {"input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)}


def _samples(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Return the audio samples that give `seq` frames after the convolutions (320 samples per frame at 16 kHz: 20 ms)."""
    length = seq
    for kernel, stride in reversed(list(zip(config.conv_kernel, config.conv_stride, strict=True))):
        length = (length - 1) * stride + kernel
    return {"input_values": torch.randn(batch, length)}


def _image(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return {"pixel_values": torch.randn(batch, getattr(config, "num_channels", 3), height, width)}


def _pairs(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Return images, each with its text."""
    return _image(config.vision_config, batch, seq) | _tokens(config, batch, seq)


def _no_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {}


def _pixel_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Return a class for each pixel."""
    height, width = _image(config, 1, seq)["pixel_values"].shape[-2:]
    return {"labels": torch.zeros(batch, height, width, dtype=torch.int64)}


def _token_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"labels": torch.zeros(batch, seq, dtype=torch.int64)}


def _class_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"labels": torch.zeros(batch, dtype=torch.int64)}


def _span_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(batch, dtype=torch.int64) for name in ("start_positions", "end_positions")}


def _characters(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Return a transcript with one character per four frames (12 per second)."""
    return {"labels": torch.zeros(batch, max(1, seq // 4), dtype=torch.int64)}


# Models in RoBERTa's family number positions starting from the padding token, and so lose the first few.
_FROM_PADDING = (
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "data2vec-text",
    "mpnet",
    "longformer",
)

# In order of preference if the configuration names no head.
_TASKS = (
    Task(name="speech to text", mapping="SPEECH_SEQ_2_SEQ", inputs=_mel, labels=_token_labels, seq=448, batch=8),
    Task(name="text to text", mapping="SEQ_TO_SEQ_CAUSAL_LM", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="speech recognition", mapping="CTC", inputs=_samples, labels=_characters, seq=500, batch=8),
    Task(name="masked language model", mapping="MASKED_LM", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="causal language model", mapping="CAUSAL_LM", inputs=_tokens, labels=_token_labels, seq=2048, batch=8),
    Task(name="image and text", mapping="ZERO_SHOT_IMAGE_CLASSIFICATION", inputs=_pairs, labels=_no_labels, seq=77, batch=64),
    Task(name="image segmentation", mapping="SEMANTIC_SEGMENTATION", inputs=_image, labels=_pixel_labels, seq=0, batch=8),
    Task(name="image classification", mapping="IMAGE_CLASSIFICATION", inputs=_image, labels=_class_labels, seq=0),
    Task(name="text classification", mapping="SEQUENCE_CLASSIFICATION", inputs=_tokens, labels=_class_labels, seq=512),
    Task(name="token classification", mapping="TOKEN_CLASSIFICATION", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="question answering", mapping="QUESTION_ANSWERING", inputs=_tokens, labels=_span_labels, seq=512),
)


def choose_task(config: Any) -> tuple[Task, str]:
    """Return the task of a configuration and the class to build: for the head it names, or else for the first task its type
    supports.
    """
    heads = {task.name: _heads(task, config.model_type) for task in _TASKS}
    for named in getattr(config, "architectures", None) or ():
        for task in _TASKS:
            if named in heads[task.name]:
                return task, named
    for task in _TASKS:
        if heads[task.name] and _suits(task, config):
            return task, heads[task.name][0]
    raise BadValue(
        f"models of type '{config.model_type}' cannot be captured from a configuration",
        known=", ".join(task.name for task in _TASKS),
        hint="build the model in your own file and capture that file: `my_model.py:build`",
    )


def _heads(task: Task, model_type: str) -> tuple[str, ...]:
    named = getattr(modeling_auto, f"MODEL_FOR_{task.mapping}_MAPPING_NAMES").get(model_type, ())
    return (named,) if isinstance(named, str) else tuple(named)


def _suits(task: Task, config: Any) -> bool:
    """Encoder-decoders both read and write text. A BERT that is configured as a decoder is a causal model, and any other BERT is
    masked.
    """
    if task.mapping == "SEQ_TO_SEQ_CAUSAL_LM":
        return bool(config.is_encoder_decoder)
    return not (task.mapping == "MASKED_LM" and getattr(config, "is_decoder", False))


def longest(task: Task, config: Any) -> int | None:
    """Return the most positions the model supports, or None if its positions are relative."""
    if task.mapping == "CTC":
        return None
    if task.mapping == "SPEECH_SEQ_2_SEQ":
        return int(config.max_target_positions)
    text = config.get_text_config()
    positions = getattr(text, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    if text.model_type in _FROM_PADDING:
        return positions - (text.pad_token_id or 0) - 1
    return positions


def step_of(task: Task) -> Callable[[Any, dict[str, Any], bool], Any]:
    """Return what a step of this task computes from the model, its inputs and whether it trains."""
    return {"CTC": _ctc_step, "ZERO_SHOT_IMAGE_CLASSIFICATION": _contrastive_step}.get(task.mapping, _plain_step)


def _plain_step(model: Any, inputs: dict[str, Any], training: bool) -> Any:
    """Return the model's own loss in training, otherwise its scores; question answering has scores for the start and end."""
    output = model(**inputs)
    if training:
        return output.loss
    return output.logits if "logits" in output else (output.start_logits, output.end_logits)


def _ctc_step(model: Any, inputs: dict[str, Any], training: bool) -> Any:
    """Return the scores of a speech recogniser, or its loss against transcripts of full length."""
    scores = model(input_values=inputs["input_values"]).logits
    if not training:
        return scores
    from gpuwise.workload.capture.huggingface.ctc import ctc_loss

    return ctc_loss(scores, inputs["labels"])


def _contrastive_step(model: Any, inputs: dict[str, Any], training: bool) -> Any:
    """Return the score of every image with every text, or the loss that pairs them."""
    output = model(**inputs, return_loss=training)
    return output.loss if training else output.logits_per_image
