"""`fit`: the verdict, the largest batch, and the users that a model can serve."""

from __future__ import annotations

import pytest
from fit_cases import CASES, case, verdict

import gpuwise


def test_time_and_memory_are_those_of_predict() -> None:
    found = verdict("resnet50", "RTX 3090")
    (predicted,) = gpuwise.predict(model="resnet50", gpu=("RTX 3090",)).results
    assert found.step_s == pytest.approx(predicted.step_s)
    assert found.memory == predicted.memory
    assert found.fits == predicted.fits


@pytest.mark.parametrize("name", CASES)
def test_the_largest_batch_fits_and_the_next_does_not(name: str) -> None:
    options = {key: value for key, value in CASES[name].items() if key != "batch"}
    most = case(name).max_batch
    assert most == 0 or verdict(**options, batch=str(most)).fits
    assert not verdict(**options, batch=str(most + 1)).fits
    assert case(name).safe_batch <= most


def test_auto_takes_the_largest_batch() -> None:
    found = verdict("gpt2", batch="auto", seq=256)
    assert found.batch == found.max_batch > 0
    assert found.fits
    assert verdict("gpt2", batch="auto", seq=512).batch < found.batch


def test_near_the_edge_the_verdict_is_a_probability() -> None:
    most = verdict("resnet50", batch="auto").max_batch
    chances = [verdict("resnet50", batch=str(round(most * share))).probability for share in (0.5, 0.8, 1.0, 1.2, 2.0)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.95
    assert chances[-1] < 0.05
    assert 0.1 < chances[2] < 0.9


def test_a_little_too_much_may_still_get_through() -> None:
    most = verdict("resnet50", batch="auto").max_batch
    above, far = (verdict("resnet50", batch=str(round(most * share))) for share in (1.03, 2.0))
    assert not above.fits
    assert above.survives
    assert not far.survives


def test_a_desktop_on_the_gpu_leaves_less() -> None:
    assert verdict("resnet50", display=True).max_batch < verdict("resnet50").max_batch


def test_options_of_the_step_are_modelled_on_zoo_models_too() -> None:
    plain = verdict("gpt2", batch="8", seq=512, precision="fp32")
    assert verdict("gpt2", batch="8", seq=512, precision="fp32", checkpoint=True).memory.total_bytes < plain.memory.total_bytes
    assert verdict("gpt2", batch="8", seq=512, precision="fp32", accumulate=4).memory.total_bytes < plain.memory.total_bytes


def test_contexts_follow_from_the_cache_of_the_model() -> None:
    found = verdict("llama-3.2-1b", "RTX 3090", mode="infer", precision="bf16", seq=1024).serving
    assert found is not None
    assert found.cache_bytes_per_token == 2 * 16 * 8 * 64 * 2  # keys and values, layers, heads, their width, bytes
    assert found.users_paged > found.users_reserved > 0
    longer = verdict("llama-3.2-1b", "RTX 3090", mode="infer", precision="bf16", seq=2048).serving
    assert longer is not None
    assert longer.users_paged == pytest.approx(found.users_paged / 2, rel=0.1)
    assert longer.users_reserved == found.users_reserved


def test_a_model_that_does_not_generate_has_no_contexts() -> None:
    assert verdict("resnet50", "RTX 3090", mode="infer").serving is None
