"""Prompts that are read in chunks."""

from __future__ import annotations

import numpy as np
import pytest

from gpuwise.workload.language.build import generation_pass
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.weight_formats import FORMATS
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.chunks import in_chunks


def keys(workload: Workload, prompt: int) -> float:
    values = product_values(workload, batch=np.array([1.0]), seq=np.array([float(prompt)]))
    (found,) = {float(values[0, op.sizes[4]]) for op in workload.ops if op.kind == "attention"}
    return found


@pytest.mark.parametrize("prompt", [512, 1024, 8192])
def test_a_chunk_attends_to_what_was_read_before_it(prompt: int) -> None:
    chunk = 512
    whole = generation_pass(find_shape("llama-3-8b"), "prefill", weights=FORMATS["q4_k_m"], cache="fp16", seq=2048)
    seen = [chunk * (number + 1) for number in range(prompt // chunk)]  # keys that each chunk computes scores for
    assert keys(whole, prompt) == prompt
    assert keys(in_chunks(whole, chunk), prompt) == pytest.approx(sum(seen) / len(seen))


def test_an_engine_without_chunks_computes_all_scores() -> None:
    whole = generation_pass(find_shape("llama-3-8b"), "prefill", weights=FORMATS["q4_k_m"], cache="fp16", seq=2048)
    assert in_chunks(whole, 0) is whole
