"""Builds a transformers model from its configuration, without weight values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import transformers

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.huggingface.configs import reason
from gpuwise.workload.capture.huggingface.experts import balance_experts

__all__ = ["build", "kept_dtype", "train_top"]

_KEPT = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16, "amp": torch.float16, "amp-bf16": torch.bfloat16}


def build(config: Any, head: str, few_pairs: bool) -> Any:
    """Build the model of class `head` in fp32; `few_pairs` says that a step has fewer token-expert pairs than experts."""
    kind = getattr(transformers, head)
    try:
        with _no_initial_values():
            model = kind._from_config(config, attn_implementation=_attention(kind, config), dtype=torch.float32)
        model.tie_weights()
    except Exception as fault:
        raise BadValue(
            f"transformers cannot build {head} from this configuration: {reason(fault)}",
            hint="check that the sizes are consistent (hidden size, heads, groups)",
        ) from None
    balance_experts(model, few_pairs)
    return model


def train_top(model: Any) -> None:
    """Freeze a model except for its head and its last block, as tutorials on fine-tuning do."""
    base = model.base_model
    blocks = max((part for part in base.modules() if isinstance(part, torch.nn.ModuleList)), key=len, default=None)
    base.requires_grad_(False)
    if blocks is not None:
        blocks[-1].requires_grad_(True)


def kept_dtype(precision: str) -> torch.dtype:
    """Return the type in which keys and values are cached."""
    return _KEPT.get(precision, torch.float32)


def _attention(kind: Any, config: Any) -> str:
    """Use fused attention if the model supports it; soft-capped scores and older models compute it step by step."""
    capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)
    return "sdpa" if getattr(kind, "_supports_sdpa", False) and not capped else "eager"


@contextlib.contextmanager
def _no_initial_values() -> Iterator[None]:
    """Leave parameters uninitialised: a capture needs no values."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        from transformers.modeling_utils import no_init_weights
    with no_init_weights():
        yield
