"""Rewritten steps against real captures, and what must hold for any of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuwise.core.errors import BadValue
from gpuwise.workload import find
from gpuwise.workload.capture.request import Request, parse_input
from gpuwise.workload.model.evaluate import peak_memory, totals
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Buffers, Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.adafactor import with_adafactor
from gpuwise.workload.transform.attention import unfolded
from gpuwise.workload.transform.checkpoint import blocks_of, checkpointed
from gpuwise.workload.transform.flash import folded
from gpuwise.workload.transform.lora import Adapters, adapted
from gpuwise.workload.transform.packed import quantised
from gpuwise.workload.transform.prefill import scoring_every_token
from gpuwise.workload.transform.share import accumulating, offloaded, sharded, split, without_update
from gpuwise.workload.transform.targets import linear_modules


def captured(model: str, **settings: object) -> Workload:
    chosen = Settings(**{"precision": "fp32", "optimizer": "adamw", **settings})  # type: ignore[arg-type]
    return find.workload(Request(model=model, batch=8, settings=chosen))


def language(precision: str = "bf16", optimizer: str = "adamw") -> Workload:
    settings = Settings(precision=precision, optimizer=optimizer)
    return find.workload(Request(model="gpt2", batch=2, seq=512, settings=settings))


def decoding() -> Workload:
    settings = Settings(mode="infer", precision="bf16", optimizer="none")
    return find.workload(Request(model="llama-3.2-1b", batch=4, seq=512, phase="decode", settings=settings))


def held(workload: Workload, category: str) -> float:
    """Bytes of everything of this kind that ever lives."""
    from gpuwise.workload.model.evaluate import product_values

    values = product_values(workload)[0]
    specs = [workload.tensors[buffer.tensor] for buffer in workload.buffers if CATEGORIES[buffer.category] == category]
    return float(sum(values[spec.elements] * DTYPE_BYTES[spec.dtype] for spec in specs))


def assert_sound(workload: Workload) -> None:
    """Every buffer lives during the calls that use it, and every reference names a buffer."""
    for number, call in enumerate(workload.calls):
        for row in (*call.reads, *call.writes):
            buffer = workload.buffers[row]
            assert buffer.born <= number < buffer.died
    assert all(0 <= buffer.born < buffer.died <= len(workload.calls) for buffer in workload.buffers)
    phases = [call.phase for call in workload.calls]
    assert phases == sorted(phases)


REWRITES = {
    "checkpoint": lambda found: checkpointed(found, blocks_of(found)),
    "whole checkpoint": lambda found: checkpointed(found, blocks_of(found), whole=True),
    "half checkpoint": lambda found: checkpointed(found, blocks_of(found)[:6]),
    "lora": lambda found: adapted(found, Adapters(rank=16)),
    "qlora": lambda found: adapted(found, Adapters(rank=16, weight_bytes=0.55)),
    "qlora in another type": lambda found: adapted(found, Adapters(rank=16, weight_bytes=0.55, computed_in="fp16")),
    "accumulate": accumulating,
    "offload": lambda found: offloaded(found)[0],
    "zero 1": lambda found: sharded(found, 1, 4),
    "zero 2": lambda found: sharded(found, 2, 4),
    "zero 3": lambda found: sharded(found, 3, 4),
    "adafactor": with_adafactor,
    "unfused attention": unfolded,
}


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewritten_step_is_sound(name: str) -> None:
    assert_sound(REWRITES[name](language()))


@pytest.mark.parametrize("name", ["checkpoint", "accumulate", "offload", "zero 2", "adafactor"])
def test_a_rewritten_image_model_in_mixed_precision_is_sound(name: str) -> None:
    settings = Settings(precision="amp", optimizer="adamw")
    assert_sound(REWRITES[name](find.workload(Request(model="resnet18", settings=settings))))


def test_an_update_with_fewer_gradients_than_weights_is_refused_by_adafactor() -> None:
    """A damaged file may say so."""
    found = find.workload(Request(model="resnet18", settings=Settings(optimizer="adamw")))
    gradient = CATEGORIES.index("gradient")
    buffers = list(found.buffers)
    place = next(row for row, buffer in enumerate(buffers) if buffer.category == gradient)
    buffers[place] = replace(buffers[place], category=CATEGORIES.index("temporary"))
    with pytest.raises(BadValue, match="cannot be replaced by adafactor"):
        with_adafactor(replace(found, buffers=Buffers.of(buffers)))


# ---------------------------------------------------------------- against real captures


@pytest.mark.slow
@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize("model", ["timm:vit_tiny_patch16_224", "torchvision:resnet18"])
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_checkpointing_is_what_torch_does(model: str, precision: str) -> None:
    plain = captured(model, precision=precision)
    real, ours = captured(model, precision=precision, checkpoint=True), checkpointed(plain, blocks_of(plain))
    assert peak_memory(ours).total_bytes == pytest.approx(peak_memory(real).total_bytes, rel=0.02)
    assert peak_memory(ours).total_bytes < 0.95 * peak_memory(plain).total_bytes
    assert totals(ours).backward_flops == pytest.approx(totals(real).backward_flops, rel=0.01)
    assert totals(ours).read_bytes == pytest.approx(totals(real).read_bytes, rel=0.01)
    assert len(ours.calls) == len(real.calls)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize("model", ["timm:vit_tiny_patch16_224", "torchvision:resnet18"])
def test_adafactor_is_what_is_captured(model: str) -> None:
    real, ours = captured(model, optimizer="adafactor"), with_adafactor(captured(model))
    assert peak_memory(ours).total_bytes == pytest.approx(peak_memory(real).total_bytes, rel=0.02)
    assert totals(ours).read_bytes == pytest.approx(totals(real).read_bytes, rel=0.02)
    assert len(ours.calls) == pytest.approx(len(real.calls), rel=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_captures")
def test_accumulation_is_what_is_captured() -> None:
    plain = captured("torchvision:resnet18")
    real, ours = captured("torchvision:resnet18", accumulate=2), accumulating(plain)
    assert peak_memory(ours).total_bytes == pytest.approx(peak_memory(real).total_bytes, rel=0.02)
    flops = totals(ours).backward_flops + totals(without_update(ours)).backward_flops
    assert flops == pytest.approx(totals(real).backward_flops, rel=0.01)


_NET = """
import torch
from torch.nn.functional import scaled_dot_product_attention


