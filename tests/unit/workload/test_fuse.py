"""The fusion model keeps what a step computes and never makes it more expensive; known patterns become the kernels that
Inductor creates.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import pairwise

import pytest
from by_hand import DTYPES, ONE, ROWS, WIDE, WIDTH, Builder
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.fuse import fused, is_fused
from gpuwise.workload.compile.groups import Grouper
from gpuwise.workload.compile.recompute import recompute
from gpuwise.workload.compile.roles import Sizes, loops_of
from gpuwise.workload.compile.stored import stored_bytes
from gpuwise.workload.compile.write import in_order
from gpuwise.workload.model.evaluate import op_bytes, op_flops, peak_memory, product_values
from gpuwise.workload.model.types import CATEGORIES, Call, Calls, Op, Workload
from gpuwise.workload.store import files


def traffic(workload: Workload, batch: float = 8) -> float:
    read, written = op_bytes(workload, product_values(workload, batch))
    return float(sum((read + written)[0, call.op] for call in workload.calls))


def flops(workload: Workload) -> float:
    per_op = op_flops(workload, product_values(workload))[0]
    return float(sum(per_op[call.op] for call in workload.calls))


def names(workload: Workload) -> list[str]:
    return [workload.ops[call.op].name for call in workload.calls]


SMALL, FULL, HALF = 64 * 4, 8 * 16 * 64 * 4, 8 * 16 * 64 * 2


# ---------------------------------------------------------------- patterns


def test_a_chain_of_loops_becomes_one_kernel_that_reads_and_writes_once():
    b = Builder()
    x = b.buffer()
    for name in ("relu", "mul", "add"):
        x = b.call("elementwise", name, [x])
    result = fused(b.workload(outputs=(x,)))
    assert names(result) == ["fused_relu_mul_add"]
    assert traffic(result) == 2 * FULL
    assert len(result.buffers) == 2
    assert result.notes[-1] == "compilation fuses 3 kernels into 1"


def test_a_value_needed_elsewhere_is_still_written():
    b = Builder()
    x = b.buffer()
    y = b.call("elementwise", "relu", [x])
    z = b.call("elementwise", "mul", [y])
    out = b.call("matmul", "mm", [y, z])
    result = fused(b.workload(outputs=(out,)))
    assert names(result) == ["fused_relu_mul", "mm"]
    assert traffic(result) == 3 * FULL + 3 * FULL


def test_a_library_call_parts_two_kernels_unless_epilogues_are_asked_for():
    b = Builder()
    x, w = b.buffer(), b.buffer(WIDTH, category="weight")
    y = b.call("elementwise", "relu", [x])
    y = b.call("matmul", "mm", [y, w])
    y = b.call("elementwise", "gelu", [y])
    workload = b.workload(outputs=(y,))
    assert names(fused(workload)) == ["relu", "mm", "gelu"]
    result = fused(workload, epilogues=True)
    assert names(result) == ["relu", "fused_mm_gelu"]
    assert result.ops[result.calls[1].op].kind == "matmul"
    assert flops(result) == flops(workload)


def test_a_layer_norm_takes_in_the_residual_before_and_the_cast_after():
    b = Builder()
    x, residual = b.buffer(), b.buffer()
    total = b.call("elementwise", "add", [x, residual])
    normal = b.call("norm", "native_layer_norm", [total], more=(ROWS, ROWS))
    low = b.call("cast", "_to_copy", [normal], dtype="fp16")
    out = b.call("matmul", "mm", [low, total])
    result = fused(b.workload(outputs=(out,)))
    assert names(result)[0] == "fused_add_native_layer_norm_to_copy"
    op = result.ops[result.calls[0].op]
    assert (op.kind, op.sizes, op.attrs["fused"]) == ("norm", (ROWS, WIDTH), 3)
    assert traffic(result) == 2 * FULL + FULL + HALF + (HALF + FULL + HALF * 2)


def test_batch_norm_at_inference_is_a_loop_and_in_training_a_kernel_of_two_passes():
    for statistics, kind in ((ONE, "norm"), (None, "elementwise")):
        b = Builder()
        x = b.buffer()
        y = b.call("norm", "native_batch_norm", [x], more=() if statistics is None else (WIDTH, WIDTH))
        y = b.inplace("relu_", [y])
        result = fused(b.workload(outputs=(y,)))
        op = result.ops[result.calls[0].op]
        assert len(result.calls) == 1
        assert op.kind == kind
        assert op.attrs.get("launches", 1) == (2 if kind == "norm" else 1)


def test_the_sum_of_a_bias_gradient_takes_in_only_what_nobody_else_needs():
    b = Builder()
    b.phase = "backward"
    x, grad = b.buffer(), b.buffer()
    shared = b.call("elementwise", "gelu_backward", [x, grad])
    bias = b.call("reduction", "sum", [shared], out=WIDTH)
    bias = b.call("cast", "_to_copy", [bias], out=WIDTH, dtype="fp16")
    product = b.call("elementwise", "mul", [x, grad])
    scale = b.call("reduction", "sum", [product], out=WIDTH)
    out = b.call("matmul", "mm", [shared, x])
    result = fused(b.workload(outputs=(bias, scale, out)))
    assert sorted(names(result)) == ["fused_mul_sum", "fused_sum_to_copy", "gelu_backward", "mm"]


def test_independent_loops_that_read_one_tensor_share_a_kernel():
    b = Builder()
    x, other = b.buffer(), b.buffer()
    y = b.call("elementwise", "relu", [x])
    z = b.call("elementwise", "mul", [x, other])
    result = fused(b.workload(outputs=(y, z)))
    assert len(result.calls) == 1
    assert traffic(result) == 4 * FULL


def test_graphs_of_different_phases_stay_apart():
    b = Builder()
    x = b.buffer()
    y = b.call("elementwise", "relu", [x])
    b.phase = "backward"
    z = b.call("elementwise", "mul", [y])
    b.phase = "optimizer"
    z = b.call("elementwise", "add", [z])
    assert [call.phase for call in fused(b.workload(outputs=(z,))).calls] == [0, 1, 2]


def test_lists_of_tensors_become_one_kernel_without_its_temporaries():
    b = Builder()
    b.phase = "optimizer"
    weight, grad, moment = (b.buffer(category=name) for name in ("weight", "gradient", "optimizer"))
    b.calls.append(Call(0, 2, 0, (moment, grad), (moment,)))
    tensor = b.tensor(WIDE, "fp32")
    b.ops.append(Op("optimizer", "_foreach_lerp_", "fp32", (WIDE, ONE), {}, (tensor, tensor), (tensor,)))
    root = b.call("optimizer", "_foreach_sqrt", [moment])
    b.ops.append(Op("optimizer", "_foreach_addcdiv_", "fp32", (WIDE, ONE), {}, (tensor,) * 3, (tensor,)))
    b.calls.append(Call(len(b.ops) - 1, 2, 0, (weight, moment, root), (weight,)))
    workload = b.workload()
    result = fused(workload)
    assert len(result.calls) == 1
    assert traffic(result) == 5 * FULL  # three read, two written
    assert len(result.buffers) == 3
    assert len(fused(workload, optimizer=False).calls) == 3


def test_backward_computes_a_cast_again_instead_of_keeping_it():
    b = Builder()
    x, w = b.buffer(), b.buffer(WIDTH, category="weight")
    low = b.call("matmul", "mm", [x, w], dtype="fp16")
    wide = b.call("cast", "_to_copy", [low])
    normal = b.call("norm", "native_layer_norm", [wide], more=(ROWS, ROWS))
    loss = b.call("matmul", "mm", [normal, w])
    b.phase = "backward"
    grad = b.call("norm", "native_layer_norm_backward", [loss, wide])
    workload = b.workload(outputs=(grad,))
    result = fused(workload)
    saved = [result.tensors[buffer.tensor].dtype for buffer in result.buffers if buffer.born < 3 < buffer.died and buffer.born]
    assert "fp16" in {result.tensors[tensor].dtype for tensor in result.ops[result.calls[-1].op].reads}
    assert peak_memory(result).total_bytes < peak_memory(workload).total_bytes
    assert saved.count("fp32") == 1  # the loss; the wide copy is gone


def test_backward_computes_an_activation_again_from_the_input_of_its_norm():
    b = Builder()
    x, w = b.buffer(), b.buffer(WIDTH, category="weight")
    conv = b.call("matmul", "mm", [x, w])
    normal = b.call("norm", "native_batch_norm", [conv], more=(WIDTH, WIDTH))
    mean = len(b.buffers) - 2
    copy = b.call("copy", "clone", [normal])
    b.inplace("silu_", [normal])
    loss = b.call("matmul", "mm", [normal, w])
    b.phase = "backward"
    grad = b.call("elementwise", "silu_backward", [loss, copy])
    grad = b.call("norm", "native_batch_norm_backward", [grad, conv, mean, mean + 1])
    result = fused(b.workload(outputs=(grad,)))
    assert names(result) == ["mm", "fused_native_batch_norm_clone_silu", "mm", "fused_silu_backward_native_batch_norm_backward"]
    assert len(result.ops[result.calls[1].op].writes) == 3  # the activation and the statistics, no copy


def test_no_kernel_grows_beyond_64_calls():
    b = Builder()
    x = b.buffer()
    for _ in range(100):
        x = b.call("elementwise", "relu", [x])
    assert len(fused(b.workload(outputs=(x,))).calls) == 2


def test_tables_looked_up_are_still_read_when_the_result_is_not_stored():
    b = Builder()
    index = b.buffer(ROWS, "int64")
    out = b.buffer(WIDE, "fp32", "temporary")
    tensors = (b.tensor(ROWS, "int64"), b.tensor(WIDE, "fp32"))
    b.ops.append(Op("embedding", "embedding", "fp32", (ROWS, WIDTH, WIDTH), {"pass": "forward"}, tensors, tensors[1:]))
    b.calls.append(Call(0, 0, 0, (index, out), (out,)))
    y = b.call("elementwise", "add", [out, b.buffer(WIDTH, category="weight")])
    result = fused(b.workload(outputs=(y,)))
    assert len(result.calls) == 1
    assert traffic(result) == 8 * 16 * 8 + FULL + SMALL + FULL
    assert result.ops[0].kind == "embedding"


# ---------------------------------------------------------------- properties


_STEPS = st.sampled_from(
    [
        "relu",
        "mul",
        "inplace",
        "cast",
        "norm",
        "softmax",
        "rows",
        "columns",
        "spread",
        "mm",
        "clone",
        "zeros",
        "statistics",
        "dead",
    ]
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Steps of one or two micro-batches made of random calls on random earlier values, wide ones and reduced ones."""
    b = Builder()
    wide = [b.buffer(dtype=draw(st.sampled_from(DTYPES))) for _ in range(draw(st.integers(1, 3)))]
    rows = [b.buffer(ROWS)]
    weight = b.buffer(WIDTH, category="weight")
    for b.phase in draw(st.sampled_from([("forward",), ("forward", "backward"), ("forward", "backward") * 2])):
        for step in draw(st.lists(_STEPS, min_size=1, max_size=12)):
            _step(b, draw, step, wide, rows, weight)
    outputs = draw(st.sets(st.sampled_from(wide + rows), max_size=3))
    return b.workload(outputs=tuple(outputs), held=draw(st.integers(0, 4)))


