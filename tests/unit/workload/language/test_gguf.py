"""GGUF files: the sizes and bytes of whole ones, and what is said of those that are cut, damaged or of another kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import making_gguf as making
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.workload.language.gguf import read_gguf

Maker = Callable[[], tuple[dict[str, Any], making.Tensors]]


@pytest.mark.parametrize("maker", [making.llama, making.gpt_oss, making.deepseek, making.phi3])
def test_the_sizes_account_for_every_number_of_the_file(tmp_path: Path, maker: Maker) -> None:
    found = read_gguf(making.write(tmp_path / "model.gguf", *maker()))
    assert found.shape.parameters == found.parameters


def test_a_llama_is_read_whole(tmp_path: Path) -> None:
    found = read_gguf(making.write(tmp_path / "model.gguf", *making.llama()))
    shape = found.shape
    assert (shape.name, shape.hidden, shape.layers, shape.heads, shape.kv_heads) == ("Tiny Llama", 96, 2, 6, 2)
    assert (shape.head_dim, shape.intermediate, shape.vocabulary, shape.context) == (16, 256, 300, 512)
    assert shape.tied
    assert shape.gated
    assert found.format == "Q4_0"
    quantised = 96 * 300 + 2 * (2 * 96 * 96 + 2 * 96 * 32 + 3 * 96 * 256)
    assert found.format_bytes == {"Q4_0": quantised // 32 * 18, "F32": 5 * 96 * 4}
    assert found.tensor_bytes == sum(found.format_bytes.values())


def test_experts_windows_and_sinks_are_read_off_the_tensors(tmp_path: Path) -> None:
    found = read_gguf(making.write(tmp_path / "model.gguf", *making.gpt_oss()))
    shape = found.shape
    assert (shape.experts, shape.chosen, shape.expert_intermediate) == (8, 2, 96)
    assert (shape.window, shape.window_layers) == (128, 2)
    assert shape.sinks
    assert shape.router_bias
    assert found.format == "MXFP4_MOE"
    assert found.format_bytes["MXFP4"] == 4 * 8 * 3 * 64 * 96 // 32 * 17


def test_latent_attention_and_shared_experts_are_read_off_the_tensors(tmp_path: Path) -> None:
    found = read_gguf(making.write(tmp_path / "model.gguf", *making.deepseek()))
    shape = found.shape
    assert (shape.latent, shape.rope_dim, shape.query_latent, shape.head_dim, shape.values) == (40, 8, 32, 24, 16)
    assert (shape.experts, shape.shared_intermediate, shape.dense_layers, shape.intermediate) == (8, 32, 1, 128)
    assert found.format == "F16"  # the file does not name its format: that of most of its bytes


def test_a_layer_that_predicts_further_tokens_is_no_layer_of_the_decoder(tmp_path: Path) -> None:
    given_settings, tensors = making.llama()
    shape = read_gguf(making.write(tmp_path / "a.gguf", given_settings | {"llama.nextn_predict_layers": 1}, tensors)).shape
    assert shape.layers == 1


def test_a_model_in_parts_is_counted_whole(tmp_path: Path) -> None:
    given_settings, tensors = making.llama()
    names = list(tensors)
    first = making.write(tmp_path / "m-00001-of-00002.gguf", given_settings, {name: tensors[name] for name in names[:9]})
    with pytest.raises(BadFile, match=r"m-00002-of-00002\.gguf is not in the same folder"):
        read_gguf(first)
    second = making.write(tmp_path / "m-00002-of-00002.gguf", {"split.no": 1}, {name: tensors[name] for name in names[9:]})
    for path in (first, second):
        found = read_gguf(path)
        assert found.parameters == found.shape.parameters


# ---------------------------------------------------------------- cut files


def test_every_cut_through_the_header_says_what_is_missing(tmp_path: Path) -> None:
    head, _ = making.header(*making.llama())
    path = tmp_path / "cut.gguf"
    for length in range(0, len(head) - 40, 7):
        path.write_bytes(head[:length])
        with pytest.raises(BadFile, match="is truncated: it ends at byte") as caught:
            read_gguf(path, allow_header_only=True)
        assert caught.value.hint


def test_a_file_with_half_of_its_tensors_is_refused(tmp_path: Path) -> None:
    head, size = making.header(*making.llama())
    path = tmp_path / "half.gguf"
    path.write_bytes(head + bytes(size // 2))
    for allow_header_only in (False, True):
        with pytest.raises(
            BadFile,
            match=rf"its header is complete, but it has only {size // 2:,} of {size:,} bytes of tensors and ends within 'blk\.0",
        ) as caught:
            read_gguf(path, allow_header_only=allow_header_only)
        assert f"head -c {len(head)}" in caught.value.hint


@pytest.mark.parametrize("held", [0.0, 0.04])
def test_a_header_and_a_little_more_is_enough_for_a_prediction(tmp_path: Path, held: float) -> None:
    head, size = making.header(*making.llama())
    path = tmp_path / "header.gguf"
    path.write_bytes(head + bytes(int(size * held)))
    with pytest.raises(BadFile, match="its header is complete"):
        read_gguf(path)
    found = read_gguf(path, allow_header_only=True)
    assert found.parameters == found.shape.parameters
    assert found.notes


# ---------------------------------------------------------------- files that lie


def changed(head: bytes, at: int, form: str, value: int) -> bytes:
    return head[:at] + struct.pack(form, value) + head[at + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("at", "form", "value", "said"),
    [
        (0, "<I", 7, "not a GGUF file"),
        (4, "<I", 1, "version 1"),
        (4, ">I", 3, "big-endian"),
        (8, "<Q", 2**63, "more than any model has"),
        (8, "<Q", 900_000, "is truncated"),
        (16, "<Q", 2**63, "more than any model has"),
        (16, "<Q", 60_000, "is truncated"),
        (24, "<Q", 2**62, "is truncated"),
        (52, "<I", 77, "type 77"),
    ],
)
def test_a_count_that_cannot_be_is_refused_at_once(tmp_path: Path, at: int, form: str, value: int, said: str) -> None:
    head, size = making.header(*making.llama())
    path = tmp_path / "lie.gguf"
    path.write_bytes(changed(head, at, form, value) + bytes(size))
    with pytest.raises(BadFile, match=said):
        read_gguf(path)


@pytest.mark.parametrize(
    ("change", "tensor", "said"),
    [
        ({"general.architecture": "mamba"}, {"blk.0.ssm_in.weight": ((96, 96), 0)}, "instead of using attention"),
        ({"general.architecture": "clip"}, {}, "has no 'block_count'"),
        ({"llama.attention.head_count": [4, 6]}, {}, "must be a whole number, not a list"),
        ({"llama.attention.head_count": 0}, {}, "which is out of range"),
        ({"llama.embedding_length": "wide"}, {}, "must be a whole number, not 'wide'"),
        ({"general.alignment": 0}, {}, "aligned"),
        ({}, {"x": ((97,), 2)}, "do not fill blocks of 32"),
        ({}, {"x": ((2**40, 2**40), 0)}, "larger than any computer"),
        ({}, {"blk.0.ffn_down.weight": ((256,), 0), "token_embd.weight": ((96,), 0)}, "which is not a valid shape"),
    ],
)
def test_what_makes_no_decoder_is_refused(tmp_path: Path, change: dict[str, Any], tensor: making.Tensors, said: str) -> None:
    given_settings, tensors = making.llama()
    path = making.write(tmp_path / "odd.gguf", given_settings | change, tensors | tensor, data=False)
    with pytest.raises((BadFile, BadValue), match=said) as caught:
        read_gguf(path, allow_header_only=True)
    assert caught.value.message.isprintable()


def test_an_unknown_format_of_numbers_is_named(tmp_path: Path) -> None:
    head, _ = making.header(*making.llama())
    at = head.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 16
    path = tmp_path / "new.gguf"
    path.write_bytes(changed(head, at, "<I", 999))
    with pytest.raises(BadFile, match=r"'token_embd.weight' of .* has the unknown format 999"):
        read_gguf(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(st.integers(4, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_is_told_and_never_a_traceback(tmp_path: Path, flips: list[tuple[int, int]]) -> None:
    given_settings, tensors = making.llama()
    few = {key: value for key, value in given_settings.items() if "tokenizer" not in key}
    head = bytearray(making.header(few, tensors)[0])
    for at, value in flips:
        head[at % (len(head) - 4) + 4] = value
    path = tmp_path / "damaged.gguf"
    path.write_bytes(head)
    try:
        read_gguf(path, allow_header_only=True)
    except GpuwiseError as error:
        assert error.message.isprintable()  # noqa: PT017  (either outcome is fine; a traceback is not)
