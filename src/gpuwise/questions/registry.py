"""Lists every question by name, with its options and its answer. A question is one folder here and one line below."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.questions.common.options import Question

__all__ = ["QUESTIONS"]

# In the order and under the headings of the help.
_GROUPS = {
    "Choose": (
        Question("which", "gpuwise which --model resnet50 --budget 800", page=True),
        Question("compare", 'gpuwise compare "RTX 3090" "RTX 4070 Ti"', page=True),
        Question("cost", 'gpuwise cost --gpu "RTX 3090" --cloud-price 2.14', page=True),
        Question("build", 'gpuwise build --gpu "RTX 3090" --psu 850', page=True),
        Question("matters", "gpuwise matters pcie-lanes", page=True),
        Question("charts", "gpuwise charts --figure charts.html"),
    ),
    "Predict": (
        Question("predict", 'gpuwise predict resnet50 --gpu "RTX 3090"', page=True),
        Question("fit", 'gpuwise fit llama-2-7b --gpu "RTX 3090"', page=True),
        Question("plan", 'gpuwise plan llama-2-7b --cluster "8x A100"', page=True),
        Question("sweep", "gpuwise sweep models.txt --gpus curated --batches 1..64 --out table.csv"),
        Question("capture", "gpuwise capture resnet50 --output resnet50.json"),
    ),
    "Explain and measure": (
        Question("why", "gpuwise why trace.json.gz"),
        Question("watch", "gpuwise watch -- python train.py"),
        Question("tune", "gpuwise tune train.py"),
        Question("bench", "gpuwise bench"),
    ),
    "Look up": (
        Question("gpus", 'gpuwise gpus "RTX 3090"', page=True),
        Question("models", "gpuwise models llama", page=True),
        Question("prices", "gpuwise prices"),
        Question("validate", "gpuwise validate"),
        Question("doctor", "gpuwise doctor"),
    ),
}
QUESTIONS = {question.name: replace(question, group=group) for group, questions in _GROUPS.items() for question in questions}
