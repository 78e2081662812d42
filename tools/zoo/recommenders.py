"""Recommenders: NCF and DLRM."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models"]


def _dense(sizes: tuple[int, ...], last: bool = False) -> nn.Sequential:
    """Return dense layers with ReLU, except after the last layer of a top network."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU(True)]
    return nn.Sequential(*(layers[:-1] if last else layers))


class _Ncf(nn.Module):
    """Matrix factorisation and dense layers on user and item vectors, with one score (NeuMF)."""

    def __init__(self, users: int, items: int, factors: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.user_factors, self.item_factors = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_vector, self.item_vector = nn.Embedding(users, sizes[0] // 2), nn.Embedding(items, sizes[0] // 2)
        self.dense = _dense(sizes)
        self.score = nn.Linear(factors + sizes[-1], 1)

    def forward(self, users: Any, items: Any) -> Any:
        product = self.user_factors(users) * self.item_factors(items)
        deep = self.dense(torch.cat((self.user_vector(users), self.item_vector(items)), -1))
        return self.score(torch.cat((product, deep), -1))


def _ncf() -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        return torch.zeros(batch, dtype=torch.int64), torch.zeros(batch, dtype=torch.int64), torch.zeros(batch, 1)

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(*batch[:2])
        return binary_cross_entropy_with_logits(scores, batch[2]) if training else scores

    return Subject(build=lambda: _Ncf(138_493, 26_744, 64, (256, 256, 128, 64)), inputs=inputs, forward=forward)


# Distinct values of the 26 categorical features: Criteo Kaggle, and Criteo Terabyte cut at 40 million (MLPerf).
_KAGGLE = (
    *(1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194),
    *(27, 14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
)
_TERABYTE = (
    *(39_884_406, 39_043, 17_289, 7420, 20_263, 3, 7120, 1543, 63, 38_532_951, 2_953_546, 403_346, 10),
    *(2208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36),
)


class _Lookup(torch.autograd.Function):
    """Lookup of rows in a table. The gradient updates these rows immediately, as in fused sparse optimizers, so there is no dense
    gradient."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, table: Any, rows: Any) -> Any:
        ctx.save_for_backward(table, rows)
        return nn.functional.embedding(rows, table)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        table, rows = ctx.saved_tensors
        gradient = gradient.to(table.dtype)
        gradient.index_add_(0, rows, gradient)  # represents the rows of the table: the same number, without additional memory
        return None, None, None


class _Dlrm(nn.Module):
    """Dense layers on 13 numbers, one table per category, pairwise products, and dense layers on those."""

    def __init__(self, rows: tuple[int, ...], bottom: tuple[int, ...], top: tuple[int, ...]) -> None:
        super().__init__()
        self.bottom = _dense(bottom)
        self.tables = nn.ParameterList(nn.Parameter(torch.empty(count, bottom[-1])) for count in rows)
        features = len(rows) + 1
        self.top = _dense((bottom[-1] + features * (features - 1) // 2, *top), last=True)
        pairs = [(i, j) for i in range(features) for j in range(i)]
        self.left, self.right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def forward(self, numbers: Any, categories: Any) -> Any:
        x = self.bottom(numbers)
        vectors = [_Lookup.apply(x, table, categories[:, number]) for number, table in enumerate(self.tables)]
        stacked = torch.stack((x, *vectors), 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat((x, products[:, self.left, self.right]), 1))


def _dlrm(rows: tuple[int, ...], bottom: tuple[int, ...], top: tuple[int, ...]) -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        return torch.zeros(batch, 13), torch.zeros(batch, len(rows), dtype=torch.int64), torch.zeros(batch, 1)

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(*batch[:2])
        return binary_cross_entropy_with_logits(scores, batch[2]) if training else scores

    return Subject(
        build=lambda: _Dlrm(rows, bottom, top),
        inputs=inputs,
        forward=forward,
        notes=("the tables are updated row by row in the backward pass, as fused sparse optimizers do",),
    )


def models() -> list[Model]:
    """Return the models at the batch sizes of MLPerf and of the reference scripts."""
    return [
        Model(
            name="ncf",
            title="NCF (NeuMF)",
            family="recommender",
            source="arXiv:1708.05031 on MovieLens-20M, sizes of NVIDIA DeepLearningExamples",
            subject=plain(_ncf),
            aliases=("neumf", "neural_collaborative_filtering"),
            published=31_832_577,
            optimizer="adam",
            batch=1_048_576,
        ),
        Model(
            name="dlrm",
            title="DLRM (Criteo Kaggle)",
            family="recommender",
            source="arXiv:1906.00091, the Criteo Kaggle script of its authors; 540,201,232 parameters in the tables",
            subject=plain(lambda: _dlrm(_KAGGLE, (13, 512, 256, 64, 16), (512, 256, 1))),
            aliases=("dlrm_kaggle",),
            published=540_201_232,
            tolerance=0.001,
            optimizer="sgd",
            batch=2048,
        ),
        Model(
            name="dlrm_terabyte",
            title="DLRM (Criteo Terabyte)",
            family="recommender",
            source="arXiv:1906.00091 as in MLPerf training 0.7",
            subject=plain(lambda: _dlrm(_TERABYTE, (13, 512, 256, 128), (1024, 1024, 512, 256, 1))),
            aliases=("dlrm_mlperf",),
            published=24_000_000_000,
            tolerance=0.02,
            optimizer="sgd",
            batch=65_536,
        ),
    ]
