"""The recorder against PyTorch itself: the same FLOPs as its counter, the same ops and the same peak memory as its profiler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capturing needs torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from gpuwise.workload.capture.torch.step import Subject, _checkpoint_blocks, capture  # noqa: E402
from gpuwise.workload.model import evaluate  # noqa: E402
from gpuwise.workload.model.symbols import Description, join  # noqa: E402
from gpuwise.workload.model.types import Settings, Workload  # noqa: E402

BATCH = 64


class Residual(nn.Module):
    """A transformer-like block without attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class ConvBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(self.conv(x)) + x)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(1000, 64), nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        return self.out(self.embed(x).mean(1))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)),
        (512,),
    ),
    "deep mlp": (
        lambda: nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(8)], nn.Linear(256, 10)),
        (256,),
    ),
    "residual": (lambda: nn.Sequential(*[Residual(256) for _ in range(6)], nn.Linear(256, 10)), (256,)),
    "wide residual": (lambda: nn.Sequential(*[Residual(64) for _ in range(3)], nn.Flatten(), nn.Linear(64 * 32, 10)), (32, 64)),
    "norms": (lambda: nn.Sequential(nn.Linear(64, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 10)), (64,)),
    "gated": (lambda: nn.Sequential(nn.Linear(128, 1024), nn.GLU(), nn.Linear(512, 10)), (128,)),
    "sigmoids": (
        lambda: nn.Sequential(nn.Linear(128, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 10)),
        (128,),
    ),
    "softmax": (lambda: nn.Sequential(nn.Linear(128, 512), nn.Softmax(-1), nn.Linear(512, 10)), (128,)),
}


def _loss(model: nn.Module, batch: Any, training: bool) -> Any:
    scores = model(batch[0])
    return F.cross_entropy(scores, batch[1]) if training else scores


def _subject(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> Subject:
    return Subject(
        build=build,
        inputs=lambda batch, seq: (torch.randn(batch, *shape), torch.zeros(batch, dtype=torch.int64)),
        forward=_loss,
    )


def _workload(subject: Subject, settings: Settings, points: list[tuple[int, int | None]]) -> Workload:
    captures, parameters = capture(subject, settings, points)
    about = Description(
        model="m",
        source="test",
        mode=settings.mode,
        precision=settings.precision,
        optimizer="",
        options={},
        parameters=parameters,
    )
    return join(captures, about)


def _real_step(model: nn.Module, shape: tuple[int, ...], settings: Settings) -> tuple[Callable[[], None], float]:
    """A step on real tensors, and the bytes that lie in memory before it."""
    if settings.checkpoint:
        _checkpoint_blocks(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, foreach=True)
    x, labels = torch.randn(BATCH, *shape), torch.zeros(BATCH, dtype=torch.int64)

    def step() -> None:
        for _ in range(settings.accumulate):
            loss = _loss(model, (x, labels), True)
            (loss / settings.accumulate if settings.accumulate > 1 else loss).backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)

    step()
    held = 2 * sum(p.numel() * 4 for p in model.parameters()) + sum(b.numel() * b.element_size() for b in model.buffers())
    return step, held + x.numel() * 4 + labels.numel() * 8


