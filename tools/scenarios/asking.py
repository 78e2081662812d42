"""Asks questions through the public interface, as a user would. Each question is asked once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import gpuwise
from gpuwise.box.types import CheckLine
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.fit.types import Fit
from gpuwise.questions.matters.types import Matter
from scenarios.types import Ours, over

__all__ = ["EARLY", "KINDS", "card", "gain", "held", "line", "lines", "matter", "matters_over", "ratio", "step"]

# Kinds of work for questions that name none. They are those of `gpuwise compare`, and models that people trained before
# transformers.
KINDS: Mapping[str, str] = {"resnet50": "64", "bert-base": "16", "word_lstm": "64"}
EARLY: Mapping[str, str] = {"alexnet": "64", "googlenet": "32", "word_lstm": "20"}


@cache
def step(model: str, gpu: str, batch: str = "", precision: str = "fp32", **how: Any) -> Prediction:
    """`gpuwise predict MODEL --gpu GPU`."""
    return gpuwise.predict(model, gpu=gpu, batch=batch, precision=precision, **how).results[0]


def ratio(gpu: str, base: str, kinds: Mapping[str, str] = KINDS, precision: str = "fp32", **how: Any) -> Ours:
    """How many times as fast as the other one GPU is, over several kinds of work."""
    return over(
        [
            step(model, gpu, batch, precision, **how).samples_per_s / step(model, base, batch, precision, **how).samples_per_s
            for model, batch in kinds.items()
        ]
    )


def gain(gpu: str, precision: str, kinds: Mapping[str, str] = KINDS) -> Ours:
    """How many times as fast this precision is as fp32."""
    return over(
        [
            step(model, gpu, batch, precision).samples_per_s / step(model, gpu, batch).samples_per_s
            for model, batch in kinds.items()
        ]
    )


@cache
def matter(topic: str, model: str, gpu: str, **how: Any) -> Matter:
    """`gpuwise matters TOPIC --model MODEL --gpu GPU`."""
    return gpuwise.matters(topic, model=model, gpu=gpu, **how).topics[0]


def matters_over(topic: str, gpu: str, kinds: Mapping[str, str] = KINDS, scale: float = 0.01, **how: Any) -> Ours:
    """The figure for a topic over several kinds of work, with percentages as fractions."""
    return over([scale * matter(topic, model, gpu, batch=batch, **how).value for model, batch in kinds.items()])


@cache
def held(model: str, gpu: str, batch: str = "", precision: str = "fp32", mode: str = "train", gpus: int = 1) -> Fit:
    """`gpuwise fit MODEL --gpu GPU`."""
    found = gpuwise.fit(model, gpu=gpu, batch=batch, precision=precision, mode=mode, gpus=gpus, remedies=False)
    return cast("Fit", found.results[0])


@cache
def lines(gpu: str, **box: Any) -> tuple[CheckLine, ...]:
    """`gpuwise build --gpu GPU`."""
    return gpuwise.build(gpu=[gpu], **box).lines


def line(check: str, gpu: str, **box: Any) -> CheckLine:
    """One check of a build."""
    return next(found for found in lines(gpu, **box) if found.check == check)


def card(name: str) -> Gpu:
    """`gpuwise gpus NAME`."""
    return gpuwise.gpus(name).gpus[0]
