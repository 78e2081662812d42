"""Memory used while a language model generates text: weights in their format, the cache of every request, the activations of one
pass, and the engine's own memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.step.time.engines import Engine
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import Format

__all__ = [
    "GenerationMemory",
    "block_bytes",
    "expert_bytes",
    "held_memory",
    "moved_bytes",
    "read_block_bytes",
    "read_expert_bytes",
]

_COMPUTED = DTYPE_BYTES["fp16"]  # bytes per value that is not packed


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMemory:
    """Bytes on the GPU that is fullest, and in the host's memory."""

    weight_bytes: float
    cache_bytes: float
    activation_bytes: float
    engine_bytes: float
    host_bytes: float = 0.0

    @property
    def allocated_bytes(self) -> float:
        """Bytes of tensors, without the engine's own memory."""
        return self.weight_bytes + self.cache_bytes + self.activation_bytes

    @property
    def total_bytes(self) -> float:
        return self.allocated_bytes + self.engine_bytes


def held_memory(
    shape: LanguageShape,
    weights: Format,
    engine: Engine,
    *,
    cache: str,
    users: int,
    prompt: int,
    context: int,
    gpu_count: int = 1,
    split: str = "",
    offloaded: float = 0.0,
    largest_share: float = 0.0,
) -> GenerationMemory:
    """Return the memory on the fullest GPU for this many requests of `context` tokens, with prompts of `prompt`. If layers are
    divided unequally, it has the `largest_share`. `offloaded` is the fraction of the layers, or of a mixture's experts, on the
    CPU.
    """
    share = tables = kept = 1.0
    if gpu_count > 1 and split == "tensor":
        share = tables = 1.0 / gpu_count
        kept = 1.0 / min(gpu_count, 1 if shape.latent else shape.kv_heads)  # key heads are divided, or repeated if too few
    elif gpu_count > 1:
        share = largest_share or -(-shape.layers // gpu_count) / shape.layers
        kept = share
        tables = 0.5  # the embedding table is on the first GPU, the output layer on the last
    cached = shape.cached_tokens(context) * shape.cache_elements * DTYPE_BYTES[cache] * users
    chunk = min(prompt, engine.chunk or prompt)
    wide = max(0 if shape.experts else shape.intermediate, shape.chosen * shape.expert_intermediate, shape.hidden)
    active = chunk * (4 * shape.hidden + 3 * wide) * _COMPUTED + users * shape.vocabulary * DTYPE_BYTES["fp32"]
    moved = moved_bytes(shape, weights) * offloaded
    gone = 0.0 if shape.experts else offloaded  # the share of the cache that moves with its layers
    return GenerationMemory(
        weight_bytes=(block_bytes(shape, weights) - moved) * share + _table_bytes(shape, weights) * tables,
        cache_bytes=cached * kept * (1.0 - gone),
        activation_bytes=float(active),
        engine_bytes=engine.fixed_bytes,
        host_bytes=moved + cached * gone,
    )


def moved_bytes(shape: LanguageShape, weights: Format) -> float:
    """Return the bytes on the CPU if everything that can be offloaded is: a mixture's experts, or else all blocks."""
    return expert_bytes(shape, weights) if shape.experts else block_bytes(shape, weights)


def expert_bytes(shape: LanguageShape, weights: Format) -> float:
    """Return the bytes of all experts."""
    return shape.routed_layers * shape.experts * shape.expert_weights * weights.bytes_a_weight


def block_bytes(shape: LanguageShape, weights: Format) -> float:
    """Return the bytes of the weights in the blocks, including every expert."""
    if not weights.experts_only:
        return shape.block_weights * weights.bytes_a_weight
    experts = shape.routed_layers * shape.experts * shape.expert_weights
    others = DTYPE_BYTES[weights.rest] if weights.rest else _COMPUTED
    return experts * weights.bytes_a_weight + (shape.block_weights - experts) * others


def read_block_bytes(shape: LanguageShape, weights: Format, users: int) -> float:
    """Return the bytes of the blocks that one step reads; only experts chosen by some request count."""
    if not shape.experts:
        return block_bytes(shape, weights)
    missed = (1.0 - shape.chosen / shape.experts) ** users
    return block_bytes(shape, weights) - expert_bytes(shape, weights) * missed


def read_expert_bytes(shape: LanguageShape, weights: Format, users: int) -> float:
    """Return the bytes of the experts chosen by some request in one step."""
    return expert_bytes(shape, weights) * (1.0 - (1.0 - shape.chosen / shape.experts) ** users)


def _table_bytes(shape: LanguageShape, weights: Format) -> float:
    """Return the bytes of the embedding table, the output layer, norms and biases. A table shared with the output layer counts
    once.
    """
    table, head = (DTYPE_BYTES[name] if name else _COMPUTED for name in (weights.table, weights.head))
    rest = (shape.parameters - shape.block_weights - shape.table_weights * (1 if shape.tied else 2)) * _COMPUTED
    return shape.table_weights * (max(table, head) if shape.tied else table + head) + rest
