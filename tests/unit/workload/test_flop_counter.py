"""Stored workloads of the zoo against torch's own counter of FLOPs, run on the same modules without memory behind them.

The counting is done by this file run as a program, in a process without gpuwise's operators for attention and RNNs, which
the counter does not know and which stay in a process that has captured anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuwise.workload.capture.torch.torchvision import import_torchvision
from gpuwise.workload.model.evaluate import totals
from gpuwise.workload.store import zoo

TOOLS = Path(__file__).parents[3] / "tools"
BATCH = 2
STEPS = 16  # of recurrent networks, which the counter sees step by step
WHOLE = """
alexnet vgg11_bn googlenet inception_v3 resnet18 resnet50 resnext50_32x4d densenet121 squeezenet1_1 shufflenet_v2_x1_0
mnasnet1_0 mobilenet_v2 mobilenet_v3_large efficientnet_b0 regnety_002 convnext_tiny vit_tiny deit_small swin_tiny mixer_s16
unet unet_256 ddpm_64 resnet50_cifar
ssd300 yolov8n mnist_mlp mnist_cnn dcgan ncf transformer_base transformer_xl_base bert-base-uncased distilbert-base
t5-small gpt2 qwen2.5-0.5b whisper-tiny
""".split()
RECURRENT = ["char_rnn", "word_lstm", "bilstm"]


@pytest.fixture(scope="module")
def counted() -> dict[str, tuple[float, int]]:
    """FLOPs and parameters of every model by torch's counter."""
    for package in ("torch", "torchvision", "timm", "transformers"):
        if find_spec(package) is None:
            pytest.skip(f"the catalogue of the zoo needs {package}")
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE + RECURRENT)
def test_stored_forward_flops_and_parameters_are_torchs(name: str, counted: dict[str, tuple[float, int]]) -> None:
    stored = zoo.load(name)
    flops, parameters = counted[name]
    assert stored.parameters == parameters
    assert totals(stored, batch=BATCH, seq=_seq(name)).forward_flops == pytest.approx(flops, rel=1e-3)


def test_thirty_models_are_compared() -> None:
    assert len(set(WHOLE + RECURRENT)) >= 30


def _seq(name: str) -> int | None:
    return STEPS if name in RECURRENT else zoo.entry(name).seq


def _count(model: Any, seq: int | None) -> tuple[float, int]:
    """FLOPs of the forward pass of a training step, and the module's parameters."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from gpuwise.workload.capture.torch.step import _RealConstants
    from zoo.model import Wish

    subject = model.subject(Wish("train", "fp32"))
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        with _RealConstants():
            module = subject.build().train()
        inputs = subject.inputs(BATCH, seq)
        # the plain kernels: attention as two products, a recurrent layer as the products of its steps
        plain = torch.backends.mkldnn.flags(enabled=False)
        with sdpa_kernel(SDPBackend.MATH), plain, FlopCounterMode(display=False) as counter:
            subject.forward(module, inputs, True)
    return float(counter.get_total_flops()), sum(parameter.numel() for parameter in module.parameters())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import_torchvision()  # works without its compiled operators
    sys.path.insert(0, str(TOOLS))
    from build_zoo import _catalogue

    catalogue = _catalogue()
    print(json.dumps({name: _count(catalogue[name], _seq(name)) for name in WHOLE + RECURRENT}))