class Block(torch.nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(128, 128) for _ in range(4))
        self.fused = fused

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.fused:
            return x + self.o(scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])
        return x + self.o(torch.softmax(q @ k.transpose(-1, -2) / 11, -1) @ v)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(FUSED) for _ in range(3)])
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_written_out_attention_folds_into_what_torch_fuses(precision: str, tmp_path: Path) -> None:
    found = []
    for name, fused in (("written", "False"), ("fused", "True")):
        path = tmp_path / f"{name}.py"
        path.write_text(_NET.replace("FUSED", fused), encoding="utf-8")
        settings = Settings(precision=precision, optimizer="adamw")
        inputs = (parse_input("x=batch,384,128:fp32"),)
        found.append(find.workload(Request(model=f"{path}:Net", batch=16, settings=settings, inputs=inputs)))
    written, real = found
    ours = folded(written)
    assert ours is not None
    assert_sound(ours)
    assert len(ours.calls) == len(real.calls)
    assert totals(ours).backward_flops == pytest.approx(totals(real).backward_flops)
    assert totals(ours).read_bytes == pytest.approx(totals(real).read_bytes, rel=0.01)
    assert peak_memory(ours).total_bytes == pytest.approx(peak_memory(real).total_bytes, rel=0.03)
    assert peak_memory(ours).total_bytes < 0.9 * peak_memory(written).total_bytes


@pytest.mark.parametrize("model", ["swin_tiny", "transformer_xl_base", "tacotron2", "gpt2"])
def test_attention_with_more_than_a_mask_is_left_alone(model: str) -> None:
    assert folded(zoo.load(model)) is None


# ---------------------------------------------------------------- what follows from the definitions


def test_checkpointing_no_block_changes_nothing() -> None:
    found = language()
    assert peak_memory(checkpointed(found, ())) == peak_memory(found)


def test_each_further_block_saves_activations_and_costs_a_forward_pass() -> None:
    found = find.workload(Request(model="vit_base", batch=32, settings=Settings(precision="fp32", optimizer="sgd")))
    blocks = blocks_of(found)
    peaks = [peak_memory(checkpointed(found, blocks[:count])).total_bytes for count in range(0, len(blocks) + 1, 3)]
    assert peaks == sorted(peaks, reverse=True)
    whole = totals(checkpointed(found, blocks))
    extra = whole.backward_flops - totals(found).backward_flops
    assert 0.6 * whole.forward_flops < extra < whole.forward_flops


def test_reentrant_checkpoints_run_a_block_to_its_end() -> None:
    settings = Settings(precision="bf16", optimizer="adamw")
    found = find.workload(Request(model="llama-3.2-1b", batch=1, seq=512, settings=settings))
    early, whole = (totals(checkpointed(found, blocks_of(found), whole=run)).backward_flops for run in (False, True))
    assert whole - early == pytest.approx(16 * 2 * 512 * 8192 * 2048, rel=0.01)  # the last product of sixteen blocks


def test_blocks_are_the_repeated_ones() -> None:
    assert blocks_of(zoo.load("resnet50"))[:2] == ("layer1.0", "layer1.1")
    assert len(blocks_of(zoo.load("resnet50"))) == 16
    assert len(blocks_of(zoo.load("swin_tiny"))) == 4
    assert len(blocks_of(zoo.load("swin_tiny"), depth=2)) == 12
    assert blocks_of(zoo.load("lenet5")) == ()


