"""What a Hugging Face model is for, and so what goes in and what its loss is: text, text to text, speech or images.

The task follows from the head named in the configuration, else from what transformers can build of that model type. Sequences
are full: no padding, so no attention mask, which is what lets a GPU use its fused causal attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.models.auto import modeling_auto

from gpuwise.core.errors import BadValue

__all__ = ["Task", "choose_task", "ctc_step", "longest", "plain_step"]

Inputs = Callable[[Any, int, int], dict[str, torch.Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of model. `seq` is the usual length (0: no sequence), `batch` the usual batch of a training step."""

    name: str
    mapping: str
    inputs: Inputs
    labels: Inputs
    seq: int
    batch: int = 32


def _tokens(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.zeros(batch, seq, dtype=torch.int64)}


def _mel(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """Thirty seconds of audio, as the model is built for: two spectrogram frames per encoder position."""
    return {"input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)}


def _samples(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """As many audio samples as give `seq` frames after the convolutions (320 samples a frame at 16 kHz: 20 ms)."""
    length = seq
    for kernel, stride in reversed(list(zip(config.conv_kernel, config.conv_stride, strict=True))):
        length = (length - 1) * stride + kernel
    return {"input_values": torch.randn(batch, length)}


def _image(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return {"pixel_values": torch.randn(batch, getattr(config, "num_channels", 3), height, width)}


def _token_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"labels": torch.zeros(batch, seq, dtype=torch.int64)}


def _class_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {"labels": torch.zeros(batch, dtype=torch.int64)}


def _span_labels(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(batch, dtype=torch.int64) for name in ("start_positions", "end_positions")}


def _characters(config: Any, batch: int, seq: int) -> dict[str, torch.Tensor]:
    """A transcript with a character for every four frames (12 a second)."""
    return {"labels": torch.zeros(batch, max(1, seq // 4), dtype=torch.int64)}


# RoBERTa's family numbers positions from the padding token on, and so loses the first few.
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

# In the order of preference where the configuration names no head.
_TASKS = (
    Task(name="speech to text", mapping="SPEECH_SEQ_2_SEQ", inputs=_mel, labels=_token_labels, seq=448, batch=8),
    Task(name="text to text", mapping="SEQ_TO_SEQ_CAUSAL_LM", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="speech recognition", mapping="CTC", inputs=_samples, labels=_characters, seq=500, batch=8),
    Task(name="masked language model", mapping="MASKED_LM", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="causal language model", mapping="CAUSAL_LM", inputs=_tokens, labels=_token_labels, seq=2048, batch=8),
    Task(name="image classification", mapping="IMAGE_CLASSIFICATION", inputs=_image, labels=_class_labels, seq=0),
    Task(name="text classification", mapping="SEQUENCE_CLASSIFICATION", inputs=_tokens, labels=_class_labels, seq=512),
    Task(name="token classification", mapping="TOKEN_CLASSIFICATION", inputs=_tokens, labels=_token_labels, seq=512),
    Task(name="question answering", mapping="QUESTION_ANSWERING", inputs=_tokens, labels=_span_labels, seq=512),
)


def choose_task(config: Any) -> tuple[Task, str]:
    """The task of a configuration and the class to build: of the head it names, else of the first task its type can do."""
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
    """Encoder-decoders read and write; a BERT that is told to decode is a causal model, any other masks."""
    if task.mapping == "SEQ_TO_SEQ_CAUSAL_LM":
        return bool(config.is_encoder_decoder)
    return not (task.mapping == "MASKED_LM" and getattr(config, "is_decoder", False))


def longest(task: Task, config: Any) -> int | None:
    """The most positions the model can take; None where its positions are relative."""
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


def plain_step(model: Any, inputs: dict[str, Any], training: bool) -> Any:
    """The model's own loss when training, else its scores; answers to questions have scores of where they start and end."""
    output = model(**inputs)
    if training:
        return output.loss
    return output.logits if "logits" in output else (output.start_logits, output.end_logits)


def ctc_step(model: Any, inputs: dict[str, Any], training: bool) -> Any:
    """Scores of a speech recogniser, or its loss against transcripts of full length."""
    scores = model(input_values=inputs["input_values"]).logits
    if not training:
        return scores
    from gpuwise.workload.capture.huggingface.ctc import ctc_loss

    return ctc_loss(scores, inputs["labels"])
