"""The sizes of a decoder-only language model, and what follows from them: parameters, linear layers, bytes of its cache."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LanguageShape", "Linear"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight matrix: its input and output sizes, and its name in a block."""

    name: str
    inner: int
    outer: int

    @property
    def weights(self) -> int:
        return self.inner * self.outer


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageShape:
    """The sizes in a model's configuration.

    `intermediate` is the width of a dense MLP. With `experts`, all layers after the first `dense_layers` have that many MLPs of
    width `expert_intermediate`. Of these, `chosen` process each token, in addition to a shared MLP of width
    `shared_intermediate`. `latent` is the rank of compressed keys and values (multi-head latent attention), `rope_dim` is the
    additional part of a head that carries the position, and `query_latent` is the rank of compressed queries. `window_layers` of
    the layers attend to only `window` tokens. `norms` is the number of norms with weights in one layer; if a layer has none, the
    last norm has no weights either. `layer_norm` says that norms have a bias in addition to the weight. `qk_norm` adds a norm
    for queries and one for keys, with the width of one head or, with `wide_qk_norm`, of all heads. `sinks` gives each head a
    learned weight for attending to nothing.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    value_dim: int = 0
    gated: bool = True
    tied: bool = False
    layer_norm: bool = False
    norms: int = 2
    qk_norm: bool = False
    wide_qk_norm: bool = False
    embedding_norm: bool = False
    sinks: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    head_bias: bool = False
    experts: int = 0
    chosen: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    shared_gate: bool = False
    dense_layers: int = 0
    latent: int = 0
    rope_dim: int = 0
    query_latent: int = 0
    window: int = 0
    window_layers: int = 0
    positions: int = 0

    @property
    def values(self) -> int:
        """The width of a head's values."""
        return self.value_dim or self.head_dim

    @property
    def routed_layers(self) -> int:
        """The number of layers whose MLP is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def attention_linears(self) -> tuple[Linear, ...]:
        """The linear layers of one attention, with each projection separate."""
        queries, output = self.heads * self.head_dim, Linear("output", self.heads * self.values, self.hidden)
        if self.latent:
            asked = (
                (Linear("query_down", self.hidden, self.query_latent), Linear("query_up", self.query_latent, queries))
                if self.query_latent
                else (Linear("query", self.hidden, queries),)
            )
            down = Linear("kv_down", self.hidden, self.latent + self.rope_dim)
            up = Linear("kv_up", self.latent, self.heads * (self.head_dim - self.rope_dim + self.values))
            return (*asked, down, up, output)
        wide = self.kv_heads * self.head_dim
        return (
            Linear("query", self.hidden, queries),
            Linear("key", self.hidden, wide),
            Linear("value", self.hidden, wide),
            output,
        )

    def mlp_linears(self, width: int) -> tuple[Linear, ...]:
        """The linear layers of an MLP with this width."""
        up = Linear("up", self.hidden, width)
        gate = (Linear("gate", self.hidden, width),) if self.gated else ()
        return (*gate, up, Linear("down", width, self.hidden))

    @property
    def expert_weights(self) -> int:
        """Weights of one expert."""
        return sum(linear.weights for linear in self.mlp_linears(self.expert_intermediate))

    @property
    def table_weights(self) -> int:
        """Weights of the embedding table."""
        return self.vocabulary * self.hidden

    @property
    def block_weights(self) -> int:
        """Weights of all linear layers in the blocks, including every expert."""
        return self._block_weights(self.experts)

    @property
    def active_block_weights(self) -> int:
        """Weights of all linear layers in the blocks, with only the experts that process one token."""
        return self._block_weights(self.chosen)

    def _block_weights(self, experts: int) -> int:
        attention = self.layers * sum(linear.weights for linear in self.attention_linears)
        dense = (self.layers - self.routed_layers) * sum(linear.weights for linear in self.mlp_linears(self.intermediate))
        shared = sum(linear.weights for linear in self.mlp_linears(self.shared_intermediate)) if self.shared_intermediate else 0
        routed = self.routed_layers * (experts * self.expert_weights + shared + self.hidden * self.experts)
        return attention + dense + routed

    @property
    def parameters(self) -> int:
        """All weights; a table shared with the last layer counts once."""
        tables = self.table_weights * (1 if self.tied else 2) + self.positions * self.hidden
        return self.block_weights + tables + self._vector_weights

    @property
    def active_parameters(self) -> int:
        """Weights used for one token."""
        return self.parameters - self.block_weights + self.active_block_weights

    @property
    def _vector_weights(self) -> int:
        """Norms, biases, sinks and gates."""
        each = 2 if self.layer_norm else 1
        norms = self.layers * self.norms + (self.norms > 0) + self.embedding_norm
        head = self.vocabulary if self.head_bias else 0
        return norms * self.hidden * each + self.layers * self._attention_vectors + self._mlp_vectors + head

    @property
    def _attention_vectors(self) -> int:
        """Weights of one attention that are not matrices."""
        keys = self.kv_heads * self.head_dim
        queries = self.heads * self.head_dim
        found = self.latent + self.query_latent + (self.heads if self.sinks else 0)
        if self.qk_norm:
            found += (queries + keys if self.wide_qk_norm else 2 * self.head_dim) * (2 if self.layer_norm else 1)
        if self.attention_bias:
            found += self.query_latent + self.latent + self.rope_dim if self.latent else queries + 2 * keys
        return found + (self.hidden if self.output_bias else 0)

    @property
    def _mlp_vectors(self) -> int:
        """Weights of all MLPs together that are not matrices."""
        found = self.routed_layers * self.hidden if self.shared_gate else 0
        if self.router_bias:
            found += self.routed_layers * self.experts
        if self.mlp_bias:
            wide = 2 if self.gated else 1
            found += (self.layers - self.routed_layers) * (self.intermediate * wide + self.hidden)
            found += self.routed_layers * self.experts * (self.expert_intermediate * wide + self.hidden)
        return found

    @property
    def cache_elements(self) -> int:
        """Numbers that one layer keeps per token."""
        return self.latent + self.rope_dim if self.latent else self.kv_heads * (self.head_dim + self.values)

    def cached_tokens(self, context: float) -> float:
        """Tokens that all layers together keep for a context of this length: a window keeps no more than its length."""
        short = min(context, self.window) if self.window else context
        return (self.layers - self.window_layers) * context + self.window_layers * short
