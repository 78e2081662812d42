"""Generation speeds that cannot be what their row says."""

from __future__ import annotations

import pytest

from gpuwise.evidence.generation import Unusable, generation_row
from gpuwise.hardware.catalog import load_catalog

ROW = {
    "source": "somebody",
    "origin": "somebody/benchmarks README.md",
    "gpu": "A100 SXM 80GB",
    "gpu_count": "1",
    "model": "llama2-7b",
    "mode": "decode",
    "precision": "fp16",
    "quantisation": "",
    "stack": "LMDeploy TurboMind v0.2.0",
    "batch": "1",
    "size": "128+128",
    "value": "100",
    "unit": "tokens_per_s",
    "note": "",
}


def read(**changed: str) -> float:
    row = {**ROW, **changed}
    return generation_row(0, row, load_catalog().find(row["gpu"]).gpu).value


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value": "160"}, "faster than the memory"),  # 13 GB, 160 times in a second, at 2.0 TB/s
        ({"batch": "64", "size": "2048+2048", "value": "700"}, "do not fit beside the weights"),  # 128 GiB of keys and values
        ({"stack": "AutoAWQ GEMV kernels", "quantisation": "AWQ int4", "batch": "8"}, "made for one"),
        ({"stack": "AutoAWQ GEMV kernels", "quantisation": "AWQ int4", "mode": "prefill", "size": "64"}, "made for decoding"),
        ({"stack": "transformers 2024-07", "quantisation": "int8"}, "bitsandbytes"),
        ({"stack": "TensorRT-LLM 2024-07", "origin": "premAI-io/benchmarks@1 README.md"}, "padding"),
    ],
)
def test_what_cannot_be_is_left_out(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        read(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"value": "140"},
        {"batch": "64", "value": "4000"},
        {"stack": "AutoAWQ GEMV kernels", "quantisation": "AWQ int4"},
        {"stack": "transformers 4.46", "quantisation": "GPTQ-Int8"},
        {"stack": "TensorRT-LLM v0.6.1"},
        {"unit": "GiB", "stack": "transformers 4.46", "quantisation": "int8", "value": "8"},
    ],
)
def test_what_can_be_is_kept(changed: dict[str, str]) -> None:
    assert read(**changed) > 0
