"""Memory of a decoder-only language model that is partly fine-tuned (LoRA, adapters, 4-bit weights) or generates text.

Tensors are counted from the model's shape, as PyTorch's autograd keeps them when the large weights are frozen: a frozen linear
layer keeps no input; a norm keeps its input (in fp32 if it computes in fp32); attention keeps q, k, v and its output; a gated MLP
keeps three tensors of its width. LitGPT's additions (the padded result of LoRA on some of q, k and v; 4-bit linear layers) were
inferred from its published peaks and are marked as such. Bytes are those counted by `torch.cuda.max_memory_allocated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Adaptation", "DecoderShape", "LanguageMemory", "adaptation_memory", "generation_memory", "shape_from_config"]

# Bytes per weight of a linear layer: 4-bit NormalFloat has an fp32 scale per 64 weights; double quantisation replaces it with an
# 8-bit scale plus an fp32 one per 256 scales (Dettmers et al. 2023, QLoRA, section 3). Autocast keeps a 16-bit copy of fp32
# weights.
WEIGHT_BYTES: Mapping[str, float] = {"bf16": 2, "mixed": 6, "nf4": 0.5 + 4 / 64, "nf4-dq": 0.5 + 1 / 64 + 4 / (64 * 256)}
_LOW, _FULL = 2, 4  # bytes of a 16-bit and of an fp32 value
_ADAM = 2  # moments
_LOGIT = 4 * _LOW  # logits, their log-softmax, and the gradients of both
_GATED = ("llama", "mistral", "gemma", "gemma2", "qwen2", "phi3")
_LAYER_NORM = ("gpt_neox", "phi", "falcon", "gptj")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """Sizes of a decoder-only model. `norms` are those of one layer; the embedding and the head count as two tables."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    gated: bool = True
    layer_norm: bool = False
    norms: int = 2

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers in one block."""
        wide = ((self.hidden, self.intermediate),) * (2 if self.gated else 1)
        attention = ((self.hidden, self.query_width + 2 * self.kv_width), (self.query_width, self.hidden))
        return (*attention, *wide, (self.intermediate, self.hidden))

    @property
    def block_parameters(self) -> float:
        """Weights of all linear layers except the head."""
        return float(self.layers * sum(into * out for into, out in self.linears))

    @property
    def table_parameters(self) -> float:
        """Weights of the embedding and of the head."""
        return float(self.vocabulary * self.hidden)

    @property
    def norm_parameters(self) -> float:
        return float((self.layers * self.norms + 1) * self.hidden * (2 if self.layer_norm else 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """How a model is tuned: `method` is full, lora, adapter or adapter_v2; `weights` is a key of `WEIGHT_BYTES`. LoRA is applied
    to the query and value projections, or to all linear layers.
    """

    method: str
    weights: str = "bf16"
    rank: int = 8
    everywhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageMemory:
    """Allocated bytes at the peak, by category."""

    weight_bytes: float
    gradient_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    activation_bytes: float = 0.0
    kv_cache_bytes: float = 0.0
    workspace_bytes: float = 0.0

    @property
    def allocated_bytes(self) -> float:
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.kv_cache_bytes
            + self.workspace_bytes
        )


def adaptation_memory(shape: DecoderShape, how: Adaptation, *, batch: int, seq: int) -> LanguageMemory:
    """Return the peak of a tuning step: weights, trained parameters with their gradients and two Adam moments, and what the
    backward pass needs.
    """
    trained = _trained(shape, how)
    tokens = batch * seq
    per_token = shape.layers * _kept_per_token(shape, how) + _LOGIT * shape.vocabulary + _LOW * shape.hidden
    own = 0.0 if how.method == "full" else trained * _LOW
    return LanguageMemory(
        weight_bytes=_weights(shape, how.weights) + own,
        gradient_bytes=trained * _LOW,
        optimizer_bytes=_ADAM * trained * _LOW,
        activation_bytes=float(tokens * per_token),
        workspace_bytes=_unpacking(shape, how.weights),
    )


def generation_memory(
    shape: DecoderShape, weights: str = "bf16", *, batch: int = 1, tokens: int = 300, split: str = "", devices: int = 1
) -> LanguageMemory:
    """Return the peak on one device during generation. `split` divides the devices by layers ("layers") or within each layer
    ("tensor"). The vocabulary tables are on every device that needs them.
    """
    share = devices if split else 1
    blocks = shape.block_parameters * WEIGHT_BYTES[weights] / share
    tables = _weights(shape, weights) - shape.block_parameters * WEIGHT_BYTES[weights]
    cache = 2 * shape.layers * shape.kv_width * _LOW * batch * tokens / share
    return LanguageMemory(weight_bytes=blocks + tables, kv_cache_bytes=float(cache), workspace_bytes=_unpacking(shape, weights))


def _weights(shape: DecoderShape, weights: str) -> float:
    plain = _FULL if weights == "mixed" else _LOW
    linear = (shape.block_parameters + shape.table_parameters) * WEIGHT_BYTES[weights]
    return linear + (shape.table_parameters + shape.norm_parameters) * plain


def _unpacking(shape: DecoderShape, weights: str) -> float:
    """4-bit weights are unpacked to 16 bits where they are used, ending with the head, the largest, and the embedding stays in
    fp32. Inferred from LitGPT's peaks: without this, every 4-bit row is too low by four bytes per weight of the head.
    """
    return 2 * _LOW * shape.table_parameters if weights.startswith("nf4") else 0.0


def _trained(shape: DecoderShape, how: Adaptation) -> float:
    if how.method == "full":
        return shape.block_parameters + 2 * shape.table_parameters + shape.norm_parameters
    if how.method != "lora":
        return 0.0  # adapters train about a thousandth of the weights
    if how.everywhere:
        head = shape.hidden + shape.vocabulary
        return float(how.rank * (shape.layers * sum(into + out for into, out in shape.linears) + head))
    return float(how.rank * shape.layers * (2 * shape.hidden + shape.query_width + shape.kv_width))


def _kept_per_token(shape: DecoderShape, how: Adaptation) -> float:
    """Return the bytes that one layer keeps per token for the backward pass."""
    norm = shape.norms * shape.hidden * (_LOW if shape.layer_norm else _FULL)
    mlp = shape.intermediate * (3 if shape.gated else 1) * _LOW
    return norm + _attention_kept(shape) + mlp + _added(shape, how)


def _attention_kept(shape: DecoderShape) -> float:
    """The result of the joint projection to q, k and v (v is a view of it), q and k after rotation, k and v repeated for every
    head if there are fewer of them, and the output.
    """
    repeated = 1 if shape.kv_width < shape.query_width else 0
    return _LOW * (shape.query_width + 2 * shape.kv_width + (3 + repeated) * shape.query_width)


def _added(shape: DecoderShape, how: Adaptation) -> float:
    """The data that the tuning method also keeps and, for 4-bit linear layers, a second copy of their output (from LitGPT's
    peaks).
    """
    outputs = sum(out for _, out in shape.linears)
    quantised = _LOW * outputs if how.weights.startswith("nf4") else 0.0
    if how.method == "full":
        return quantised + _LOW * sum(into for into, _ in shape.linears[:2]) + _LOW * (shape.hidden + shape.intermediate)
    if how.method == "adapter_v2":
        return quantised + 2 * _LOW * outputs  # a scale and a bias on every linear layer: both keep its output
    if how.method != "lora":
        return quantised
    dropped = _LOW + 1  # the input after dropout, and the mask
    if how.everywhere:
        return quantised + dropped * sum(into for into, _ in shape.linears)
    return quantised + dropped * shape.hidden + _LOW * (shape.query_width + 2 * shape.kv_width)


def shape_from_config(config: Mapping[str, Any]) -> DecoderShape | None:
    """Return the shape for a Hugging Face configuration, if it is a kind of decoder that is supported here."""
    kind = str(config.get("model_type", ""))
    if kind not in (*_GATED, *_LAYER_NORM):
        return None
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    return DecoderShape(
        hidden=hidden,
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=_falcon_kv_heads(config, heads) if kind == "falcon" else int(config.get("num_key_value_heads", heads)),
        head_dim=int(config.get("head_dim", hidden // heads)),
        intermediate=int(config.get("intermediate_size", 4 * hidden)),
        vocabulary=int(config["vocab_size"]),
        gated=kind in _GATED,
        layer_norm=kind in _LAYER_NORM,
        norms={"gemma2": 4, "phi": 1, "falcon": 2 if config.get("new_decoder_architecture") else 1, "gptj": 1}.get(kind, 2),
    )


def _falcon_kv_heads(config: Mapping[str, Any], heads: int) -> int:
    """Falcon uses its own names, and its first generation has one KV head for all heads."""
    if config.get("new_decoder_architecture"):
        return int(config.get("num_kv_heads") or heads)
    return 1 if config.get("multi_query", True) else heads