def _profiled_peak(step: Callable[[], None], folder: Path) -> float:
    with torch.profiler.profile(profile_memory=True) as profiler:
        step()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    live = peak = 0.0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        live += event["args"]["Bytes"]
        peak = max(peak, live)
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"checkpoint": True}, {"accumulate": 3}], ids=["plain", "checkpoint", "accumulate"])
@pytest.mark.parametrize("name", MODELS)
def test_allocated_peak_equals_the_real_profilers(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    build, shape = MODELS[name]
    settings = Settings(optimizer="momentum", **options)
    ours = evaluate.peak_memory(_workload(_subject(build, shape), settings, [(BATCH, None)])).total_bytes
    step, held = _real_step(build().train(), shape, settings)
    assert ours == pytest.approx(held + _profiled_peak(step, tmp_path), rel=0.01)


def _counted_flops(model: nn.Module, *inputs: Any) -> float:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(*inputs)
    return float(counter.get_total_flops())


@pytest.mark.parametrize("name", MODELS)
def test_forward_flops_equal_torchs_counter(name: str) -> None:
    build, shape = MODELS[name]
    ours = evaluate.totals(_workload(_subject(build, shape), Settings(mode="infer"), [(4, None)])).forward_flops
    assert ours == pytest.approx(_counted_flops(build().eval(), torch.randn(4, *shape)), rel=0.001)


def test_attention_stays_whole_and_counts_like_its_two_products() -> None:
    build = lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)  # noqa: E731
    subject = Subject(
        build=build,
        inputs=lambda batch, seq: torch.randn(batch, seq, 64),
        forward=lambda model, x, training: model(x).square().mean() if training else model(x),
    )
    captures, count = capture(subject, Settings(precision="amp"), [(4, 16)])
    kinds = Counter((call.kind, call.phase) for call in captures[0].calls)
    assert kinds["attention", "forward"] == 1
    assert kinds["attention", "backward"] == 1
    assert kinds["softmax", "forward"] == 0
    (call,) = [call for call in captures[0].calls if call.kind == "attention" and call.phase == "forward"]
    assert call.dtype == "fp16"
    assert call.sizes == ((4,), (4,), (4,), (16,), (16,), (16,), (16,))
    assert count == sum(p.numel() for p in build().parameters())


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_stay_whole(cell: str) -> None:
    subject = Subject(
        build=lambda: getattr(nn, cell)(32, 64, num_layers=2, bidirectional=True),
        inputs=lambda batch, seq: torch.randn(seq, batch, 32),
        forward=lambda model, x, training: model(x)[0].square().mean() if training else model(x)[0],
    )
    captures, _ = capture(subject, Settings(precision="amp", optimizer="adam"), [(8, 20)])
    whole = [call for call in captures[0].calls if call.kind == "rnn"]
    assert [call.phase for call in whole] == ["forward", "backward"]
    assert whole[0].sizes == ((20,), (8,), (32,), (64,), (2,), (2,))
    assert whole[0].attrs["cell"] == cell.lower() if cell != "RNN" else whole[0].attrs["cell"] == "rnn_tanh"


def test_autocast_follows_the_lists_published_for_cuda() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 8)
            self.layer_norm = nn.LayerNorm(8)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
            return self.layer_norm(torch.softmax(self.linear(x), -1)).exp().sum(-1)

    captures, _ = capture(
        Subject(
            build=Net,
            inputs=lambda batch, seq: torch.randn(batch, 3, 8, 8),
            forward=lambda model, x, training: model(x).mean() if training else model(x),
        ),
        Settings(precision="amp", optimizer="sgd"),
        [(4, None)],
    )
    forward = {call.name: call.dtype for call in captures[0].calls if call.phase == "forward"}
    assert forward["convolution"] == forward["addmm"] == forward["native_batch_norm"] == "fp16"
    assert forward["native_layer_norm"] == forward["exp"] == forward["sum"] == "fp32"
    (softmax,) = [call for call in captures[0].calls if call.name == "_softmax"]
    assert (softmax.reads[0].dtype, softmax.writes[0].dtype) == ("fp16", "fp32")  # CUDA casts within the kernel


def test_amp_casts_each_weight_once_a_step_and_runs_the_scaler() -> None:
    shared = nn.Linear(16, 16, bias=False)
    captures, _ = capture(
        Subject(
            build=lambda: nn.Sequential(shared, nn.ReLU(), shared),
            inputs=lambda batch, seq: torch.randn(batch, 16),
            forward=lambda model, x, training: model(x).square().mean() if training else model(x),
        ),
        Settings(precision="amp", optimizer="sgd"),
        [(4, None)],
    )
    calls = captures[0].calls
    weights = [call for call in calls if call.kind == "cast" and call.phase == "forward" and call.reads[0].shape == (16, 16)]
    assert len(weights) == 1
    assert {"_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"} <= {call.name for call in calls}