def _step(b: Builder, draw: st.DrawFn, step: str, wide: list[int], rows: list[int], weight: int) -> None:
    x, y, r = draw(st.sampled_from(wide)), draw(st.sampled_from(wide)), draw(st.sampled_from(rows))
    dtype = draw(st.sampled_from(DTYPES))
    match step:
        case "inplace":
            b.inplace("add_", [x, y])
        case "rows":
            rows.append(b.call("reduction", "mean", [x], out=ROWS))
        case "columns":
            b.call("reduction", "sum", [x], out=WIDTH)
        case "statistics":
            rows.append(b.call("elementwise", "rsqrt", [r], out=ROWS))
        case "dead":
            b.call("elementwise", "exp", [x])
        case "mm":
            wide.append(b.call("matmul", "mm", [x, weight], dtype=dtype))
        case "norm":
            wide.append(b.call("norm", "native_layer_norm", [x, weight], more=(ROWS, ROWS), dtype=dtype))
        case "zeros":
            wide.append(b.call("elementwise", "zeros_like", [x], dtype=dtype))
        case "spread":
            wide.append(b.call("elementwise", "mul", [x, r], dtype=dtype))
        case "mul":
            wide.append(b.call("elementwise", "mul", [x, y], dtype=dtype))
        case _:
            kind = {"cast": "cast", "softmax": "softmax", "clone": "copy"}.get(step, "elementwise")
            wide.append(b.call(kind, step, [x], dtype=dtype))


