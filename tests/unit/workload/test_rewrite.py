"""Rewriting: each graph made from another equals the direct capture of the same settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the direct captures need torch")

from gpuwise.workload.capture.torch.step import Subject, capture  # noqa: E402
from gpuwise.workload.model.edit import Graph, graph_of, slots, workload_of  # noqa: E402
from gpuwise.workload.model.evaluate import peak_memory, product_values  # noqa: E402
from gpuwise.workload.model.symbols import Description, join  # noqa: E402
from gpuwise.workload.model.types import Settings, Workload  # noqa: E402
from gpuwise.workload.transform.relatives import OPTIMIZERS, channels_last, narrowed, retyped, unscaled, with_optimizer, without  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BATCH = 9


class Net(torch.nn.Module):
    """A convolution, a norm, attention and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8)
        self.mix, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.mix(x).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2).mean(1))


class Soft(Net):
    """The same, weighted by softmax and log-softmax, which cast in their own kernels on fp16 alone."""

    def forward(self, x: Any) -> Any:
        scores = super().forward(x)
        return torch.softmax(scores, -1) * torch.log_softmax(self.out(self.mix.weight[:1, :] * scores.mean()), -1)


def _forward(model: Any, batch: Any, training: bool) -> Any:
    scores = model(batch[0])
    return torch.nn.functional.cross_entropy(scores, batch[1]) if training else scores


SUBJECT = Subject(
    build=Net,
    inputs=lambda batch, seq: (torch.randn(batch, 3, 6, 6), torch.zeros(batch, dtype=torch.int64)),
    forward=_forward,
)


def captured(subject: Subject = SUBJECT, **settings: Any) -> Workload:
    chosen = Settings(**settings)
    captures, parameters = capture(subject, chosen, [(2, None), (3, None), (5, None)])
    about = Description(
        model="net",
        source="test",
        mode=chosen.mode,
        precision=chosen.precision,
        optimizer=chosen.optimizer,
        options={},
        parameters=parameters,
    )
    return join(captures, about)


def base(subject: Subject = SUBJECT, **settings: Any) -> Graph:
    """A training graph without its optimizer, as the zoo stores it."""
    graph = graph_of(captured(subject, optimizer="sgd", **settings))
    update = np.array([op.name == "_foreach_add_" for op in graph.ops])[graph.op_of]
    update &= np.arange(len(update)) >= sum(graph.phase_counts[:2])
    weights, gradients, _ = np.split(graph.refs[slots(graph)[0] == int(np.flatnonzero(update)[0])], 3)
    return without(replace(graph, trained=((weights, gradients),)), update, {})


def calls(workload: Workload) -> Counter[Any]:
    values = product_values(workload, BATCH)[0]

    def tensor(row: int) -> tuple[str, float]:
        return workload.tensors[row].dtype, values[workload.tensors[row].elements]

    found: Counter[Any] = Counter()
    for call in workload.calls:
        op = workload.ops[call.op]
        sizes, reads, writes = (
            tuple(values[row] for row in op.sizes),
            tuple(map(tensor, op.reads)),
            tuple(map(tensor, op.writes)),
        )
        attrs = tuple(sorted(op.attrs.items()))
        found[(op.kind, op.name, op.dtype, attrs, sizes, reads, writes, call.phase, workload.modules[call.module])] += 1
    return found


def agree(ours: Graph, direct: Workload, spare_bytes: float = 0) -> None:
    made = workload_of(ours, model="net", source="test", mode="train", precision="", batch=2, symbols=("batch",), parameters=0)
    assert calls(made) == calls(direct)
    mine, theirs = peak_memory(made, BATCH).total_bytes, peak_memory(direct, BATCH).total_bytes
    assert abs(mine - theirs) <= spare_bytes


@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_taking_the_update_off_leaves_a_step_without_optimizer(precision: str) -> None:
    agree(base(precision=precision), captured(optimizer="none", precision=precision))


def test_mixed_precision_loses_its_scaler() -> None:
    agree(retyped(unscaled(base(precision="amp")), {"fp16": "bf16"}), captured(optimizer="none", precision="amp-bf16"))


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_softmax_of_bf16_needs_casts_that_fp16_does_not(mode: str) -> None:
    subject = replace(SUBJECT, build=Soft)
    ours = graph_of(captured(subject, optimizer="none", precision="amp", mode=mode))
    made = retyped(unscaled(ours), {"fp16": "bf16"})
    assert [op.reads for op in ours.ops if op.name == "_softmax"] != [op.reads for op in made.ops if op.name == "_softmax"]
    agree(made, captured(subject, optimizer="none", precision="amp-bf16", mode=mode))


@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_adam_in_8_bits_is_the_recorded_one(precision: str) -> None:
    subject = replace(SUBJECT, build=lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(108, 64)))
    made = with_optimizer(base(subject, precision=precision), "adam8bit", "foreach")
    assert {op.writes and made.tensors[op.writes[1]].dtype for op in made.ops if op.name == "gpuwise::adam8bit"} == {
        "uint8",
        "fp32",
    }
    agree(made, captured(subject, optimizer="adam8bit", precision=precision))


@pytest.mark.parametrize(("optimizer", "implementation"), [key for key in OPTIMIZERS if key[0] != "lion"])
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_optimizers_are_those_of_torch(optimizer: str, implementation: str, precision: str) -> None:
    step_counts = 4 * 8  # seven, and a one to add; torch keeps them on the host unless the optimizer is fused
    made = with_optimizer(base(precision=precision), optimizer, implementation)
    agree(made, captured(optimizer=optimizer, implementation=implementation, precision=precision), step_counts)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_model_in_16_bits_is_the_fp32_graph_with_narrower_tensors(mode: str) -> None:
    def build() -> Any:
        torch.set_default_dtype(torch.bfloat16)
        try:
            return Net()
        finally:
            torch.set_default_dtype(torch.float32)

    def inputs(batch: int, seq: int | None) -> Any:
        images, labels = SUBJECT.inputs(batch, seq)
        return images.to(torch.bfloat16), labels

    direct = captured(replace(SUBJECT, build=build, inputs=inputs), mode=mode, optimizer="none")
    full = captured(mode=mode, optimizer="none")
    agree(narrowed(graph_of(full), "bf16"), direct)


def test_channels_last_marks_every_convolution() -> None:
    graph = channels_last(base())
    assert {op.attrs["layout"] for op in graph.ops if op.kind == "conv"} == {"nhwc"}
