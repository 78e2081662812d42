"""What `matters` says of RAM and CPUs once weights are kept in RAM, and of the cores that decode images."""

from __future__ import annotations

import re

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.core.units import GIB
from gpuwise.questions.matters.types import Matter


def asked(topic: str, model: str = "gpt-oss-120b", gpu: str = "RTX 5090", **how: object) -> Matter:
    return gpuwise.matters(topic, model=model, gpu=gpu, **how).topics[0]


def speed(**how: object) -> float:
    return gpuwise.predict("gpt-oss-120b", gpu="RTX 4090", **how).results[0].generation.tokens_per_s


def test_ram_holds_what_predict_keeps_there_and_the_system() -> None:
    kept = gpuwise.predict("gpt-oss-120b", gpu="RTX 5090").results[0].generation.host_bytes / GIB
    found = asked("ram-size")
    assert kept > 24
    assert f"{kept:.1f} GiB of its weights stay in RAM" in found.answer
    assert found.value == 64
    assert "buy 64 GB" in found.answer


def test_ram_for_a_model_on_the_gpu_follows_the_gpus_memory() -> None:
    assert "RAM equal to the memory of one GPU (32 GiB)" in asked("ram-size", "llama-3-8b").answer


def test_more_gpus_leave_less_in_ram() -> None:
    one, two = (asked("ram-size", "qwen3-235b-a22b", gpu, weights="q4_k_m").value for gpu in ("RTX 5090", "2x RTX 5090"))
    assert two < one


def test_an_engine_that_keeps_nothing_in_ram_is_answered_for_one_that_does() -> None:
    found = asked("ram-size", "deepseek-v3")
    assert found.value > 256
    assert "in llama.cpp with q4_k_m weights" in found.answer


def test_ram_speed_is_what_predict_gives_for_both_modules() -> None:
    found = asked("ram-speed", gpu="RTX 4090")
    slow, fast = (speed(ram_speed=modules) for modules in ("DDR4-3200", "DDR5-6000"))
    assert found.value == pytest.approx(100 * (fast / slow - 1))
    assert 40 < found.value < 87.5  # never more than the modules' ratio
    assert f"{fast:.3g} tokens/s instead of {slow:.3g}" in found.answer


def test_ram_speed_is_nothing_where_the_model_fits() -> None:
    found = asked("ram-speed", "llama-3-8b")
    assert found.value == 0
    assert found.answer.startswith("No: the model fits")


def test_modules_fill_the_channels_of_the_host() -> None:
    assert speed(ram_speed="DDR4-3200") == speed(ram_speed="51.2GB/s") == speed(ram_speed="2x DDR4-3200") == speed()
    assert speed(ram_speed="DDR4-3200", cpu="workstation") == speed(ram_speed="8x DDR4-3200", cpu="workstation")


@pytest.mark.parametrize("text", ["fast", "10", "0 GB/s", "DDR5", "0x DDR5-6000"])
def test_ram_of_no_speed_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"--ram-speed|no modules"):
        speed(ram_speed=text)


def test_states_in_ram_are_updated_at_its_speed() -> None:
    slow, fast = (
        next(
            one.step_s
            for one in gpuwise.fit("gpt2-xl", gpu="RTX 3080 10GB", mode="train", ram_speed=modules).results[0].advice.remedies
            if one.name == "offload"
        )
        for modules in ("DDR4-3200", "DDR5-6000")
    )
    assert fast is not None
    assert slow is not None
    assert fast < slow


def test_a_cpu_that_runs_layers_counts_far_more() -> None:
    assert asked("cpu", gpu="RTX 4090").value > 10 * max(0.1, asked("cpu", "llama-3-8b", "RTX 4090").value)


def test_first_tokens_wait_for_narrow_lanes() -> None:
    found = asked("pcie-lanes", "llama-3-70b", "4x RTX 3090", engine="vllm", weights="int4")
    waits = [
        gpuwise.predict("llama-3-70b", gpu="4x RTX 3090", engine="vllm", weights="int4", link=f"PCIe 4.0 x{lanes}")
        .results[0]
        .generation.time_to_first_token_s
        for lanes in (16, 8, 4)
    ]
    told = [float(number) / 1e3 for number in re.findall(r"(\d+) ms at x", found.answer)]
    assert "s at x1." in found.answer
    assert told == pytest.approx(waits, rel=0.01)


def test_losses_beyond_the_cited_ones_are_explained_and_shrink_with_the_batch() -> None:
    found = asked("pcie-lanes", "bert-large", "4x RTX 3090")
    assert "after only 16 samples per GPU" in found.answer
    losses = [float(number) for number in re.findall(r"([\d.]+)% slower at x4", found.answer)]
    assert len(losses) == 3
    assert losses[0] > max(losses[1:])
    large = asked("pcie-lanes", "bert-large", "4x RTX 3090", batch="64")
    assert f"{large.together:.1f}% slower at x8" in found.answer
    assert "cited figures" not in asked("pcie-lanes", "resnet50", "2x RTX 3090").answer


def test_cores_decode_alike_in_every_command() -> None:
    """One training process for each GPU, with its share of the named CPU's cores."""
    found = asked("cpu", "resnet50", "2x RTX 4090", cpu="Ryzen 5 5600")
    match = re.search(r"The 6 cores of the Ryzen 5 5600 deliver ([\d,]+) images/s", found.answer)
    assert match is not None
    predicted = gpuwise.predict("resnet50", gpu="2x RTX 4090", cpu="Ryzen 5 5600", image_decode=True).results[0]
    loading = next(note for note in predicted.assumptions if note.name == "image loading")
    each = float(loading.value.split()[0].replace(",", ""))
    assert float(match[1].replace(",", "")) == pytest.approx(2 * each, abs=2)
    assert "266 images/s" in found.answer
    assert "266 images/s per core" in loading.effect
    built = gpuwise.build(gpu="2x RTX 4090", cpu="Ryzen 5 5600")
    line = next(line for line in built.lines if line.check == "loader")
    assert line.value == pytest.approx(2 * each, abs=2)
