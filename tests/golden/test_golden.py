"""The text a user sees, to the letter. After a wanted change: GPUWISE_UPDATE_GOLDEN=1 pytest tests/golden, then read the diff.

The code of today makes these texts from tables of one day, for the reasons told in tests/freezing.py: a new GPU or a refit leaves
them as they are. The few cases in LIVE are asked on the tables that ship, so that the way from these to the text is tested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from freezing import Frozen, answer

FOLDER = Path(__file__).parent
LIVE = {"compare_three", "fit_gpt2_xl", "plan_two_nodes", "predict_one"}
CASES = {
    "build_four_3090": ["build", "--gpu", "4x RTX 3090", "--psu", "1600"],
    "build_four_3090_verbose": ["build", "--gpu", "4x RTX 3090", "--psu", "1600", "-v"],
    "build_germany": ["build", "--gpu", "6x RTX 3090", "--region", "DE", "--cooler", "water"],
    "build_module": ["build", "--gpu", "H100 SXM"],
    "sheet_rtx_3090": ["gpus", "RTX 3090"],
    "sheet_rtx_3090_verbose": ["gpus", "RTX 3090", "-v"],
    "sheet_k80": ["gpus", "Tesla K80"],
    "sheet_typed": ["gpus", "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s"],
    "compare_three": ["gpus", "RTX 3090", "RTX 4090", "H100"],
    "compare_founding": ["gpus", "RTX 2070 Max-Q", "GTX 960M"],
    "list_hopper": ["gpus", "--arch", "hopper"],
    "predict_one": ["predict", "resnet50", "--gpu", "RTX 3090"],
    "predict_table": ["predict", "bert-base", "--gpu", "RTX 3090", "--gpu", "T4", "--batch", "auto"],
    "predict_small_cnn": [
        "predict",
        "lenet5",
        "--gpu",
        "RTX 2070 Max-Q",
        "--gpu",
        "GTX 960M",
        "--batch",
        "32",
        "--cpu",
        "old quad-core",
    ],
    "predict_large_batch": [
        "predict",
        "mnist_cnn",
        "--gpu",
        "RTX 2070 Max-Q",
        "--gpu",
        "GTX 960M",
        "--batch",
        "1024",
        "--precision",
        "amp",
    ],
    "predict_keras_question": [
        "predict",
        "resnet50",
        "--gpu",
        "RTX 2080 Ti",
        "--gpu",
        "GTX 1070",
        "--gpu",
        "desktop CPU",
        "--precision",
        "fp32",
        "--batch",
        "32",
    ],
    "compare_with_a_cpu": ["compare", "RTX 2080 Ti", "GTX 1070", "desktop CPU", "--model", "resnet50", "--batch", "32"],
    "error_cpu_amp": ["predict", "resnet50", "--gpu", "Core i7-8700K", "--precision", "amp"],
    "fit_gpt2_xl": ["fit", "gpt2-xl", "--gpu", "RTX 3090", "--batch", "4", "--seq", "1024", "--precision", "amp"],
    "fit_resnet50_old": ["fit", "resnet50", "--gpu", "GTX 1060 6GB", "--precision", "fp32"],
    "fit_llama_lora": ["fit", "llama-2-7b", "--gpu", "RTX 4090", "--batch", "1", "--seq", "2048", "--precision", "bf16"],
    "fit_llama_serving": ["fit", "llama-3-70b", "--gpu", "H100 SXM 80GB", "--mode", "infer", "--precision", "bf16"],
    "fit_llama_two": ["fit", "llama-3-70b", "--gpu", "H100 SXM 80GB", "--gpus", "2", "--mode", "infer", "--precision", "bf16"],
    "fit_text_one": ["fit", "llama-3-70b", "--gpu", "RTX 3090", "--weights", "q4_k_m"],
    "fit_text_two": ["fit", "llama-3-70b", "--gpu", "2x RTX 3090", "--weights", "q4_k_m"],
    "fit_text_users": [
        "fit",
        "llama-3-8b",
        "--gpu",
        "RTX 4090",
        "--gpu",
        "RTX 3060 12GB",
        "--engine",
        "vllm",
        "--users",
        "32",
        "--context",
        "4096",
    ],
    "error_text_format": ["fit", "llama-3-8b", "--gpu", "RTX 3090", "--engine", "tensorrt-llm", "--weights", "fp8"],
    "fit_apple": ["fit", "bert-large-uncased", "--gpu", "M2 Max 38-core", "--batch", "64", "--precision", "fp32"],
    "fit_three": ["fit", "vit_base", "--gpu", "RTX 3060 12GB", "--gpu", "RTX 3090", "--gpu", "T4", "--batch", "256"],
    "error_fit_batch": ["fit", "resnet50", "--gpu", "RTX 3090", "--batch", "99999999999"],
    "compare_names": ["compare", "RTX 3090", "RTX 4070 Ti"],
    "error_no_bf16": ["predict", "resnet50", "--gpu", "RTX 2080 Ti", "--precision", "bf16"],
    "predict_serving": [
        *("predict", "llama-3-8b", "--gpu", "RTX 4090", "--engine", "vllm", "--users", "1..64"),
        *("--sla", "50 ms", "--first-token", "2 s"),
    ],
    "predict_serving_two": [
        "predict",
        "llama-3-8b",
        "--gpu",
        "RTX 4090",
        "--gpu",
        "RTX 3090",
        "--weights",
        "q4_k_m",
        "--users",
        "1,8,32",
    ],
    "compare_tokens": ["compare", "RTX 3090", "RTX 4090", "--model", "llama-3-8b", "--mode", "infer", "--weights", "q4_k_m"],
    "error_users": ["predict", "llama-3-8b", "--gpu", "RTX 4090", "--users", "8..1"],
    "error_unknown_gpu": ["gpus", "h100-pice"],
    "plan_desktop": ["plan", "resnet50", "--cluster", "4xRTX 3090", "--batch", "256"],
    "plan_mixed": ["plan", "resnet50", "--cluster", "1x RTX 4090 + 1x RTX 2080 Ti"],
    "plan_mixed_network": ["plan", "resnet50", "--cluster", "RTX 4090, RTX 2080 Ti", "--network", "1Gbit"],
    "plan_one_gpu": ["plan", "gpt2", "--cluster", "2x1xRTX 3090", "--network", "1Gbit"],
    "plan_two_nodes": ["plan", "llama-2-7b", "--cluster", "2x8xH100 SXM", "--batch", "256", "--precision", "bf16"],
    "plan_nowhere": ["plan", "llama-2-70b", "--cluster", "2xRTX 3090", "--batch", "2", "--precision", "bf16"],
    "error_plan_heads": ["plan", "llama-2-7b", "--cluster", "6xA100 SXM 80GB", "--tensor", "3"],
    "error_plan_stages": ["plan", "gpt2", "--cluster", "16xRTX 3090", "--pipeline", "16"],
    "error_half_typed": ["gpus", "arch=ada,sm=60"],
    "error_absurd": ["gpus", "arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=2PB/s"],
}


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_agreed(name: str, frozen: Frozen, tmp_path: Path) -> None:
    text = (answer if name in LIVE else frozen.answer)(CASES[name], tmp_path).text
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUWISE_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
