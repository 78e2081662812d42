"""`predict` of a language model that does not fit: that comes first, and its speed is only what it would be."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.predict.generation_text import render


def printed(model: str, *gpus: str, **how: object) -> list[str]:
    return render(gpuwise.predict(model, gpu=gpus, **how)).splitlines()


@pytest.mark.parametrize(("model", "gpu", "gpus"), [("gpt-oss-120b", "RTX 4090", 1), ("llama-3-70b", "RTX 3090", 2)])
def test_a_model_that_does_not_fit_is_told_so_before_its_speed(model: str, gpu: str, gpus: int) -> None:
    lines = printed(model, gpu, gpus=gpus, engine="vllm")
    assert "DOES NOT FIT" in lines[2]
    (speed,) = [line for line in lines if line.startswith("  speed")]
    assert "would be" in speed
    assert "if the model fitted" in speed
    assert not any(line.startswith(("  first token", "  cost", "  full output")) for line in lines)


def test_a_model_that_fits_has_its_speed_first() -> None:
    assert printed("llama-3-8b", "RTX 3090")[2].startswith("  speed        4")


def test_layers_on_the_cpu_are_offered_as_llama_cpp_would_run_them() -> None:
    answer = gpuwise.predict("gpt-oss-120b", gpu="RTX 4090", engine="vllm")
    offloaded = gpuwise.predict("gpt-oss-120b", gpu="RTX 4090", engine="llama.cpp").results[0].generation
    assert f"with `--engine llama.cpp`, the model runs at {offloaded.tokens_per_s:.3g} tokens/s" in answer.notes[0]
    assert len(gpuwise.predict("llama-3-70b", gpu="RTX 3070").notes) == 1  # does not fit in system memory either


def test_in_a_table_what_does_not_fit_has_no_speed() -> None:
    lines = printed("gpt-oss-120b", "RTX 4090", "H100", engine="vllm")
    small, large = (next(line for line in lines if line.startswith(name)) for name in ("RTX 4090", "H100"))
    assert small.split()[2:5] == ["-", "-", "-"]
    assert "-" not in large.split()


def test_a_prompt_that_is_too_long_leads_to_one_that_is_not() -> None:
    with pytest.raises(BadValue, match="supports at most 8,192 tokens, but 9,256 were requested") as caught:
        gpuwise.predict("llama-3-8b", gpu="RTX 4090", prompt=9000)
    assert caught.value.hint == "try `--prompt 7936`"
    assert gpuwise.predict("llama-3-8b", gpu="RTX 4090", prompt=7936).results
