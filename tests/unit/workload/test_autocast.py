"""Autocast of the capture against torch's own rules for CUDA: its header, its dispatcher, and what ops do under them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capturing needs torch")

from torch.nn import functional as F  # noqa: E402, N812

from gpuwise.workload.capture.torch import autocast  # noqa: E402
from gpuwise.workload.capture.torch.overrides import install  # noqa: E402
from gpuwise.workload.capture.torch.step import Subject, capture  # noqa: E402
from gpuwise.workload.model.types import Settings  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
# Rules that one device has and the other has not, with the reason.
ONLY_HERE = {
    "aten::lstm.input": "stands for the rule of _cudnn_rnn, which torch built without CUDA does not register",
    "aten::gru.input": "the same",
    "aten::rnn_tanh.input": "the same",
    "aten::rnn_relu.input": "the same",
    "aten::mkldnn_rnn_layer": "no GPU runs it; its rule is how tensors get through autocast's cache",
}


def _registered(key: str) -> set[str]:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::") and has(name, key)}


def test_the_rules_of_the_capture_are_those_of_cuda() -> None:
    library = install()
    cuda, ours = _registered("AutocastCUDA"), _registered("AutocastCPU")
    left_out = {name for name in ours if _falls_through(name)}
    assert library is not None
    assert cuda
    assert cuda - (ours - left_out) == set()
    assert (ours - left_out) - cuda == set(ONLY_HERE)


def _falls_through(name: str) -> bool:
    """Whether the dispatcher goes on below autocast at once."""
    table = torch._C._dispatch_dump_table(name)
    return "fallthrough" in next(line for line in table.splitlines() if line.startswith("AutocastCPU:"))


@pytest.mark.skipif(not HEADER.exists(), reason="this torch has no headers")
@pytest.mark.parametrize(
    ("macro", "ours"),
    [
        ("LOWER_PRECISION_FP", [name for name in autocast.LOW if not name.startswith("cudnn_")]),  # registered beside the macro
        ("FP32", autocast.FP32),
        ("FP32_SET_OPT_DTYPE", autocast.FP32_OUTPUT),
        ("PROMOTE", autocast.WIDEST),
    ],
)
def test_every_op_is_in_the_list_that_the_header_puts_it_in(macro: str, ours: list[str]) -> None:
    text = HEADER.read_text()
    if "AT_FORALL_FP32(_)" not in text:
        pytest.skip("this version keeps its lists elsewhere")
    body = re.split(r"(?<!\\)\n", text.partition(f"AT_FORALL_{macro}(_)")[2], maxsplit=1)[0]
    theirs = {".".join(re.split(r",\s*", found)) for found in re.findall(r"_\(([\w, ]+)\)", body)}
    assert len(theirs) > 10
    assert set(ours) == theirs


class _Op(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.linear, self.run = torch.nn.Linear(8, 8), run

    def forward(self, x: Any) -> Any:
        return self.run(self.linear(x), x)


def _calls(run: Any, precision: str = "amp", mode: str = "infer") -> list[tuple[str, str, str]]:
    """What runs after the layer: name, dtype read, dtype written."""
    subject = Subject(
        build=lambda: _Op(run),
        inputs=lambda batch, seq: torch.randn(batch, 8),
        forward=lambda model, x, training: model(x),
    )
    (recorded,), _ = capture(subject, Settings(precision=precision, mode=mode, optimizer="none"), [(4, None)])
    calls = [(call.name, call.reads[0].dtype if call.reads else "", call.writes[0].dtype) for call in recorded.calls]
    return calls[1 + next(number for number, call in enumerate(calls) if call[0] == "addmm") :]


CAST = ("_to_copy", "fp16", "fp32")
CASES: dict[str, tuple[Any, list[tuple[str, str, str]]]] = {
    "softmax casts in its kernel": (lambda y, x: torch.softmax(y, 1), [("_softmax", "fp16", "fp32")]),
    "log_softmax too": (lambda y, x: F.log_softmax(y, 1), [("_log_softmax", "fp16", "fp32")]),
    "an output type asked for stays": (lambda y, x: F.softmax(y, 1, dtype=torch.float16), [("_softmax", "fp16", "fp16")]),
    "sums read fp16 themselves": (lambda y, x: y.sum(), [("sum", "fp16", "fp32")]),
    "norms too": (lambda y, x: y.norm(), [("linalg_vector_norm", "fp16", "fp32")]),
    "cumulative sums do not": (lambda y, x: y.cumsum(0), [CAST, ("cumsum", "fp32", "fp32")]),
    "addcmul of fp16 stays there": (lambda y, x: torch.addcmul(y, y, y), [("addcmul", "fp16", "fp16")]),
    "addcmul with fp32 widens": (lambda y, x: torch.addcmul(x, y, x), [CAST, ("addcmul", "fp32", "fp32")]),
    "logsumexp is in fp32": (lambda y, x: torch.logsumexp(y, 1), [CAST, ("logsumexp", "fp32", "fp32")]),
    "upsampling is in fp32": (
        lambda y, x: F.interpolate(y[None, None], scale_factor=2.0),
        [CAST, ("upsample_nearest2d", "fp32", "fp32")],
    ),
    "cat has no rule": (lambda y, x: torch.cat([y, y]), [("cat", "fp16", "fp16")]),
    "padding has no rule": (lambda y, x: F.pad(y, (1, 1), mode="reflect"), [("reflection_pad1d", "fp16", "fp16")]),
    "losses are in fp32": (lambda y, x: F.mse_loss(y, y), [CAST, CAST, ("mse_loss", "fp32", "fp32")]),
    "cross-entropy asks log_softmax for the type it has": (
        lambda y, x: F.cross_entropy(y, torch.zeros(4, dtype=torch.int64)),
        [("zeros", "", "int64"), ("_log_softmax", "fp16", "fp16"), CAST, ("nll_loss_forward", "fp32", "fp32")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_ops_under_autocast(case: str) -> None:
    run, expected = CASES[case]
    assert _calls(run) == expected


def test_softmax_of_bf16_casts_first() -> None:
    assert _calls(lambda y, x: torch.softmax(y, 1), "amp-bf16") == [("_to_copy", "bf16", "fp32"), ("_softmax", "fp32", "fp32")]


def test_softmax_of_fp16_casts_in_its_kernel_without_autocast_too() -> None:
    assert _calls(lambda y, x: F.softmax(y, 1, dtype=torch.float32), "fp16") == [("_softmax", "fp16", "fp32")]


def test_gradients_of_logits_stay_narrow() -> None:
    calls = _calls(lambda y, x: F.cross_entropy(y, torch.zeros(4, dtype=torch.int64)), mode="train")
    assert ("_log_softmax_backward_data", "fp16", "fp16") in calls


def test_what_cuda_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        _calls(lambda y, x: F.binary_cross_entropy(y.sigmoid(), y))


def test_a_weight_is_cast_once_by_our_rules_too() -> None:
    weight = torch.nn.Parameter(torch.randn(8, 8))
    library = install()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, second = (autocast._to_low_once(weight) for _ in range(2))
    assert library is not None
    assert first.dtype is torch.bfloat16
    assert first is second or first.data_ptr() == second.data_ptr()
