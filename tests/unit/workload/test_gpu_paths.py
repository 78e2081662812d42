"""Ops that a GPU runs whole or reads in part, as the capture records them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capturing needs torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from gpuwise.core.errors import BadValue  # noqa: E402
from gpuwise.workload.capture.raw import RawCapture  # noqa: E402
from gpuwise.workload.capture.torch.stand_ins import gpu_names, swapped  # noqa: E402
from gpuwise.workload.capture.torch.step import Subject, capture  # noqa: E402
from gpuwise.workload.model import evaluate  # noqa: E402
from gpuwise.workload.model.edit import graph_of  # noqa: E402
from gpuwise.workload.model.symbols import Description, join  # noqa: E402
from gpuwise.workload.model.types import Settings, Workload  # noqa: E402
from gpuwise.workload.transform.relatives import channels_last  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _recorded(build: Any, inputs: Any, run: Any = None, **settings: Any) -> tuple[RawCapture, Workload]:
    call = run or (lambda model, x: model(x))
    subject = Subject(
        build=build,
        inputs=lambda batch, seq: inputs(),
        forward=lambda model, x, training: call(model, x).square().mean() if training else call(model, x),
    )
    chosen = Settings(**{"optimizer": "none", **settings})
    captures, parameters = capture(subject, chosen, [(4, None)])
    about = Description(model="m", source="t", mode="", precision="", optimizer="", options={}, parameters=parameters)
    return captures[0], join(captures, about)


def _of(recorded: RawCapture, *names: str) -> list[Any]:
    return [call for call in recorded.calls if call.name in names]


# ---------------------------------------------------------------- attention


class Biased(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, 8, 16, 16))

    def forward(self, q: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=self.bias)


def test_a_learned_bias_of_attention_gets_a_gradient() -> None:
    recorded, _ = _recorded(Biased, lambda: torch.randn(4, 8, 16, 8), optimizer="sgd")
    (backward,) = _of(recorded, "gpuwise::attention_backward")
    assert backward.writes[3].shape == (4, 8, 16, 16)  # of every score; the sum over the batch follows
    update = recorded.calls[-1]
    assert update.name == "_foreach_add_"
    assert update.writes[0].shape == (1, 8, 16, 16)
    assert [buffer.tensor.shape for buffer in recorded.buffers if buffer.category == "gradient"] == [(1, 8, 16, 16)]


def test_a_mask_that_is_not_learned_gets_none() -> None:
    recorded, _ = _recorded(
        lambda: nn.Linear(8, 8),
        lambda: torch.randn(4, 8, 16, 8),
        lambda model, x: F.scaled_dot_product_attention(*[model(x)] * 3, attn_mask=torch.zeros(16, 16)),
    )
    (backward,) = _of(recorded, "gpuwise::attention_backward")
    assert len(backward.writes) == 3


ATTENTION: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "heads and widths differ": ((2, 4, 8, 16), (2, 3, 8, 8), (2, 3, 8, 8), {}),
    "heads differ": ((2, 4, 8, 16), (2, 3, 8, 16), (2, 3, 8, 16), {}),
    "grouped heads without enable_gqa": ((2, 4, 8, 16), (2, 2, 8, 16), (2, 2, 8, 16), {}),
    "heads are no multiple": ((2, 4, 8, 16), (2, 3, 8, 16), (2, 3, 8, 16), {"enable_gqa": True}),
    "widths differ": ((2, 4, 8, 16), (2, 4, 8, 8), (2, 4, 8, 8), {}),
    "lengths differ": ((2, 4, 8, 16), (2, 4, 9, 16), (2, 4, 8, 16), {}),
}


@pytest.mark.parametrize("case", ATTENTION)
def test_attention_of_shapes_that_do_not_fit_is_refused_as_torch_does(case: str) -> None:
    *shapes, options = ATTENTION[case]

    def attend(*_: Any) -> Any:
        return F.scaled_dot_product_attention(*(torch.randn(shape) for shape in shapes), **options)

    with pytest.raises(RuntimeError, match="scaled_dot_product_attention"):
        _recorded(lambda: nn.Linear(2, 2), lambda: torch.randn(2, 2), attend, mode="infer")


@pytest.mark.parametrize(("shape", "options"), [((2, 2, 8, 16), {"enable_gqa": True}), ((1, 1, 8, 16), {}), ((2, 4, 5, 16), {})])
def test_attention_of_shapes_that_fit_is_recorded(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    def attend(*_: Any) -> Any:
        other = torch.randn(shape)
        found = F.scaled_dot_product_attention(torch.randn(2, 4, 8, 16), other, other, **options)
        assert found.shape == (2, 4, 8, 16)
        return found

    recorded, _ = _recorded(lambda: nn.Linear(2, 2), lambda: torch.randn(2, 2), attend, mode="infer")
    assert len(_of(recorded, "gpuwise::attention")) == 1


# ---------------------------------------------------------------- recurrent networks


def test_an_unused_reserve_gets_no_gradient() -> None:
    recorded, _ = _recorded(lambda: nn.LSTM(16, 32, 2), lambda: torch.randn(20, 4, 16), lambda model, x: model(x)[1][0][-1])
    zeros = [call.writes[0].shape for call in recorded.calls if call.phase == "backward" and call.name.startswith("zeros")]
    assert zeros == [(20, 4, 32)]  # the gradient of the output, which cuDNN wants; nothing like the reserve
    (backward,) = _of(recorded, "gpuwise::rnn_backward")
    assert backward.reads[1].shape == (2, 4, 32)  # of the last hidden state


def test_flops_of_a_projection_by_hand() -> None:
    steps, batch, given, hidden, handed = 10, 4, 32, 64, 16
    _, workload = _recorded(
        lambda: nn.LSTM(given, hidden, 2, proj_size=handed),
        lambda: torch.randn(steps, batch, given),
        lambda model, x: model(x)[0],
        mode="infer",
    )
    layers = 4 * hidden * (given + handed) + hidden * handed + 4 * hidden * (handed + handed) + hidden * handed
    assert evaluate.totals(workload).forward_flops == 2 * steps * batch * layers == 1_802_240


@pytest.mark.parametrize(("cell", "fused"), [("LSTMCell", "_thnn_fused_lstm_cell"), ("GRUCell", "_thnn_fused_gru_cell")])
def test_a_cell_is_two_products_and_one_kernel(cell: str, fused: str) -> None:
    def twice(model: Any, x: Any) -> Any:
        state = model(x, model(x))
        return state[0] if isinstance(state, tuple) else state

    recorded, _ = _recorded(lambda: getattr(nn, cell)(16, 32), lambda: torch.randn(4, 16), twice, precision="amp")
    forward = Counter(call.name for call in recorded.calls if call.phase == "forward")
    assert (forward["mm"], forward[fused]) == (4, 2)
    assert forward["sigmoid"] == forward["tanh"] == 0
    weights = [
        call for call in recorded.calls if call.kind == "cast" and call.phase == "forward" and call.reads[0].shape[-1:] == (32,)
    ]
    assert sum(call.reads[0].shape[0] > 4 for call in weights) == 1  # cast once, for both steps
    assert sum(call.name.startswith(fused) and call.phase == "backward" for call in recorded.calls) == 2


# ---------------------------------------------------------------- norms and embeddings


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm_backward"), reason="fused from torch 2.9 on")
@pytest.mark.parametrize("precision", ["fp32", "amp", "bf16"])
def test_rms_norm_is_one_kernel_each_way(precision: str) -> None:
    recorded, _ = _recorded(lambda: nn.RMSNorm(64), lambda: torch.randn(4, 64), precision=precision)
    assert [call.name for call in recorded.calls if call.kind == "norm"] == ["_fused_rms_norm", "_fused_rms_norm_backward"]
    assert not _of(recorded, "rsqrt")
    (backward,) = _of(recorded, "_fused_rms_norm_backward")
    assert [tensor.shape for tensor in backward.writes] == [(64,)] or [t.shape for t in backward.writes] == [(4, 64), (64,)]


def test_group_norm_has_a_row_for_each_image_and_group() -> None:
    recorded, _ = _recorded(lambda: nn.GroupNorm(2, 8), lambda: torch.randn(4, 8, 5, 6))
    assert {call.sizes for call in recorded.calls if call.kind == "norm"} == {((4, 2), (4, 5, 6))}


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_an_embedding_bag_reads_the_rows_it_looks_up(mode: str) -> None:
    recorded, _ = _recorded(lambda: nn.EmbeddingBag(100_000, 64, mode=mode), lambda: torch.zeros(4, 8, dtype=torch.int64))
    forward, backward = (call for call in recorded.calls if call.kind == "embedding")
    assert forward.reads[0].shape == (32, 64)
    assert forward.sizes == ((32,), (64,), (100_000,))
    assert backward.attrs["pass"] == "backward"
    assert backward.reads[0].shape == (32, 64)
    assert backward.writes[0].shape == (100_000, 64)


# ---------------------------------------------------------------- optimizers and refusals


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(64, 64), nn.Linear(1000, 1000)

    def forward(self, x: Any) -> Any:
        return self.used(x)


@pytest.mark.parametrize("optimizer", ["adam", "momentum", "lion", "adam8bit"])
def test_weights_without_a_gradient_have_no_state(optimizer: str) -> None:
    _, workload = _recorded(Unused, lambda: torch.randn(4, 64), optimizer=optimizer)
    held = evaluate.peak_memory(workload).by_category["optimizer"]
    assert 0 < held <= 2 * 4 * (64 * 64 + 64)


def test_adam_in_8_bits_writes_its_states() -> None:
    recorded, _ = _recorded(lambda: nn.Linear(100, 100), lambda: torch.randn(4, 100), optimizer="adam8bit")
    large, small = _of(recorded, "gpuwise::adam8bit")
    assert large.kind == small.kind == "optimizer"
    assert [tensor.dtype for tensor in large.writes] == ["fp32", "uint8", "uint8", "fp32", "fp32"]
    assert [tensor.dtype for tensor in small.writes] == ["fp32", "fp32", "fp32"]  # less than 4096 values


def test_sparse_gradients_are_refused_in_training_alone() -> None:
    build, inputs = lambda: nn.Embedding(10, 8, sparse=True), lambda: torch.zeros(4, dtype=torch.int64)
    with pytest.raises(BadValue, match="sparse=True"):
        _recorded(build, inputs)
    assert _recorded(build, inputs, mode="infer")[0].calls


def test_lazy_layers_are_refused_with_the_cure() -> None:
    with swapped(gpu_names(lambda note: None)), pytest.raises(BadValue, match="lazy layers"):
        nn.LazyLinear(4)
    assert nn.LazyLinear(4) is not None


def test_fp8_says_what_was_recorded() -> None:
    recorded, _ = _recorded(lambda: nn.Linear(8, 8), lambda: torch.randn(4, 8), precision="fp8")
    assert any(note.startswith("fp8:") for note in recorded.notes)


# ---------------------------------------------------------------- memory orders


class Tokens(nn.Module):
    """Images seen as rows of channels and normalised, as in vision transformers without a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.norm, self.mix = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        x = self.cut(x).flatten(2).transpose(1, 2)
        return x + self.mix(self.norm(x))