def test_modules_are_named_in_both_directions() -> None:
    build, shape = MODELS["residual"]
    workload = _workload(_subject(build, shape), Settings(optimizer="sgd"), [(4, None)])
    named = {(workload.ops[call.op].kind, call.phase, workload.modules[call.module]) for call in workload.calls}
    assert ("matmul", 0, "2.up") in named
    assert ("matmul", 1, "2.up") in named
    assert ("norm", 1, "5.norm") in named


@pytest.mark.parametrize(
    ("optimizer", "states"), [("none", 0), ("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2), ("lion", 1), ("adam8bit", 0.5)]
)
@pytest.mark.parametrize("implementation", ["foreach", "for-loop"])
def test_optimizer_states_lie_in_memory(optimizer: str, states: float, implementation: str) -> None:
    build, shape = MODELS["mlp"]
    settings = Settings(optimizer=optimizer, implementation=implementation)
    workload = _workload(_subject(build, shape), settings, [(4, None)])
    held = evaluate.peak_memory(workload).by_category["optimizer"]
    assert held == pytest.approx(states * 4 * workload.parameters, rel=0.02, abs=1)


def test_symbolic_form_reproduces_a_direct_capture() -> None:
    build, shape = MODELS["wide residual"]
    symbolic = _workload(
        _subject(build, shape), Settings(precision="amp", optimizer="adamw"), [(2, None), (3, None), (5, None), (8, None)]
    )
    direct = _workload(_subject(build, shape), Settings(precision="amp", optimizer="adamw"), [(37, None)])
    assert symbolic.symbols == ("batch",)
    assert evaluate.totals(symbolic, 37) == evaluate.totals(direct)
    assert evaluate.peak_memory(symbolic, 37) == evaluate.peak_memory(direct)


def test_a_model_that_is_not_affine_is_kept_at_its_size_with_a_note() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.linear(x)
            return (y @ y.T).reshape(-1).square()

    workload = _workload(
        Subject(
            build=Pairs,
            inputs=lambda batch, seq: torch.randn(batch, 4),
            forward=lambda model, x, training: model(x).mean() if training else model(x),
        ),
        Settings(mode="infer"),
        [(2, None), (3, None), (5, None), (8, None)],
    )
    assert workload.symbols == ()
    assert any("valid only at the captured size" in note for note in workload.notes)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_model_is_turned_to_another_type_and_layout_with_its_tied_weights(precision: str) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
            self.second.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.second(self.first(self.norm(self.conv(x)).mean((2, 3))))

    subject = Subject(
        build=Tied,
        inputs=lambda batch, seq: torch.randn(batch, 3, 8, 8),
        forward=lambda model, x, training: model(x).mean() if training else model(x),
    )
    captures, parameters = capture(subject, Settings(precision=precision, channels_last=True, optimizer="momentum"), [(4, None)])
    convolutions = [call for call in captures[0].calls if call.kind == "conv"]
    assert {call.dtype for call in convolutions} == {precision}
    assert {call.attrs["layout"] for call in convolutions} == {"nhwc"}
    assert parameters == sum(p.numel() for p in Tied().parameters())


class Heads(nn.Module):
    """Attention to itself, as most code calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.heads(x, x, x, need_weights=False)[0].mean(1)


def test_inference_of_multihead_attention_records_its_products() -> None:
    subject = _subject(Heads, (32, 64))
    found = {
        mode: _workload(subject, Settings(mode=mode, precision="fp32", optimizer="none"), [(4, None), (8, None), (12, None)])
        for mode in ("infer", "train")
    }
    kinds = {mode: Counter(op.kind for op in workload.ops) for mode, workload in found.items()}
    assert kinds["infer"]["attention"] == 1
    assert "other" not in kinds["infer"]
    forward = {mode: evaluate.totals(workload, batch=8).forward_flops for mode, workload in found.items()}
    assert forward["infer"] == forward["train"] > 0
    assert torch.backends.mha.get_fastpath_enabled()