@settings(max_examples=300, deadline=None)
@given(workloads(), st.booleans())
def test_fusing_never_adds_work_traffic_calls_or_memory(workload: Workload, epilogues: bool):
    result = fused(workload, epilogues=epilogues)
    assert flops(result) == flops(workload)
    assert len(result.calls) <= len(workload.calls)
    for batch in (1, 8, 61):
        assert traffic(result, batch) <= traffic(workload, batch) * (1 + 1e-12)
        assert peak_memory(result, batch).total_bytes <= 1.01 * peak_memory(workload, batch).total_bytes


@settings(max_examples=300, deadline=None)
@given(workloads())
def test_what_a_step_stores_is_there_however_it_is_fused(workload: Workload):
    for batch in (1, 8, 61):
        stored = stored_bytes(workload, batch)
        assert stored <= peak_memory(workload, batch).total_bytes * (1 + 1e-12)
        assert stored <= peak_memory(fused(workload), batch).total_bytes * (1 + 1e-12)


def test_what_a_product_of_the_backward_pass_reads_is_stored():
    b = Builder()
    x, weight = b.buffer(), b.buffer(WIDTH, category="weight")
    hidden = b.call("elementwise", "relu", [b.call("matmul", "mm", [x, weight])])
    b.phase = "backward"
    b.call("elementwise", "threshold_backward", [x])
    without = b.workload()
    b.call("matmul", "mm", [hidden, weight])
    assert stored_bytes(b.workload()) - stored_bytes(without) == FULL


