"""The Transformer for translation and Transformer-XL."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax, relu, scaled_dot_product_attention

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain
from zoo.recurrent import tokens

__all__ = ["models"]


class _Heads(nn.Module):
    """Multi-head attention with biased projections."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any, memory: Any, causal: bool) -> Any:
        q, k, v = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, y in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        mixed = scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    """Attention, attention to the encoder in decoders, and two dense layers, each added and normalised after."""

    def __init__(self, width: int, inner: int, heads: int, dropout: float, decoder: bool) -> None:
        super().__init__()
        self.own = _Heads(width, heads, dropout)
        self.other = _Heads(width, heads, dropout) if decoder else None
        self.one, self.two = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decoder else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any, memory: Any = None) -> Any:
        x = self.norms[0](x + self.dropout(self.own(x, x, self.other is not None)))
        if self.other is not None:
            x = self.norms[1](x + self.dropout(self.other(x, memory, False)))
        return self.norms[-1](x + self.dropout(self.two(self.dropout(relu(self.one(x))))))


class _Transformer(nn.Module):
    """Six encoder and six decoder layers with one table of words for both languages and the scores."""

    def __init__(self, width: int, inner: int, heads: int, dropout: float, vocabulary: int = 37_000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleList(_Layer(width, inner, heads, dropout, False) for _ in range(6))
        self.decoder = nn.ModuleList(_Layer(width, inner, heads, dropout, True) for _ in range(6))
        self.dropout, self.scale = nn.Dropout(dropout), width**0.5

    def _embedded(self, words: Any) -> Any:
        x = self.embedding(words) * self.scale
        return self.dropout(x + x.new_empty(x.shape[1:]))  # the table of sines

    def forward(self, source: Any, target: Any) -> Any:
        memory, x = self._embedded(source), self._embedded(target)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            x = layer(x, memory)
        return nn.functional.linear(x, self.embedding.weight)


def _transformer(width: int, inner: int, heads: int, dropout: float) -> Subject:
    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(*batch)
        return cross_entropy(scores.flatten(0, 1), batch[1].flatten(), label_smoothing=0.1) if training else scores

    return Subject(
        build=lambda: _Transformer(width, inner, heads, dropout),
        inputs=lambda batch, seq: (tokens(batch, seq or 64), tokens(batch, seq or 64)),
        forward=forward,
        seq=64,
    )


# ---------------------------------------------------------------- Transformer-XL

_CUTS = (0, 19_997, 39_997, 199_997, 267_735)
_SHARES = (32, 32, 64)  # one word in this many is assumed to belong to the second, third and fourth cluster of WikiText-103


class _Words(nn.Module):
    """Adaptive input and softmax (Baevski and Auli 2018; Grave et al. 2016): rare words have narrow vectors."""

    def __init__(self, width: int, divide: int) -> None:
        super().__init__()
        spans = [end - start for start, end in pairwise(_CUTS)]
        widths = [width // divide**number for number in range(len(spans))] if divide > 1 else [width]
        self.divide = divide
        self.tables = nn.ModuleList(
            nn.Embedding(span, size) for span, size in zip(spans if divide > 1 else [_CUTS[-1]], widths, strict=True)
        )
        self.inward = nn.ParameterList(nn.Parameter(torch.empty(width, size)) for size in widths if divide > 1)
        self.outward = nn.Parameter(torch.empty(width, width)) if divide > 1 else None
        self.clusters = nn.Linear(width, len(spans) - 1)
        self.bias = nn.ParameterList(nn.Parameter(torch.empty(span)) for span in spans)

    def forward(self, words: Any) -> Any:
        if self.divide == 1:
            return self.tables[0](words)
        flat = words.flatten()
        found = nn.functional.linear(self.tables[0](flat), self.inward[0])
        for number, share in enumerate(_SHARES, 1):
            some = torch.arange(flat.shape[0] // share)
            rare = nn.functional.linear(self.tables[number](flat.index_select(0, some)), self.inward[number])
            found = found.index_copy(0, some, rare)
        return found.unflatten(0, tuple(words.shape))

    def loss(self, x: Any, words: Any) -> Any:
        """Return the negative log-likelihood: common words for all tokens, each rare cluster only for its own words."""
        flat, target = x.flatten(0, 1), words.flatten()
        weight, bias = self._weights(0)
        first = nn.functional.linear(flat if self.outward is None else flat @ self.outward, weight, bias)
        total = -log_softmax(torch.cat((first, self.clusters(flat)), 1), 1).gather(1, target.unsqueeze(1)).sum()
        for number, share in enumerate(_SHARES, 1):
            some = torch.arange(flat.shape[0] // share)
            weight, bias = self._weights(number)
            rare = flat.index_select(0, some)
            rare = rare @ self.inward[number] if self.divide > 1 else rare
            scores = log_softmax(nn.functional.linear(rare, weight, bias), 1)
            total = total - scores.gather(1, target.index_select(0, some).unsqueeze(1)).sum()
        return total / target.shape[0]

    def _weights(self, number: int) -> tuple[Any, Any]:
        table = self.tables[0].weight[_CUTS[number] : _CUTS[number + 1]] if self.divide == 1 else self.tables[number].weight
        return table, self.bias[number]


class _RelativeLayer(nn.Module):
    """Attention over the segment and its memory with relative positions (Dai et al. 2019), then two dense layers."""

    def __init__(self, width: int, inner: int, heads: int, head: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.head = heads, head
        self.mix = nn.Linear(width, 3 * heads * head, bias=False)
        self.position = nn.Linear(width, heads * head, bias=False)
        self.out = nn.Linear(heads * head, width, bias=False)
        self.one, self.two = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm_one, self.norm_two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any, memory: Any, positions: Any, content_bias: Any, position_bias: Any) -> Any:
        length, whole = x.shape[1], torch.cat((memory, x), 1)
        q, k, v = (part.unflatten(-1, (self.heads, self.head)) for part in self.mix(whole).chunk(3, -1))
        q, r = q[:, -length:], self.position(positions).unflatten(-1, (self.heads, self.head))
        content = torch.einsum("bihd,bjhd->bhij", q + content_bias, k)
        position = _shifted(torch.einsum("bihd,jhd->bhij", q + position_bias, r))
        scores = (content + position) * self.head**-0.5
        mask = torch.ones(length, whole.shape[1], dtype=torch.bool).triu(1 + whole.shape[1] - length)
        weights = self.dropout(torch.softmax(scores.masked_fill(mask, float("-inf")), -1))
        mixed = torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)
        x = self.norm_one(x + self.dropout(self.out(mixed)))
        return self.norm_two(x + self.dropout(self.two(self.dropout(relu(self.one(x))))))


def _shifted(scores: Any) -> Any:
    """Move each row left by its distance from the last, so that columns mean keys rather than distances."""
    batch, heads, rows, columns = scores.shape
    padded = torch.cat((scores.new_zeros(batch, heads, rows, 1), scores), -1)
    return padded.reshape(batch, heads, columns + 1, rows)[:, :, 1:].reshape(batch, heads, rows, columns)


class _TransformerXl(nn.Module):
    """Layers with a memory as long as the segment, biases shared by all of them, and adaptive embeddings."""

    def __init__(self, layers: int, width: int, heads: int, head: int, inner: int, divide: int, dropout: float) -> None:
        super().__init__()
        self.words = _Words(width, divide)
        self.layers = nn.ModuleList(_RelativeLayer(width, inner, heads, head, dropout) for _ in range(layers))
        self.content_bias = nn.Parameter(torch.empty(heads, head))
        self.position_bias = nn.Parameter(torch.empty(heads, head))
        self.dropout, self.width = nn.Dropout(dropout), width

    def forward(self, words: Any, memories: Any) -> Any:
        x = self.dropout(self.words(words) * self.width**0.5)
        positions = self.dropout(self._sines(2 * words.shape[1], self.content_bias.dtype))
        for layer, memory in zip(self.layers, memories, strict=True):
            x = layer(x, memory, positions, self.content_bias, self.position_bias)
        return self.dropout(x)

    def _sines(self, length: int, dtype: Any) -> Any:
        angles = torch.outer(torch.arange(length, dtype=dtype), torch.ones(self.width // 2, dtype=dtype))
        return torch.cat((angles.sin(), angles.cos()), 1)


def _transformer_xl(layers: int, width: int, heads: int, head: int, inner: int, divide: int, dropout: float, seq: int) -> Subject:
    def inputs(batch: int, length: int | None) -> Any:
        memories = [torch.zeros(batch, length or seq, width) for _ in range(layers)]
        return tokens(batch, length or seq), memories

    def forward(model: Any, batch: Any, training: bool) -> Any:
        x = model(*batch)
        return model.words.loss(x, batch[0])

    return Subject(
        build=lambda: _TransformerXl(layers, width, heads, head, inner, divide, dropout),
        inputs=inputs,
        forward=forward,
        seq=seq,
        notes=("the shares of rare words in adaptive embeddings and softmax are assumed to be 1/32, 1/32 and 1/64",),
    )


def models() -> list[Model]:
    """Sentences of 64 tokens for translation, and the segment lengths from the papers for Transformer-XL."""
    paper = "arXiv:1706.03762, vocabulary 37,000 shared by both languages"
    longer = "arXiv:1901.02860, WikiText-103"
    return [
        Model(
            name="transformer_base",
            title="Transformer (base)",
            family="transformer",
            source=paper,
            subject=plain(lambda: _transformer(512, 2048, 8, 0.1)),
            aliases=("transformer",),
            published=65_000_000,
            tolerance=0.035,
            optimizer="adam",
            batch=64,
            seq=64,
        ),
        Model(
            name="transformer_big",
            title="Transformer (big)",
            family="transformer",
            source=paper,
            subject=plain(lambda: _transformer(1024, 4096, 16, 0.3)),
            aliases=("transformer_large",),
            published=213_000_000,
            tolerance=0.015,
            optimizer="adam",
            batch=64,
            seq=64,
        ),
        Model(
            name="transformer_xl_base",
            title="Transformer-XL (base)",
            family="transformer_xl",
            source=f"{longer}; sizes of NVIDIA DeepLearningExamples",
            subject=plain(lambda: _transformer_xl(16, 512, 8, 64, 2048, 1, 0.1, 192)),
            aliases=("transformer_xl", "transfo_xl_base"),
            published=192_000_000,
            tolerance=0.003,
            optimizer="adam",
            batch=32,
            seq=192,
        ),
        Model(
            name="transformer_xl_standard",
            title="Transformer-XL (standard)",
            family="transformer_xl",
            source=longer,
            subject=plain(lambda: _transformer_xl(16, 410, 10, 41, 2100, 1, 0.1, 150)),
            published=151_000_000,
            tolerance=0.003,
            optimizer="adam",
            batch=60,
            seq=150,
        ),
        Model(
            name="transformer_xl_large",
            title="Transformer-XL (large)",
            family="transformer_xl",
            source=f"{longer}; the paper says 257 million, its released checkpoint has 285",
            subject=plain(lambda: _transformer_xl(18, 1024, 16, 64, 4096, 4, 0.2, 384)),
            aliases=("transfo_xl_wt103", "transfo_xl_large"),
            published=285_000_000,
            tolerance=0.01,
            optimizer="adam",
            batch=16,
            seq=384,
        ),
    ]