def test_adapters_leave_no_gradient_or_state_of_the_model() -> None:
    full, thin = language(), adapted(language(optimizer="none"), Adapters(rank=16))
    layers = linear_modules(full)
    assert len(layers) == 48  # four in each of twelve blocks
    width = 768
    trained = 12 * 16 * ((width + 3 * width) + (width + width) + 2 * (width + 4 * width))  # rank x (in + out) of each layer
    assert held(thin, "optimizer") == pytest.approx(2 * 4 * trained)
    assert held(thin, "gradient") < 0.05 * held(full, "gradient")
    assert peak_memory(thin).total_bytes < peak_memory(full).total_bytes
    assert totals(thin).backward_flops < 0.62 * totals(full).backward_flops


def test_packed_weights_of_adapters_take_their_bytes() -> None:
    full, packed = adapted(language(), Adapters(rank=16)), adapted(language(), Adapters(rank=16, weight_bytes=0.55))
    linear = 12 * 12 * 768 * 768  # parameters of the blocks' matrices
    assert held(full, "weight") - held(packed, "weight") == pytest.approx((2 - 0.55) * linear, rel=0.001)


def test_packed_products_in_another_type_pass_gradients_on() -> None:
    """The gradient of a layer's input is a product too, whatever type it is computed in."""
    own, other = (adapted(language(), Adapters(rank=16, weight_bytes=0.55, computed_in=name)) for name in ("", "fp16"))
    assert totals(other).backward_flops == pytest.approx(totals(own).backward_flops, rel=0.01)


def test_shards_sum_to_the_whole() -> None:
    found = language()
    for count in (2, 8):
        assert held(sharded(found, 1, count), "optimizer") * count == pytest.approx(held(found, "optimizer"))
        three = sharded(found, 3, count)
        assert held(three, "weight") < held(found, "weight") / count * 1.3  # the position table is looked up, not gathered
    assert peak_memory(sharded(found, 3, 8)).total_bytes < peak_memory(sharded(found, 2, 8)).total_bytes


def test_the_number_of_gpus_changes_only_the_sizes_of_shards() -> None:
    found = language()
    for stage in (1, 2, 3):
        two, eight = (sharded(found, stage, count) for count in (2, 8))
        assert eight.calls is two.calls
        assert held(eight, "optimizer") * 4 == pytest.approx(held(two, "optimizer"))
        assert held(two, "optimizer") * 2 == pytest.approx(held(found, "optimizer"))  # the later one left the first alone


def test_offload_counts_what_crosses_the_link() -> None:
    found = language()
    step, link, host = offloaded(found)
    assert held(step, "optimizer") == 0
    assert link == pytest.approx(2 * 2 * found.parameters, rel=0.001)  # a gradient down and a weight up, two bytes each
    assert host > link
    assert not any(PHASES[call.phase] == "optimizer" for call in step.calls)


def test_unfused_attention_needs_the_square_of_the_sequence() -> None:
    found = language()
    extra = [peak_memory(unfolded(found), seq=seq).total_bytes - peak_memory(found, seq=seq).total_bytes for seq in (512, 1024)]
    assert extra[1] > 3 * extra[0] > 0


@pytest.mark.parametrize("model", ["gpt2", "opt-1.3b", "llama-3.2-1b"])
def test_scoring_every_token_is_the_forward_pass_of_training(model: str) -> None:
    settings = Settings(mode="infer", precision="fp32", optimizer="none")
    prefill = find.workload(Request(model=model, batch=2, seq=512, phase="prefill", settings=settings))
    plain = scoring_every_token(prefill)
    trained = find.workload(Request(model=model, batch=2, seq=512, settings=Settings(precision="fp32", optimizer="none")))
    assert_sound(plain)
    assert totals(plain).forward_flops == totals(trained).forward_flops > totals(prefill).forward_flops
    assert held(plain, "temporary") - held(prefill, "temporary") > 2 * 500 * 4 * 32_000  # scores of the other tokens
    assert held(plain, "weight") == held(prefill, "weight")
    assert scoring_every_token(trained) is trained


def test_packed_inference_reads_fewer_bytes_and_does_the_same_work() -> None:
    found = decoding()
    packed = quantised(found, 0.52)
    assert_sound(packed)
    assert totals(packed).forward_flops == totals(found).forward_flops
    assert totals(packed).read_bytes < 0.6 * totals(found).read_bytes
    assert held(packed, "weight") < 0.6 * held(found, "weight")


def test_a_split_divides_weights_and_cache_and_only_matrices_divide_work() -> None:
    found = decoding()
    layers, matrices = (split(found, 2, matrices=way) for way in (False, True))
    for part in (layers, matrices):
        assert_sound(part)
        assert held(part, "input") == pytest.approx(held(found, "input") / 2, rel=0.01)
        assert held(part, "weight") < 0.7 * held(found, "weight")  # embeddings stay whole
    assert totals(layers).forward_flops == totals(found).forward_flops
    assert totals(matrices).forward_flops < 0.7 * totals(found).forward_flops
