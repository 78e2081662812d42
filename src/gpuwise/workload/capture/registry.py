"""Chooses the source that captures a model name. Each source is one file with a function `subject(request)`.

timm:convnext_base           torch/timm.py
torchvision:resnet50         torch/torchvision.py
hf:bert-base-uncased         huggingface/source.py
path/config.json             huggingface/source.py
keras:ResNet50               keras/source.py
file.py:Net, pkg.mod:func    script/user_code.py
train.py                     script/source.py (a whole run: `record_script`)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.request import Request

__all__ = ["PREFIXES", "source_of", "split_name", "subject_of"]

PREFIXES = {"timm": "timm", "torchvision": "torchvision", "hf": "huggingface", "keras": "keras"}
_HOMES = {
    "timm": "torch.timm",
    "torchvision": "torch.torchvision",
    "huggingface": "huggingface.source",
    "keras": "keras.source",
    "user_code": "script.user_code",
    "script": "script.source",
}


def source_of(model: str) -> str:
    """Return the source for a model name, by its form alone."""
    prefix, colon, rest = model.partition(":")
    if colon and prefix in PREFIXES:
        if not rest:
            raise BadValue(f"'{model}' does not name a model", hint=f"try `{prefix}:resnet50`")
        return PREFIXES[prefix]
    if model.endswith(".json"):
        return "huggingface"
    if model.endswith(".py"):
        return "script"
    if colon:
        return "user_code"
    raise BadValue(
        f"'{model}' is not a model that gpuwise can capture",
        known="zoo names, timm:, torchvision:, hf:, keras:, file.py:Net, package.module:function, train.py, config.json",
        hint="try `timm:resnet50`, `hf:gpt2` or `my_model.py:Net`",
    )


def split_name(model: str) -> tuple[str, str]:
    """Return the file or module, and the name in it. The colon after a drive letter is not a separator.

    >>> split_name("C:\\\\x\\\\net.py:Net"), split_name("C:\\\\x\\\\net.py")
    (('C:\\\\x\\\\net.py', 'Net'), ('C:\\\\x\\\\net.py', ''))
    """
    where, _, name = model.rpartition(":")
    return (model, "") if "/" in name or "\\" in name else (where, name)


def subject_of(request: Request) -> Any:
    """Return the subject to record for this request. Imports the framework that the source needs."""
    module = import_module(f"gpuwise.workload.capture.{_HOMES[source_of(request.model)]}")
    return module.subject(request)
