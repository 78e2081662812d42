# ruff: noqa: E402
"""Hugging Face models from their configuration alone: known counts, the phases of generating, mixtures of experts, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capturing needs torch")
if find_spec("transformers") is None:  # not imported before it is needed: it takes long, in every process that collects tests
    pytest.skip("these models are built by transformers", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.workload.capture.huggingface import configs as huggingface_configs
from gpuwise.workload.capture.huggingface import source as huggingface
from gpuwise.workload.capture.huggingface.known import known_parameters, table
from gpuwise.workload.capture.request import Request, parse_input
from gpuwise.workload.capture.worker import record
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings, Workload

TINY: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
MIXTURE = TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 4096}


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees what this machine has downloaded."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def capture(model: str, *, phase: str = "", batch: int | None = None, seq: int | None = None, **settings: Any) -> Workload:
    return record(Request(model=model, phase=phase, batch=batch, seq=seq, settings=Settings(**settings)))


def written(folder: Path, config: object, name: str = "config.json") -> str:
    path = folder / name
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return str(path)


def of_kind(workload: Workload, kind: str) -> list[Any]:
    return [workload.ops[call.op] for call in workload.calls if workload.ops[call.op].kind == kind]


def sizes(workload: Workload, op: Any, batch: float, seq: float | None) -> list[float]:
    values = evaluate.product_values(workload, batch, seq)[0]
    return [float(values[row]) for row in op.sizes]


# ---------------------------------------------------------------- the built-in table


def parameters_on_meta(name: str) -> int:
    import torch

    from gpuwise.workload.capture.huggingface.build import build

    request = Request(model=f"hf:{name}")
    config = huggingface._configuration(huggingface._transformers(), request, huggingface_configs.find_config(request.model))
    from gpuwise.workload.capture.huggingface.tasks import choose_task

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config, choose_task(config)[1], False).parameters())


@pytest.mark.parametrize("name", sorted(table()))
def test_every_model_of_the_table_has_its_published_parameter_count(name: str) -> None:
    if huggingface_configs.find_config(f"hf:{name}").config["model_type"] == "qwen":
        pytest.skip("transformers has no Qwen 1; its count is checked by its sizes")
    assert parameters_on_meta(name) == known_parameters()[name]


@pytest.mark.parametrize(
    ("name", "count"),
    {
        "gpt2": 124_439_808,
        "gpt2-xl": 1_557_611_200,
        "bert-base-uncased": 109_514_298,
        "roberta-base": 124_697_433,
        "distilbert-base-uncased": 66_985_530,
        "t5-base": 222_903_552,
        "facebook/opt-6.7b": 6_658_473_984,
        "meta-llama/Llama-2-7b-hf": 6_738_415_616,
        "meta-llama/Llama-2-70b-hf": 68_976_648_192,
        "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
        "meta-llama/Llama-3.2-1B": 1_235_814_400,
        "mistralai/Mistral-7B-v0.1": 7_241_732_096,
        "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
        "Qwen/Qwen2.5-7B": 7_615_616_512,
        "EleutherAI/gpt-j-6b": 6_050_882_784,
        "microsoft/phi-2": 2_779_683_840,
        "google/gemma-2b": 2_506_172_416,
        "openai/whisper-large-v3": 1_543_490_560,
        "google/vit-base-patch16-224": 86_567_656,
    }.items(),
)
def test_the_table_holds_the_counts_everyone_knows(name: str, count: int) -> None:
    assert known_parameters()[name] == count


def test_ids_are_found_by_both_names_and_in_any_case() -> None:
    short = huggingface_configs.find_config("hf:bert-base-uncased")
    assert huggingface_configs.find_config("hf:google-bert/bert-base-uncased") == short
    assert huggingface_configs.find_config("hf:BERT-Base-Uncased") == short
    assert "https://huggingface.co/google-bert/bert-base-uncased" in short.where


def test_the_local_cache_comes_before_the_table(tmp_path: Path) -> None:
    snapshot = tmp_path / "hf/hub/models--openai-community--gpt2/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 3}), encoding="utf-8")
    found = huggingface_configs.find_config("hf:gpt2")
    assert found.config["n_layer"] == 3
    assert found.notes == ("hyperparameters come from the local Hugging Face cache",)


# ---------------------------------------------------------------- training


def test_gpt2_forward_flops_are_two_per_weight_and_token_plus_attention() -> None:
    workload = capture("hf:gpt2", precision="amp", optimizer="adamw")
    assert workload.symbols == ("batch", "seq")
    assert workload.parameters == 124_439_808
    batch, seq, layers, width = 4, 640, 12, 768
    multiplied = 12 * layers * width**2 + 50257 * width
    attention = layers * 4 * batch * seq**2 * width
    assert evaluate.totals(workload, batch, seq).forward_flops == 2 * multiplied * batch * seq + attention


def test_causal_attention_stays_fused_and_needs_no_mask() -> None:
    ops = of_kind(capture("hf:distilgpt2", precision="amp"), "attention")
    assert Counter((op.attrs["pass"], op.attrs["causal"], op.attrs["mask"]) for op in ops) == {
        ("forward", True, False): 6,
        ("backward", True, False): 6,
    }


@pytest.mark.parametrize(
    ("name", "seq"),
    [
        ("distilbert-base-uncased", 512),
        ("t5-small", 512),
        ("facebook/opt-125m", 2048),
        ("openai/whisper-tiny", 448),
        ("facebook/wav2vec2-base", 500),
        ("openai/clip-vit-base-patch32", 77),
    ],
)
def test_every_task_trains_symbolically_at_its_usual_length(name: str, seq: int) -> None:
    workload = capture(f"hf:{name}", precision="amp")
    assert workload.seq == seq
    assert workload.symbols == ("batch", "seq")
    assert workload.parameters == known_parameters()[name]
    done = evaluate.totals(workload)
    assert 1.9 < done.backward_flops / done.forward_flops < 2.5


@pytest.mark.parametrize(
    ("name", "macs"),
    {  # published multiply-accumulates of one image: the SegFormer paper, and OpenCLIP's table of model profiles
        "nvidia/segformer-b0-finetuned-ade-512-512": 8.4e9,
        "openai/clip-vit-base-patch32": 7.4e9,
    }.items(),
)
def test_images_need_the_published_arithmetic(name: str, macs: float) -> None:
    workload = capture(f"hf:{name}", mode="infer", precision="amp", optimizer="none")
    assert workload.batch is not None
    assert evaluate.totals(workload).forward_flops / 2 / workload.batch == pytest.approx(macs, rel=0.02)


def test_no_layer_is_dropped() -> None:
    workload = capture("hf:facebook/wav2vec2-base", precision="fp32")
    assert Counter(op.attrs["pass"] for op in of_kind(workload, "attention")) == {"forward": 12, "backward": 12}


def test_images_have_no_sequence_and_take_another_size() -> None:
    workload = record(Request(model="hf:google/vit-base-patch16-224", image=384, settings=Settings(mode="infer")))
    assert workload.seq is None
    (op, *_) = of_kind(workload, "attention")
    assert sizes(workload, op, 1, None)[3] == (384 // 16) ** 2 + 1


def test_the_head_named_in_the_config_is_built(tmp_path: Path) -> None:
    config = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    named = written(tmp_path, config | {"architectures": ["BertForQuestionAnswering"], "max_position_embeddings": 100})
    workload = capture(named)
    assert workload.symbols == ("batch", "seq")
    assert workload.seq == 100
    assert "captured as BertForQuestionAnswering (question answering)" in workload.notes
    assert of_kind(capture(named, mode="infer"), "matmul")


# ---------------------------------------------------------------- generating


def test_decode_reads_the_whole_cache_and_every_weight_once(tmp_path: Path) -> None:
    workload = capture(written(tmp_path, TINY), mode="infer", phase="decode", precision="fp16")
    assert workload.symbols == ("batch", "seq")
    for op in of_kind(workload, "attention"):
        assert sizes(workload, op, 3, 700)[:5] == [3, 4, 2, 1, 700]
    multiplied = workload.parameters - 512 * 64 - 5 * 64  # without the table that is looked up and the norms
    attention = 2 * 4 * 3 * 64 * 700
    assert evaluate.totals(workload, 3, 700).forward_flops == 2 * 3 * multiplied + attention
    cache = evaluate.peak_memory(workload, 3, 700).by_category["input"]
    assert cache == pytest.approx(
        2 * 2 * 3 * 2 * 16 * 700 * 2, rel=0.01
    )  # layers, keys and values, batch, heads, width, length, bytes


def test_prefill_scores_only_the_last_token_and_fills_the_cache(tmp_path: Path) -> None:
    workload = capture(written(tmp_path, TINY), mode="infer", phase="prefill", precision="fp16")
    assert {op.attrs["causal"] for op in of_kind(workload, "attention")} == {True}
    scores = [sizes(workload, op, 3, 700) for op in of_kind(workload, "matmul")]
    assert [3.0, 512.0, 64.0] in [size[1:] for size in scores]
    assert [3 * 700, 512.0, 64.0] not in [size[1:] for size in scores]
    stored = [call for call in workload.calls if workload.ops[call.op].name == "copy_"]
    assert len(stored) == 2 * 2


def test_inference_of_a_language_model_is_its_prefill(tmp_path: Path) -> None:
    path = written(tmp_path, TINY)
    assert evaluate.totals(capture(path, mode="infer"), 2, 300) == evaluate.totals(
        capture(path, mode="infer", phase="prefill"), 2, 300
    )


@pytest.mark.parametrize("name", ["t5-small", "openai/whisper-tiny"])
def test_encoder_decoders_decode_over_two_caches(name: str) -> None:
    workload = capture(f"hf:{name}", mode="infer", phase="decode", precision="fp16")
    lengths = Counter(sizes(workload, op, 1, 300)[4] for op in of_kind(workload, "attention"))
    layers = {"t5-small": 6, "openai/whisper-tiny": 4}[name]
    assert lengths == ({300: 2 * layers} if name == "t5-small" else {300: layers, 1500: layers})


def test_a_sliding_window_bounds_the_cache(tmp_path: Path) -> None:
    path = written(tmp_path, TINY | {"model_type": "mistral", "sliding_window": 256})
    short = capture(path, mode="infer", phase="decode", seq=200)
    long = capture(path, mode="infer", phase="decode", seq=600)
    assert {sizes(short, op, 1, 200)[4] for op in of_kind(short, "attention")} == {200}
    assert {sizes(long, op, 1, 600)[4] for op in of_kind(long, "attention")} == {256}
    assert "the model has a sliding window of 256 tokens, so the capture is valid for sequences above that length" in long.notes


# ---------------------------------------------------------------- mixtures of experts


def test_experts_multiply_only_the_tokens_sent_to_them(tmp_path: Path) -> None:
    workload = capture(written(tmp_path, MIXTURE), precision="amp")
    assert workload.symbols == ("batch", "seq")
    experts = [op for op in of_kind(workload, "matmul") if op.attrs.get("groups") == "experts"]
    assert len(experts) == 2 * 2 * 3  # layers, products, passes
    values = [sizes(workload, op, 4, 300) for op in experts]
    done = sum(2 * size[0] * size[1] * size[2] * size[3] for size in values)
    assert done == pytest.approx(3 * 2 * (2 * 4 * 300 * 2) * 3 * 64 * 128)  # passes, layers, pairs, three matrices
    assert "2 of 8 experts process each token; tokens are assumed to be spread evenly" in workload.notes


def test_decoding_one_sequence_reads_only_the_experts_it_needs(tmp_path: Path) -> None:
    path = written(tmp_path, MIXTURE)
    one = capture(path, mode="infer", phase="decode", batch=1)
    many = capture(path, mode="infer", phase="decode", batch=64)

    def read(workload: Workload, batch: int) -> float:
        values = evaluate.product_values(workload, batch, 100)
        reads, _ = evaluate.op_bytes(workload, values)
        return float(sum(reads[0, row] for row, op in enumerate(workload.ops) if op.attrs.get("groups") == "experts"))

    assert read(one, 1) == pytest.approx(2 / 8 * read(many, 1), rel=0.01)
    assert evaluate.totals(one, 3, 100).forward_flops == pytest.approx(evaluate.totals(many, 3, 100).forward_flops)


# ---------------------------------------------------------------- bad input


def test_an_unknown_id_names_its_neighbours_and_the_way_out() -> None:
    with pytest.raises(UnknownName) as error:
        capture("hf:meta-llama/Llama-2-8b-hf")
    assert "`hf:meta-llama/Llama-2-7b-hf`" in error.value.hint
    assert "config.json" in error.value.hint


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b/c", "a b", "-x"])
def test_what_is_no_id_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="invalid Hugging Face id"):
        capture(f"hf:{name}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 200_000, "is not JSON"),
        ("[1, 2]", "contains no JSON object"),
        ('{"name": "a-web-page", "version": "1.0"}', 'has no "model_type"'),
        ('{"model_type": 3}', 'has no "model_type"'),
        ('{"model_type": "bert", "architectures": 5}', '"architectures": 5, which is not a list of names'),
        ('{"model_type": "bert", "hidden_size": "wide"}', "is not a valid 'bert' configuration"),
        ('{"model_type": "bert", "pad": "' + "x" * 5_000_000 + '"}', "too large for a model configuration"),
    ],
)
def test_a_file_that_is_no_model_is_told_so(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(BadFile) as error:
        capture(written(tmp_path, content))
    assert says in error.value.message
    assert error.value.hint


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "model.json").mkdir()
    with pytest.raises(BadFile, match="is a folder"):
        capture(str(tmp_path / "model.json"))
    with pytest.raises(BadFile, match="not found"):
        capture(str(tmp_path / "config.json"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(BadFile, match="not a regular file"):
        capture(str(tmp_path / "config.json"))


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "modeling.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    auto = {"AutoConfig": "modeling.Config", "AutoModelForCausalLM": "modeling.Model"}
    with pytest.raises(UnknownName, match="does not run a model's own code"):
        capture(written(tmp_path, {"model_type": "brand-new-net", "auto_map": auto}))
    capture(written(tmp_path, TINY | {"auto_map": auto}), mode="infer")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_hidden_layers": 10**9}, "1,000,000,000 layers"),
        ({"hidden_size": -64}, ""),
        ({"max_position_embeddings": 4}, "at most 4 positions"),
        ({"model_type": "sam"}, "cannot be captured from a configuration"),
        ({"model_type": "lama"}, "no model type 'lama'"),
    ],
)
def test_absurd_figures_are_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(GpuwiseError) as error:
        capture(written(tmp_path, TINY | change))
    assert says in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request(model="hf:gpt2", seq=1025), "at most 1,024 positions"),
        (Request(model="hf:roberta-base", seq=513), "at most 512 positions"),
        (Request(model="hf:gpt2", seq=-1), "cannot be captured"),
        (Request(model="hf:gpt2", phase="decode"), "training has no decode"),
        (Request(model="hf:gpt2", phase="dream", settings=Settings(mode="infer")), "unknown phase"),
        (Request(model="hf:bert-base-uncased", phase="decode", settings=Settings(mode="infer")), "generates no text"),
        (Request(model="hf:gpt2", image=224), "takes no images"),
        (Request(model="hf:google/vit-base-patch16-224", image=225), "patches of 16"),
        (Request(model="hf:google/vit-base-patch16-224", seq=9), "has no sequence"),
        (Request(model="hf:gpt2", inputs=(parse_input("x=batch,3"),)), "creates its own inputs"),
    ],
)
def test_what_a_model_cannot_do_is_said(request_: Request, says: str) -> None:
    with pytest.raises(BadValue) as error:
        record(request_)
    assert says in error.value.message
    assert error.value.hint


def test_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from gpuwise.workload.capture.request import Request\n"
        "from gpuwise.workload.model.types import Settings\n"
        "from gpuwise.workload.capture.worker import record\n"
        "print(record(Request(model='hf:distilgpt2', settings=Settings(mode='infer'))).parameters)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "81912576", done.stderr[-500:]
