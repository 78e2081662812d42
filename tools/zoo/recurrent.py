"""Recurrent networks: language models on words and characters, a sentiment classifier, and GNMT."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, softmax

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models", "tokens"]


def tokens(batch: int, seq: int) -> torch.Tensor:
    """Return word indices. Their values do not matter here."""
    return torch.zeros(batch, seq, dtype=torch.int64)


class _LanguageModel(nn.Module):
    """Embedding (or one-hot characters), LSTM layers, a projection to the vocabulary."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float, embed: bool = True) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary, width) if embed else None
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width if embed else vocabulary, width, layers, dropout=dropout, batch_first=True)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, words: Any) -> Any:
        if self.embedding is None:
            x = nn.functional.one_hot(words, self.vocabulary).to(self.scores.weight.dtype)
        else:
            x = self.dropout(self.embedding(words))
        return self.scores(self.dropout(self.lstm(x)[0]))


def _language_model(vocabulary: int, width: int, layers: int, dropout: float, seq: int, embed: bool = True) -> Subject:
    def forward(model: nn.Module, words: Any, training: bool) -> Any:
        scores = model(words)
        return cross_entropy(scores.flatten(0, 1), words.flatten()) if training else scores

    return Subject(
        build=lambda: _LanguageModel(vocabulary, width, layers, dropout, embed),
        inputs=lambda batch, length: tokens(batch, length or seq),
        forward=forward,
        seq=seq,
    )


class _Sentiment(nn.Module):
    """Two bidirectional LSTM layers of 64 on 128-wide embeddings, with one score."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20_000, 128)
        self.lstm = nn.LSTM(128, 64, 2, bidirectional=True, batch_first=True)
        self.score = nn.Linear(128, 1)

    def forward(self, words: Any) -> Any:
        return self.score(self.lstm(self.embedding(words))[0][:, -1])


def _sentiment() -> Subject:
    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(batch[0])
        return binary_cross_entropy_with_logits(scores, batch[1]) if training else scores

    return Subject(
        build=_Sentiment,
        inputs=lambda batch, seq: (tokens(batch, seq or 200), torch.zeros(batch, 1)),
        forward=forward,
        seq=200,
    )


class _Attention(nn.Module):
    """Additive attention with a learned scale (Bahdanau et al. 2014, as GNMT v2 normalises it)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.vector = nn.Parameter(torch.empty(width))
        self.scale = nn.Parameter(torch.empty(1))
        self.shift = nn.Parameter(torch.empty(width))

    def forward(self, queries: Any, keys: Any) -> Any:
        mixed = self.query(queries).unsqueeze(2) + self.key(keys).unsqueeze(1) + self.shift
        vector = self.vector / self.vector.norm() * self.scale
        rows = torch.tanh(mixed).flatten(0, 1)  # a batch of matrices: batch times queries, keys, width
        scores = torch.bmm(rows, vector.to(rows.dtype).expand(rows.shape[0], 1, -1).transpose(1, 2))
        return torch.bmm(softmax(scores.view(*queries.shape[:2], -1), dim=-1), keys)


class _Gnmt(nn.Module):
    """Four encoder layers, the first bidirectional, and four decoder layers of 1024, with residuals from the third layer on."""

    def __init__(self, vocabulary: int = 31_800, width: int = 1024) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        inputs = (width, 2 * width, width, width)
        self.encoder = nn.ModuleList(
            nn.LSTM(size, width, bidirectional=number == 0, batch_first=True) for number, size in enumerate(inputs)
        )
        self.decoder = nn.ModuleList(nn.LSTM(width if number == 0 else 2 * width, width, batch_first=True) for number in range(4))
        self.attention = _Attention(width)
        self.dropout = nn.Dropout(0.2)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, source: Any, target: Any) -> Any:
        memory = self.embedding(source)
        for number, layer in enumerate(self.encoder):
            out = layer(self.dropout(memory))[0]
            memory = out + memory if number > 1 else out
        x = self.decoder[0](self.dropout(self.embedding(target)))[0]
        context = self.attention(x, memory)
        for number, layer in enumerate(list(self.decoder)[1:]):
            out = layer(self.dropout(torch.cat((x, context), dim=-1)))[0]
            x = out + x if number else out
        return self.scores(x)


def _gnmt() -> Subject:
    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(*batch)
        return cross_entropy(scores.flatten(0, 1), batch[1].flatten(), label_smoothing=0.1) if training else scores

    return Subject(
        build=_Gnmt,
        inputs=lambda batch, seq: (tokens(batch, seq or 50), tokens(batch, seq or 50)),
        forward=forward,
        seq=50,
    )


def models() -> list[Model]:
    """Return the models at the batch size and unrolled length of the papers."""
    return [
        Model(
            name="word_lstm",
            title="Word LSTM (large)",
            family="lstm",
            source="arXiv:1409.2329, large: 2 layers of 1500, vocabulary 10,000",
            subject=plain(lambda: _language_model(10_000, 1500, 2, 0.65, 35)),
            aliases=("lstm", "word_language_model", "lstm_lm", "ptb_lstm_large"),
            published=66_000_000,
            tolerance=0.005,
            optimizer="sgd",
            batch=20,
            seq=35,
        ),
        Model(
            name="word_lstm_medium",
            title="Word LSTM (medium)",
            family="lstm",
            source="arXiv:1409.2329, medium: 2 layers of 650, vocabulary 10,000",
            subject=plain(lambda: _language_model(10_000, 650, 2, 0.5, 35)),
            aliases=("ptb_lstm_medium",),
            published=20_000_000,
            tolerance=0.015,
            optimizer="sgd",
            batch=20,
            seq=35,
        ),
        Model(
            name="char_rnn",
            title="char-rnn",
            family="lstm",
            source="karpathy/char-rnn: 2 LSTM layers of 128 on 65 characters",
            subject=plain(lambda: _language_model(65, 128, 2, 0.0, 50, embed=False)),
            aliases=("charrnn", "char_lstm"),
            published=240_321,
            optimizer="adam",
            batch=50,
            seq=50,
        ),
        Model(
            name="bilstm",
            title="Bidirectional LSTM (IMDB)",
            family="lstm",
            source="Keras bidirectional_lstm_imdb, which has one bias where cuDNN has two",
            subject=plain(_sentiment),
            aliases=("bi_lstm", "imdb_bilstm", "bidirectional_lstm"),
            published=2_757_761,
            tolerance=0.0005,
            optimizer="adam",
            batch=32,
            seq=200,
        ),
        Model(
            name="gnmt",
            title="GNMT v2",
            family="gnmt",
            source="arXiv:1609.08144 as in MLPerf training 0.5: 4+4 layers of 1024, vocabulary 31,800",
            subject=plain(_gnmt),
            aliases=("gnmt_v2", "seq2seq", "nmt"),
            published=159_605_817,
            optimizer="adam",
            batch=128,
            seq=50,
        ),
    ]