def test_a_norm_of_transposed_rows_copies_them_first() -> None:
    recorded, workload = _recorded(Tokens, lambda: torch.randn(4, 3, 32, 32), mode="infer")
    (copy,) = _of(recorded, "native_layer_norm.copy")
    assert copy.kind == "copy"
    assert copy.attrs == {"reordered": "image"}
    (norm,) = _of(recorded, "native_layer_norm")
    assert norm.read_buffers[0] == copy.written_buffers[0]
    assert recorded.buffers[copy.written_buffers[0]].born == recorded.calls.index(copy)
    (add,) = (call for call in recorded.calls if call.name == "add")
    assert add.attrs == {"reordered": "image"}  # the sum is transposed too, and what is added to it is not
    assert evaluate.totals(workload).forward_flops == 2 * 4 * 64 * 16 * (3 * 16 + 16)


def test_channels_last_needs_none_of_these_copies() -> None:
    recorded, _ = _recorded(Tokens, lambda: torch.randn(4, 3, 32, 32), mode="infer", channels_last=True)
    assert not _of(recorded, "native_layer_norm.copy")
    assert not [call for call in recorded.calls if "reordered" in call.attrs]


def test_channels_last_drops_them_from_a_graph() -> None:
    _, first = _recorded(Tokens, lambda: torch.randn(4, 3, 32, 32))
    _, last = _recorded(Tokens, lambda: torch.randn(4, 3, 32, 32), channels_last=True)
    ours = channels_last(graph_of(first))
    names = [Counter(graph.ops[row].name for row in graph.op_of) for graph in (ours, graph_of(last))]
    assert names[0] == names[1]
    assert not any("reordered" in op.attrs for op in ours.ops)


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Any) -> Any:
        first, second = x.chunk(2, dim=1)
        return self.one(first) + self.two(second)


