"""The zoo: names, sizes, and that what is stored is what a capture gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.torchvision import import_torchvision
from gpuwise.workload.language.find import named_shape
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.evaluate import peak_memory, totals
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from whole_tables import every_row

DATA = files("gpuwise.workload") / "data" / "zoo"
TOOLS = Path(__file__).parents[3] / "tools"
ASKED_FOR = """
alexnet vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn vgg16_bn vgg19_bn googlenet inception_v3 inception_v4 resnet18 resnet34
resnet50 resnet101 resnet152 resnext50 resnext101 wide_resnet50 wide_resnet101 se_resnext101 densenet121 densenet161
densenet169 densenet201 squeezenet shufflenet_v2 mnasnet mobilenet_v2 mobilenet_v3 efficientnet_b0 efficientnet_b1
efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_s
efficientnet_v2_m efficientnet_v2_l regnety convnext_tiny convnext_small convnext_base convnext_large vit_tiny vit_small
vit_base vit_large vit_huge deit swin_tiny swin_small swin_base swin_large mlp_mixer unet ssd300 mask_rcnn yolo dcgan sd15
sdxl word_lstm bilstm char_rnn gnmt transformer_base transformer_big transformer_xl_base transformer_xl_large bert-base
bert-large roberta t5-small t5-base t5-large t5-3b gpt2 gpt2-medium gpt2-large gpt2-xl gpt3-xl gpt3-2.7b gpt3-6.7b gpt3-13b
gpt3-175b opt-1.3b opt-2.7b opt-6.7b opt-13b opt-30b opt-66b llama-2-7b llama-2-13b llama-2-70b llama-3-8b llama-3-70b
llama-3.2-1b llama-3.2-3b mistral-7b mixtral-8x7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b qwen2.5-14b qwen2.5-32b
qwen2.5-72b ncf dlrm tacotron2 waveglow whisper-small whisper-medium whisper-large wav2vec2 mnist_mlp mnist_cnn lenet5
""".split()


def loaded(model: str, phase: str = "", **settings: Any) -> Workload:
    return zoo.load(model, Request(model=model, phase=phase, settings=Settings(**settings)))


# ---------------------------------------------------------------- names


@every_row(ASKED_FOR)
def test_the_well_known_models_are_there(name: str) -> None:
    assert zoo.entry(name).graphs


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ResNet-50", "resnet50"),
        ("resnet_50", "resnet50"),
        ("ViT-B/16", "vit_base"),
        ("BERT large", "bert-large-uncased"),
        ("Llama 2 7B", "llama-2-7b"),
        ("opt-13b", "opt-13b"),
        ("opt-1.3b", "opt-1.3b"),
        ("Stable Diffusion", "sd15_unet"),
        ("resnet18", "resnet18"),
    ],
)
def test_names_are_forgiven_case_spaces_and_dashes(written: str, meant: str) -> None:
    assert zoo.entry(written).name == meant


def test_no_alias_means_two_models() -> None:
    spellings = [
        (zoo.key(text), entry.name) for entry in zoo.entries().values() for text in {entry.name, *entry.aliases, entry.title}
    ]
    owners: dict[str, set[str]] = {}
    for spelling, name in spellings:
        owners.setdefault(spelling, set()).add(name)
    assert not {spelling: names for spelling, names in owners.items() if len(names) > 1}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("openai/whisper-large-v3", "whisper-large"),
        ("microsoft/resnet-50", "resnet50"),
        ("FacebookAI/roberta-large", "roberta-large"),
        ("runwayml/stable-diffusion-v1-5", "sd15_unet"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "sdxl_unet"),
        ("black-forest-labs/FLUX.1-dev", "flux_transformer"),
    ],
)
def test_a_name_of_the_hub_is_known_without_its_publisher(name: str, model: str) -> None:
    assert zoo.entry(name).name == model


def test_a_folder_is_not_taken_for_a_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "vgg19").mkdir(parents=True)
    assert not zoo.has("mine/vgg19")
    assert not zoo.has("./vgg19")
    assert zoo.has("yours/vgg19")


def test_an_unknown_name_is_an_error_with_close_matches() -> None:
    with pytest.raises(UnknownName) as caught:
        zoo.load("resnet5o")
    assert "`resnet50`" in caught.value.hint
    assert not zoo.has("resnet5o")
    assert not zoo.has("timm:resnet50")
    assert zoo.close("densenet12")[0] == "densenet121"


# ---------------------------------------------------------------- the shipped data


def test_index_and_files_belong_together_within_the_size_budget() -> None:
    names = {path.name for path in DATA.iterdir()}  # type: ignore[attr-defined]
    assert names == {"index.json", *(f"{name}.json.gz" for name in zoo.names())}
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 3_000_000  # type: ignore[attr-defined]


def test_needs_no_framework() -> None:
    code = (
        "import sys, json\nfrom gpuwise.workload.store import zoo\nzoo.load('resnet50')\n"
        "print(json.dumps([name for name in ('torch', 'timm', 'transformers', 'keras') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@every_row(zoo.names())
def test_every_model_is_whole(name: str) -> None:
    entry = zoo.entry(name)
    workload = zoo.load(name)
    assert workload.symbols == (("batch",) if workload.seq is None else ("batch", "seq"))
    stored = {(graph.mode, graph.precision) for graph in entry.graphs}
    assert stored >= {("infer", "fp32"), ("infer", "amp")} or any(graph.phase for graph in entry.graphs)
    work = totals(workload)
    if entry.family != "diffusion" or ("train", "fp32") in stored:  # some models that make images are never trained whole
        assert stored >= {("train", "fp32"), ("train", "amp"), ("infer", "fp32")}
        assert 1.2 * work.forward_flops < work.backward_flops < 2.6 * work.forward_flops
    assert coverage(workload).calls_fraction > 0.97
    peak = peak_memory(workload)
    assert peak.by_category["weight"] >= 4 * workload.parameters
    # work that does not grow with the batch (projections of positions) is little beside the rest, and never negative
    growth = totals(workload, batch=2 * workload.batch).forward_flops / work.forward_flops
    assert 1.98 <= growth <= 2 + 1e-9


@pytest.mark.parametrize("name", [name for name, entry in zoo.entries().items() if any(graph.phase for graph in entry.graphs)])
def test_generating_models_have_prefill_and_decode(name: str) -> None:
    prefill, decode = (loaded(name, phase, mode="infer", precision="bf16") for phase in ("prefill", "decode"))
    assert prefill.batch == decode.batch == 1
    assert totals(prefill).forward_flops > 50 * totals(decode).forward_flops
    shape = named_shape(name)  # a token does not meet every expert
    met = shape.active_parameters if shape else decode.parameters
    assert totals(decode).read_bytes > 2 * 0.5 * met or "whisper" in name
    more = totals(decode, seq=2 * (decode.seq or 0)).read_bytes if "seq" in decode.symbols else float("inf")
    assert more > totals(decode).read_bytes


# ---------------------------------------------------------------- what is made from the stored graphs


def test_precisions_without_a_graph_of_their_own() -> None:
    fp32, tf32 = loaded("resnet50"), loaded("resnet50", precision="tf32")
    assert tf32.ops == fp32.ops
    assert tf32.precision == "tf32"
    for precision, wide in (("bf16", "fp16"), ("fp16", "bf16")):
        low = loaded("resnet50", precision=precision)
        assert {tensor.dtype for tensor in low.tensors} >= {precision}
        assert not {tensor.dtype for tensor in low.tensors} & {wide, "fp32"}
        assert peak_memory(low).by_category["weight"] == pytest.approx(peak_memory(fp32).by_category["weight"] / 2, rel=1e-3)


def test_attention_keeps_its_row_sums_in_fp32() -> None:
    low = loaded("vit_tiny", precision="bf16")
    attention = next(op for op in low.ops if op.name == "gpuwise::attention")
    assert [low.tensors[row].dtype for row in attention.writes] == ["bf16", "fp32"]


def test_mixed_precision_in_bf16_has_no_gradient_scaler() -> None:
    half, brain = loaded("resnet50", precision="amp"), loaded("resnet50", precision="amp-bf16")
    names = [Counter(workload.ops[call.op].name for call in workload.calls) for workload in (half, brain)]
    assert names[0]["_amp_update_scale_"] == 1
    assert not any("amp" in name for name in names[1])
    assert len(half.calls) - len(brain.calls) == 7
    assert "fp16" not in {tensor.dtype for tensor in brain.tensors}


@pytest.mark.parametrize(
    ("optimizer", "bytes_a_weight"), [("none", 0), ("sgd", 0), ("momentum", 4), ("adamw", 8), ("adam8bit", 2)]
)
def test_optimizers_bring_their_state(optimizer: str, bytes_a_weight: float) -> None:
    workload = loaded("resnet50", optimizer=optimizer)
    state = peak_memory(workload).by_category["optimizer"]
    assert state == pytest.approx(bytes_a_weight * workload.parameters, rel=0.03)
    assert workload.optimizer == optimizer


def test_channels_last_changes_the_layout_of_convolutions_only() -> None:
    plain, last = loaded("resnet50"), loaded("resnet50", channels_last=True)
    layouts = {op.attrs["layout"] for op in last.ops if op.kind == "conv"}
    assert layouts == {"nhwc"}
    assert totals(plain) == totals(last)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request(model="resnet50", image=288), "--image 288"),
        (Request(model="resnet50", settings=Settings(checkpoint=True)), "--checkpoint"),
        (Request(model="resnet50", settings=Settings(optimizer="adafactor")), "adafactor"),
        (Request(model="resnet50", phase="decode", settings=Settings(mode="infer")), "decode"),
        (Request(model="llama-2-7b", phase="decode", settings=Settings(mode="infer", precision="amp")), "amp"),
    ],
)
def test_what_the_zoo_cannot_make_is_said(request_: Request, says: str) -> None:
    with pytest.raises(BadValue) as caught:
        zoo.load(request_.model, request_)
    assert says in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("model", "image", "other"),
    [
        ("resnet50", 32, "torchvision:resnet50"),
        ("inception", 512, "torchvision:inception_v3"),
        ("swin_base", 384, "timm:swin_base_patch4_window12_384"),
        ("resnet50", 224, "resnet50"),
        ("resnet50", None, "resnet50"),
        ("sd15_unet", 768, "sd15_unet"),
        ("ssd300", 512, "ssd300"),
        ("lenet5", 64, "lenet5"),
    ],
)
def test_another_image_size_comes_from_the_library(model: str, image: int | None, other: str) -> None:
    assert zoo.at_its_size(Request(model=model, image=image)) == Request(model=other, image=image)


# ---------------------------------------------------------------- against direct captures


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["resnet18", "vit_tiny", "mnist_cnn", "char_rnn", "transformer_base", "gpt2"])
def test_a_capture_at_an_unseen_size_equals_the_symbolic_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="capturing needs torch")
    if find_spec("torchvision") is None:
        pytest.skip("the catalogue of the zoo needs torchvision")
    import_torchvision()  # works without its compiled operators
    pytest.importorskip("timm", reason="the catalogue of the zoo needs timm")
    pytest.importorskip("transformers", reason="the catalogue of the zoo needs transformers")
    monkeypatch.syspath_prepend(str(TOOLS))
    import build_zoo

    assert build_zoo.verify(name).lines == []


@pytest.mark.filterwarnings("ignore")
def test_torchvisions_vit_captured_anew_is_the_zoos() -> None:
    """It fills its weights with truncated normals, which look at the values they draw."""
    pytest.importorskip("torch", reason="capturing needs torch")
    if find_spec("torchvision") is None:
        pytest.skip("the model is torchvision's")
    from gpuwise.workload.capture.worker import record

    stored = zoo.load("vit_base")
    anew = record(Request(model="torchvision:vit_b_16", settings=Settings(mode="train")))
    assert anew.parameters == stored.parameters
    assert totals(anew, batch=7).forward_flops == pytest.approx(totals(stored, batch=7).forward_flops, rel=1e-6)
