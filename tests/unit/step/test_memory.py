"""What a step needs of the GPU's memory: three counters, the moment of the peak, the largest batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.allocator import CachingAllocator, TorchSettings
from gpuwise.step.memory.bfc import BfcSettings
from gpuwise.step.memory.lifetimes import (
    convolved_bytes,
    framework_bytes,
    library_buffers,
    lives_of,
    memory_data,
    peak_bytes,
    preallocated_bytes,
    tensor_bytes_of,
)
from gpuwise.step.memory.peak import MemorySetting, by_module, largest_batch, memory_of, reserved_bytes_of, survives
from gpuwise.step.memory.replay import replay
from gpuwise.workload import find
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import peak_memory, totals
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store.zoo import load

MODELS = ("resnet50", "bert-large-uncased", "mobilenet_v3_large", "vit_base_patch16_224")


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


@pytest.fixture(scope="module", params=MODELS)
def workload(request: pytest.FixtureRequest) -> Workload:
    return load(request.param)


def test_the_six_parts_make_the_total_and_the_counters_are_in_order(workload: Workload) -> None:
    found = memory_of(workload, 32)
    tensors = found.weight_bytes + found.gradient_bytes + found.optimizer_bytes + found.activation_bytes
    assert tensors <= found.allocated_bytes <= found.reserved_bytes < found.device_bytes == found.total_bytes
    assert found.reserved_bytes == pytest.approx(tensors + found.workspace_bytes)
    assert found.total_bytes == pytest.approx(found.reserved_bytes + found.framework_bytes)
    assert found.low_bytes < found.total_bytes < found.high_bytes


def test_tensors_are_those_of_the_lifetimes(workload: Workload) -> None:
    found, lives = memory_of(workload, 16), lives_of(workload)
    assert lives.live(tensor_bytes_of(workload, 16, None)).sum(axis=0).max() == peak_memory(workload, 16).total_bytes
    assert found.allocated_bytes >= peak_memory(workload, 16).total_bytes


def test_more_batch_is_never_less_memory(workload: Workload) -> None:
    found = [memory_of(workload, batch) for batch in (1, 2, 3, 5, 8, 9, 16, 31, 63, 64, 65, 100, 511, 512, 513, 4000)]
    for name in ("allocated_bytes", "reserved_bytes", "total_bytes"):
        values = [getattr(memory, name) for memory in found]
        assert values == sorted(values), name


@pytest.mark.parametrize("sizes", [{"batch": 24}, {"batch": 8, "seq": 64}, {"seq": 192}])
def test_what_is_kept_for_one_size_does_not_answer_for_another(sizes: dict[str, int]) -> None:
    first = load("bert-large-uncased")
    memory_of(first)
    again = first.sized(**sizes)
    anew = replace(first, **sizes)
    assert again.form is first.form
    assert anew.form is not first.form
    assert memory_of(again) == memory_of(anew)
    assert totals(again) == totals(anew)


def test_a_model_of_the_zoo_is_read_once_and_keeps_its_form_at_every_batch() -> None:
    small, large = (find.workload(Request(model="resnet50", batch=batch)) for batch in (3, 96))
    assert small.form is large.form
    assert memory_of(small).activation_bytes < memory_of(large).activation_bytes


def test_the_moment_of_the_peak_is_named() -> None:
    workload = load("resnet50")
    peak = memory_of(workload, 64).peak
    assert peak is not None
    assert peak.call == peak_memory(workload, 64).call
    assert peak.phase in ("forward", "backward")
    assert peak.op == workload.ops[workload.calls[peak.call].op].name


def test_modules_share_out_the_whole_peak() -> None:
    workload = load("resnet50")
    whole = by_module(workload, 64)
    assert sum(size for _, size in whole) == pytest.approx(peak_memory(workload, 64).total_bytes)
    top = by_module(workload, 64, depth=1)
    assert sum(size for _, size in top) == pytest.approx(peak_memory(workload, 64).total_bytes)
    assert len(top) < len(whole)
    assert [size for _, size in top] == sorted((size for _, size in top), reverse=True)


def test_the_largest_batch_is_exact(workload: Workload) -> None:
    limit = gpu("RTX 3090").usable_memory_bytes
    found = largest_batch(workload, limit)
    assert memory_of(workload, found).total_bytes <= limit < memory_of(workload, found + 1).total_bytes


def test_a_device_that_is_a_little_too_small_runs_by_giving_cached_memory_back() -> None:
    workload = load("resnet50")
    found = memory_of(workload, 64)
    tight = found.total_bytes - 0.3 * (found.reserved_bytes - found.allocated_bytes)
    assert survives(workload, found.total_bytes, 64)
    assert survives(workload, tight, 64)
    assert not survives(workload, 0.99 * found.allocated_bytes, 64)


def test_what_does_not_fit_at_batch_1_has_no_largest_batch() -> None:
    assert largest_batch(load("resnet50"), 1e9) == 0


def test_expandable_segments_never_hold_more_than_a_page_beyond_the_peak_of_either_pool(workload: Workload) -> None:
    plain, expandable = (
        memory_of(workload, 64, setting=MemorySetting(allocator=TorchSettings(expandable_segments=flag)))
        for flag in (False, True)
    )
    assert expandable.allocated_bytes == plain.allocated_bytes
    borrowed = memory_data().value("convolution_share") * convolved_bytes(workload, 64, None)
    assert expandable.reserved_bytes - borrowed < 1.08 * expandable.allocated_bytes + 44 * 2**20
    assert expandable.reserved_bytes <= plain.reserved_bytes


def test_tensorflow_takes_all_but_a_reserve_and_jax_three_quarters() -> None:
    card = gpu("A100 PCIe 40GB")
    assert preallocated_bytes(card, "tensorflow") == card.usable_memory_bytes - 1536 * 2**20
    assert preallocated_bytes(card, "jax") == 0.75 * card.usable_memory_bytes
    assert preallocated_bytes(card, "jax", 0.5) == 0.5 * card.usable_memory_bytes
    found = memory_of(load("resnet50"), 8, gpu=card, setting=MemorySetting(allocator=BfcSettings(framework="jax")))
    assert found.reserved_bytes == 0.75 * card.usable_memory_bytes
    grabbed = memory_of(load("resnet50"), 8, gpu=card, setting=MemorySetting(allocator=BfcSettings()))
    assert grabbed.total_bytes == pytest.approx(card.usable_memory_bytes)  # all of it, and no more
    grown = memory_of(load("resnet50"), 8, gpu=card, setting=MemorySetting(allocator=BfcSettings(growth=True)))
    assert grown.allocated_bytes <= grown.reserved_bytes < found.reserved_bytes


def test_a_newer_gpu_holds_a_larger_framework_and_a_screen_comes_on_top() -> None:
    sizes = [framework_bytes(gpu(name)) for name in ("GTX 1080 Ti", "V100 SXM2 16GB", "RTX 3090", "H100 SXM 80GB")]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4
    plain, shown = (memory_of(load("resnet50"), 8, setting=MemorySetting(display=flag)) for flag in (False, True))
    assert shown.framework_bytes - plain.framework_bytes == memory_data().value("display_bytes")


def test_the_chance_to_fit_rises_with_the_room_and_is_even_near_the_prediction() -> None:
    found = memory_of(load("resnet50"), 64)
    rooms = [0.2, 0.8, 0.95, 1.0, 1.05, 1.3, 3.0]
    chances = [found.fits_probability(room * found.total_bytes) for room in rooms]
    assert chances == sorted(chances)
    assert chances[0] == 0
    assert chances[-1] == 1
    assert 0.2 < chances[3] < 0.8
    assert found.fits_probability(found.low_bytes) <= 0.11
    assert found.fits_probability(found.high_bytes) == pytest.approx(0.9)
    assert found.fits_probability(0) == 0


def test_every_constant_has_a_basis_and_a_source() -> None:
    data = memory_data()
    assert all(entry.basis in ("datasheet", "measured", "derived", "fitted", "assumed") for entry in data.constants.values())
    assert all(len(entry.source) > 10 for entry in data.constants.values())
    for known in data.ranges.values():
        assert list(known.probability) == sorted(known.probability)
        assert list(known.ratio) == sorted(known.ratio)
        assert known.probability[0] <= 0.1
        assert known.probability[-1] >= 0.9


def test_convolutions_with_a_window_borrow_by_their_largest_tensor_but_not_depthwise_ones() -> None:
    mobile, transformer = load("mobilenet_v3_large"), load("bert-base-uncased")
    sizes = tensor_bytes_of(mobile, 4, None)
    dense = [op for op in mobile.ops if op.kind == "conv" and op.attrs["groups"] == 1 and op.attrs["stride"] == (2, 2)]
    assert dense  # its first layer; all other windows are depthwise
    largest = max(sizes[row] for op in dense for row in (*op.reads, *op.writes))
    assert convolved_bytes(mobile, 4, None) == pytest.approx(largest)
    assert convolved_bytes(transformer, 4, None) == 0
    found = memory_of(mobile, 8)
    share = memory_data().value("convolution_share")
    assert found.workspace_bytes >= share * convolved_bytes(mobile, 8, None)


def test_peaks_read_from_lines_are_those_of_the_lifetimes(workload: Workload) -> None:
    for batch in (1, 7, 64, 1000):
        assert peak_bytes(workload, batch, None) == pytest.approx(peak_memory(workload, batch).total_bytes, rel=1e-12)


def test_a_replay_keeps_the_optimizer_state_and_ends_with_nothing_else_new() -> None:
    workload = load("resnet50")
    lives, sizes = lives_of(workload), tensor_bytes_of(workload, 8, None)
    allocator = CachingAllocator()
    found = replay(lives, sizes, allocator)
    lasting = (lives.born == 0) & (lives.died >= lives.calls)
    assert allocator.allocated == pytest.approx(sizes[lives.tensor[lasting]].sum(), rel=0.02)
    assert found.allocated_bytes >= peak_bytes(workload, 8, None)
    assert found.reserved_bytes >= found.allocated_bytes


# ---------------------------------------------------------------- what lies beside tensors, by what the docs say


def test_cublas_has_a_workspace_for_each_thread_that_calls_it_and_backward_has_its_own() -> None:
    for card in (None, gpu("RTX 3090"), gpu("H100 SXM 80GB")):
        (one,) = library_buffers(card, products=True, training=False)
        assert library_buffers(card, products=True, training=True) == (one, one)
        assert library_buffers(card, products=False, training=True) == ()


def test_tensorflow_leaves_less_on_devices_below_2_gib() -> None:
    card, small = gpu("RTX 3090"), 225 * 2**20  # 225 MiB: the guide "Limiting GPU memory growth"
    for size, left in ((2**30, small), (2 * 2**30 - 1, small), (2 * 2**30, 1536 * 2**20)):
        assert size - preallocated_bytes(replace(card, usable_memory_bytes=float(size)), "tensorflow") == left


def test_a_range_never_begins_below_the_tensors(workload: Workload) -> None:
    for batch in (1, 16, 64, 512, 4096):
        found = memory_of(workload, batch)
        assert found.allocated_bytes <= found.low_bytes < found.total_bytes


@pytest.mark.parametrize("count", [2, 3, 8])
def test_buffers_of_messages_come_with_the_second_gpu(count: int) -> None:
    alone, joined = (memory_of(load("resnet50"), 8, setting=MemorySetting(gpu_count=number)) for number in (1, count))
    assert alone.communication_bytes == 0
    assert joined.communication_bytes == memory_data().value("collective_bytes") > 0
    assert joined.total_bytes - alone.total_bytes == pytest.approx(joined.communication_bytes)


def test_a_step_without_room_for_what_convolutions_borrow_does_not_run() -> None:
    workload, setting = load("vgg16"), MemorySetting(allocator=TorchSettings(expandable_segments=True))  # which wastes least
    found = memory_of(workload, 64, setting=setting)
    borrowed = memory_data().value("convolution_share") * convolved_bytes(workload, 64, None)
    tensors = found.allocated_bytes + found.framework_bytes
    assert borrowed > 0.1 * tensors
    assert not survives(workload, tensors + 0.9 * borrowed, 64, setting=setting)
    assert survives(workload, 1.02 * tensors + borrowed, 64, setting=setting)


def test_between_two_simulated_batches_the_allocator_holds_more_than_tensors_as_at_both() -> None:
    workload = load("resnet50")

    def slack(batch: int) -> float:
        return reserved_bytes_of(workload, batch) / memory_of(workload, batch).allocated_bytes

    low, high = sorted((slack(64), slack(512)))
    assert low > 1.01
    for batch in (65, 100, 200, 400, 511):
        assert 0.999 * low <= slack(batch) <= 1.001 * high
