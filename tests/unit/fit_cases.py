"""Answers of `gpuwise.fit` that several tests share: each is computed once per process."""

from __future__ import annotations

from functools import cache
from typing import Any

import gpuwise
from gpuwise.questions.fit.types import Fit

SMALL = "name=Small,arch=ampere,sm=40,boost=1.7GHz,mem=6GB,bw=400GB/s,tdp=170W"


@cache
def answer(model: str, gpu: str = SMALL, **options: Any) -> Fit:
    (found,) = gpuwise.fit(model=model, gpu=(gpu,), **options).results
    return found


CASES: dict[str, dict[str, Any]] = {
    "images": {"model": "resnet50", "batch": "128", "precision": "fp32"},
    "language": {"model": "gpt2", "batch": "8", "seq": 512, "precision": "fp32"},
    "generating": {"model": "llama-3.2-3b", "mode": "infer", "precision": "bf16", "phase": "decode", "seq": 1024},
}


def verdict(model: str, gpu: str = SMALL, **options: Any) -> Fit:
    """Without remedies, which take their time."""
    return answer(model, gpu, remedies=False, **options)


def case(name: str) -> Fit:
    return answer(**CASES[name])