@pytest.mark.parametrize("last", [False, True])
def test_a_convolution_copies_a_slice_of_channels(last: bool) -> None:
    recorded, _ = _recorded(Halves, lambda: torch.randn(4, 16, 8, 8), mode="infer", channels_last=last)
    copies = _of(recorded, "convolution.copy")
    assert [copy.reads[0].shape for copy in copies] == [(4, 8, 8, 8)] * 2
    assert not any(copy.attrs for copy in copies)  # in the same order
    assert {call.attrs["layout"] for call in recorded.calls if call.kind == "conv"} == {"nhwc" if last else "nchw"}


class Block(nn.Module):
    """As in ConvNeXt: after the first block, images in the default layout are channels-last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.mix = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.mix(self.norm(self.conv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2) + x


def test_images_may_become_channels_last_on_the_way() -> None:
    recorded, _ = _recorded(lambda: nn.Sequential(Block(), Block()), lambda: torch.randn(4, 8, 16, 16), mode="infer")
    assert [call.attrs["layout"] for call in recorded.calls if call.kind == "conv"] == ["nchw", "nhwc"]
    assert len(_of(recorded, "native_layer_norm.copy")) == 1


def test_heads_of_attention_are_rearranged_without_reordering() -> None:
    """Values of a head stay next to each other."""
    recorded, _ = _recorded(
        lambda: nn.Linear(32, 32),
        lambda: torch.randn(4, 16, 32),
        lambda model, x: model(x).reshape(4, 16, 4, 8).transpose(1, 2).contiguous(),
        mode="infer",
    )
    (copy,) = _of(recorded, "clone")
    assert copy.attrs == {}
