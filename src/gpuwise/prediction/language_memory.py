"""The memory of text generation in the form used by every answer about memory, and the longest context that fits."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Serving, generation_memory, room_bytes
from gpuwise.prediction.ways import largest
from gpuwise.step.memory.peak import Memory

__all__ = ["HIGH", "longest_context", "memory_of", "with_context"]

HIGH = 1.05  # upper end relative to the prediction, assumed, since engines plan their memory
_LONGEST = 2**20  # tokens, if a model does not state how many it supports


def memory_of(serving: Serving) -> Memory:
    """Return the bytes on the fullest GPU; the cache counts as activations, as in a decoding step."""
    held = generation_memory(serving)
    return Memory(
        weight_bytes=held.weight_bytes,
        gradient_bytes=0.0,
        optimizer_bytes=0.0,
        activation_bytes=held.cache_bytes + held.activation_bytes,
        workspace_bytes=0.0,
        framework_bytes=held.engine_bytes,
        kv_cache_bytes=held.cache_bytes,
        allocated_bytes=held.weight_bytes + held.cache_bytes + held.activation_bytes,
        reserved_bytes=held.total_bytes,
        low_bytes=held.total_bytes - held.engine_bytes,
        high_bytes=held.total_bytes * HIGH,
    )


def with_context(serving: Serving, context: int) -> Serving:
    """Return the serving with prompts and answers of this many tokens in total; an answer takes at most half of them."""
    output = max(1, min(serving.output, context // 2))
    return replace(serving, output=output, prompt=max(1, context - output))


def longest_context(serving: Serving, gpu: Gpu) -> int:
    """Return the tokens per request that all users can have at once, up to what the model supports; 0 if none fits."""
    return largest(
        lambda tokens: generation_memory(with_context(serving, tokens)).total_bytes,
        room_bytes(serving, gpu),
        top=serving.shape.context or _LONGEST,
    )