@settings(max_examples=300, deadline=None)
@given(workloads())
def test_every_buffer_read_was_written_before_or_was_there(workload: Workload):
    result = fused(workload)
    written = {n for n, buffer in enumerate(result.buffers) if CATEGORIES[buffer.category] in ("input", "weight")}
    for index, call in enumerate(result.calls):
        assert set(call.reads) - set(call.writes) <= written
        written |= set(call.writes)
        for number in (*call.reads, *call.writes):
            assert result.buffers[number].born <= index < result.buffers[number].died
        assert len(call.reads) == len(result.ops[call.op].reads)
        assert len(call.writes) == len(result.ops[call.op].writes)


@settings(max_examples=300, deadline=None)
@given(workloads(), st.booleans())
def test_kernels_run_after_all_they_need(workload: Workload, epilogues: bool):
    sizes = Sizes(workload)
    flow = Flow(workload, loops_of(workload, sizes))
    needs = [set(before) for before in flow.before]
    grouper = Grouper(flow, sizes, epilogues=epilogues, apart=set())
    edges = [0, *(i for i in range(1, len(flow.segment)) if flow.segment[i] != flow.segment[i - 1]), len(flow.segment)]
    for start, end in pairwise(edges):
        recompute(flow, sizes, grouper.group_of, start, end)
        grouper.walk(start, end)
    place = {call: number for number, group in enumerate(in_order(flow, grouper.group_of)) for call in group.calls}
    assert sorted(place) == list(range(len(workload.calls)))
    for call, before in enumerate(needs):
        assert all(place[earlier] <= place[call] for earlier in before)
    for value, replaced in enumerate(flow.replaced):
        assert all(reader <= replaced for reader in flow.readers[value])


@settings(max_examples=100, deadline=None)
@given(workloads())
def test_fusing_twice_changes_nothing_and_the_result_is_a_file(workload: Workload):
    result = fused(workload)
    assert is_fused(result)
    assert fused(result) is result
    again = files.decode(files.encode(result))
    assert (again.calls, again.buffers, again.ops, again.notes) == (result.calls, result.buffers, result.ops, result.notes)
    assert is_fused(again)


def test_an_empty_workload_stays_empty():
    b = Builder()
    b.buffer()
    assert fused(b.workload()).calls == ()


def test_ten_thousand_calls_fuse_as_one_layer_does():
    b = Builder()
    x = b.buffer()
    for _ in range(1250):
        weight = b.buffer(WIDTH, category="weight")
        low = b.call("cast", "_to_copy", [weight], out=WIDTH, dtype="fp16")
        y = b.call("norm", "native_layer_norm", [x], more=(ROWS, ROWS))
        y = b.call("cast", "_to_copy", [y], dtype="fp16")
        y = b.call("matmul", "mm", [y, low], dtype="fp16")
        y = b.call("elementwise", "gelu", [y], dtype="fp16")
        y = b.call("matmul", "mm", [y, low], dtype="fp16")
        y = b.call("elementwise", "mul", [y, weight])
        x = b.call("elementwise", "add", [x, y])
    workload = b.workload(outputs=(x,))
    assert len(workload.calls) == 10_000
    assert len(fused(workload).calls) == 6251


# ---------------------------------------------------------------- a captured model


@pytest.mark.slow
def test_a_captured_resnet_halves_the_bytes_of_its_loops_at_inference():
    pytest.importorskip("torch", reason="capturing needs torch")
    if importlib.util.find_spec("timm") is None:
        pytest.skip("captures a timm model")
    from gpuwise.workload.capture.process import capture
    from gpuwise.workload.capture.request import Request
    from gpuwise.workload.model.types import Settings

    eager = capture(Request(model="timm:resnet18", settings=Settings(mode="infer", precision="fp32")))
    result = fused(eager)
    loops = [
        replace(w, calls=Calls.of([c for c in w.calls if w.ops[c.op].kind not in ("conv", "matmul")])) for w in (eager, result)
    ]
    assert flops(result) == flops(eager)
    assert 2.0 < traffic(loops[0], 32) / traffic(loops[1], 32) < 3.5
    assert (
        len(loops[1].calls) == 18
    )  # the pooling and one after each of 17 convolutions; shortcuts and the last mean fuse with these
