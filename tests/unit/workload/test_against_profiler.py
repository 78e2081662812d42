"""The recorded ops of whole models against a real run of the same modules on the CPU, as torch's profiler saw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capturing needs torch")

from torch.nn import functional as F  # noqa: E402, N812

from gpuwise.workload.capture.torch.overrides import install  # noqa: E402
from gpuwise.workload.capture.torch.step import Subject, capture  # noqa: E402
from gpuwise.workload.model.types import Settings  # noqa: E402

CLASSES = {"matmul", "conv", "attention", "norm", "softmax", "loss", "embedding", "pool", "cast", "elementwise", "reduction"}


def _resnet50() -> tuple[Callable[[], Any], Callable[[int], Any], Callable[..., Any]]:
    from gpuwise.workload.capture.torch.torchvision import import_torchvision

    torchvision = import_torchvision()
    return (
        lambda: torchvision.models.resnet50(num_classes=10),
        lambda batch: (torch.randn(batch, 3, 64, 64), torch.zeros(batch, dtype=torch.int64)),
        lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]),
    )


def _language_model(name: str) -> tuple[Callable[[], Any], Callable[[int], Any], Callable[..., Any]]:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    if name == "bert-large":
        config = transformers.BertConfig(
            hidden_size=64, num_attention_heads=4, num_hidden_layers=24, intermediate_size=128, vocab_size=100
        )
        build = lambda: transformers.BertForMaskedLM(config)  # noqa: E731
    else:
        config = transformers.GPT2Config(n_embd=64, n_head=4, n_layer=12, vocab_size=100)
        build = lambda: transformers.GPT2LMHeadModel(config)  # noqa: E731
    return (
        build,
        lambda batch: torch.zeros(batch, 16, dtype=torch.int64),
        lambda model, ids: model(input_ids=ids, labels=ids).loss,
    )


def _make_attention_run() -> None:
    """Give the whole-attention ops a real kernel, so that the same graph can run on real tensors."""

    def forward(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, apart: bool) -> Any:
        return q.transpose(-2, -3).clone().transpose(-2, -3), torch.zeros(q.shape[:-1])

    def backward(
        grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, mask: Any, causal: bool, apart: bool, learns: bool
    ) -> Any:
        return [torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)]

    torch.library.register_kernel("gpuwise::attention", "cpu", forward)
    torch.library.register_kernel("gpuwise::attention_backward", "cpu", backward)


def _profiled(step: Callable[[], None], names: set[str]) -> Counter[str]:
    """How often each of these ops ran. What one of them calls is part of it, unless it only casts for itself (autocast)."""
    with torch.profiler.profile() as profiler:
        step()
    counts: Counter[str] = Counter()
    for event in profiler.events():
        absorbing = [parent for parent in _ancestors(event) if _plain(parent.name) in names and not _is_wrapper(parent)]
        if _plain(event.name) in names and not absorbing and not _is_wrapper(event):
            counts[_plain(event.name)] += 1
    return counts


def _plain(name: str) -> str:
    """One name for an op and its in-place form: autograd sums gradients in place, but not those of fake tensors."""
    return name.removeprefix("aten::").rstrip("_")


def _ancestors(event: Any) -> list[Any]:
    found = []
    while event.cpu_parent is not None:
        event = event.cpu_parent
        found.append(event)
    return found


def _is_wrapper(event: Any) -> bool:
    return any(_plain(child.name) == _plain(event.name) for child in event.cpu_children)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert-large", "gpt2"])
def test_same_ops_as_a_real_mixed_precision_step(name: str) -> None:
    build, inputs, loss = _resnet50() if name == "resnet50" else _language_model(name)
    subject = Subject(
        build=build, inputs=lambda batch, seq: inputs(batch), forward=lambda model, batch, training: loss(model, batch)
    )
    captures, _ = capture(subject, Settings(precision="amp-bf16", optimizer="adamw"), [(2, None)])
    ours: Counter[str] = Counter()
    for call in captures[0].calls:
        if call.kind in CLASSES and not call.name.endswith((".data", ".bias")):  # the parts of one backward convolution
            ours[_plain(call.name.removesuffix(".weight"))] += 1
    library = install()
    if name != "resnet50":
        _make_attention_run()
    model = build().train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = inputs(2)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(model, batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    real = _profiled(step, set(ours) | {_plain(call.name) for call in captures[0].calls})
    assert library is not None
    assert {key: (ours[key], real[key]) for key in ours if ours[key] != real[key]} == {}
