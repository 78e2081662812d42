"""Each op is priced by measurements of the same kind of work: by its cell, its function and the length of its rows."""

from __future__ import annotations

import pytest

from gpuwise.kernels.registry import KINDS
from gpuwise.live.bench.cases import cases
from gpuwise.workload.model.types import AttrValue, Op


def kinds(kind: str, name: str, sizes: dict[str, float], **attrs: AttrValue) -> tuple[str, ...]:
    op = Op(kind, name, "fp32", (), attrs, (), ())
    return KINDS[kind].measured(op, sizes).kinds


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", "elementwise"),
        ("relu_", "elementwise"),
        ("leaky_relu_backward", "elementwise"),
        ("hardtanh", "elementwise"),
        ("hardsigmoid", "elementwise"),
        ("logical_and", "elementwise"),
        ("threshold_backward", "elementwise"),
        ("tanh_backward", "elementwise"),
        ("sigmoid_backward", "elementwise"),
        ("gelu", "curve"),
        ("gelu_backward", "curve"),
        ("silu_", "curve"),
        ("silu_backward", "curve"),
        ("sigmoid", "curve"),
        ("log_sigmoid_forward", "curve"),
        ("elu", "curve"),
        ("tanh_", "tanh"),
        ("mish", "tanh"),
        ("mish_backward", "tanh"),
        ("native_dropout", "dropout"),
        ("native_dropout_backward", "elementwise"),
    ],
)
def test_functions_are_priced_as_what_they_compute(name: str, expected: str) -> None:
    assert kinds("elementwise", name, {"elements": 1e6})[0] == expected


@pytest.mark.parametrize("kind", ["softmax", "loss"])
def test_short_rows_have_measurements_of_their_own(kind: str) -> None:
    assert kinds(kind, "_log_softmax", {"rows": 64.0, "columns": 10.0}) == ("short_softmax.forward", "softmax.forward")
    assert kinds(kind, "_log_softmax_backward_data", {"rows": 64.0, "columns": 1000.0}) == ("softmax.backward",)


@pytest.mark.parametrize(("cell", "expected"), [("lstm", "lstm"), ("gru", "gru"), ("rnn_tanh", "rnn"), ("rnn_relu", "rnn")])
def test_recurrent_layers_are_priced_by_their_cell(cell: str, expected: str) -> None:
    sizes = {"steps": 8.0, "batch": 4.0, "input": 16.0, "hidden": 16.0, "layers": 2.0, "directions": 1.0}
    attrs: dict[str, AttrValue] = {"cell": cell, "pass": "backward"}
    measured = KINDS["rnn"].measured(Op("rnn", "rnn", "fp32", (), attrs, (), ()), sizes)
    assert measured.kinds == (f"{expected}.backward",)
    assert measured.sizes == (8.0, 4.0, 16.0, 2.0)
    both = KINDS["rnn"].measured(Op("rnn", "rnn", "fp32", (), attrs, (), ()), sizes | {"directions": 2.0})
    assert both.sizes == (8.0, 4.0, 16.0, 4.0)


def test_what_ops_ask_for_is_measured() -> None:
    pytest.importorskip("torch")
    found = {(case.kind, len(case.sizes)) for case in cases("cpu")}
    for half in ("forward", "backward"):
        assert {(f"{cell}.{half}", 4) for cell in ("lstm", "gru", "rnn")} <= found
        assert (f"short_softmax.{half}", 2) in found
    assert {("tanh", 1), ("curve", 1), ("elementwise", 1), ("dropout", 1)} <= found
