"""Records Keras models for the tests, and says what a workload is made of."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter

import pytest

from gpuwise.workload.capture.keras import backend as keras_backend
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings

pytest.importorskip("torch", reason="a capture needs torch")
if importlib.util.find_spec("keras") is None:
    pytest.skip("keras is not installed", allow_module_level=True)
keras = keras_backend.import_keras()
layers = keras.layers

from gpuwise.workload.capture import worker  # noqa: E402
from gpuwise.workload.capture.keras import source  # noqa: E402

__all__ = ["counted_by_keras", "flops", "keras", "kinds", "named", "names", "record", "source"]


@pytest.fixture
def record(monkeypatch):
    """Records a Keras model through the worker, as a user's file would be."""

    def run(model, mode="infer", precision="fp32", **given):
        request = Request(model="keras:Own", settings=Settings(mode=mode, precision=precision), **given)
        monkeypatch.setattr(worker, "subject_of", lambda request: source.subject_from_model(model, request))
        return worker.record(request)

    return run


def named(name, mode="infer", **given):
    return worker.record(Request(model=name, settings=Settings(mode=mode), **given))


def kinds(workload, phase=None):
    return Counter(workload.ops[call.op].kind for call in workload.calls if phase in (None, call.phase))


def names(workload, phase=None):
    return Counter(workload.ops[call.op].name for call in workload.calls if phase in (None, call.phase))


def flops(workload, batch=1, seq=None):
    return evaluate.totals(workload, batch, seq).forward_flops


def counted_by_keras(model):
    """Forward FLOPs from the shapes Keras itself gives to its layers; none of our translation."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, layers.SeparableConv2D):
            weights = math.prod(layer.depthwise_kernel.shape) + math.prod(layer.pointwise_kernel.shape)
            total += 2 * weights * math.prod(layer.output.shape[1:-1])
        elif isinstance(layer, (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)):
            total += 2 * math.prod(layer.kernel.shape) * math.prod(layer.output.shape[1:-1])
    return total
