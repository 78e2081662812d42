"""Models in the user's own files: what is captured, what is assumed, and one clear error for each thing that can be wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="user code is captured through PyTorch")

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.workload.capture.process import capture
from gpuwise.workload.capture.request import Request, parse_input
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings, Workload

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_captures")]

MODELS = """
import torch
from torch import nn

class Cnn(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.scores = nn.Linear(8 * 13 * 13, classes)

    def forward(self, x):
        return self.scores(self.features(x).flatten(1))

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.positions = nn.Parameter(torch.zeros(1, 64, 64))
        self.layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
        self.scores = nn.Linear(64, 1000)
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]

    def forward(self, tokens):
        return self.scores(self.layer(self.table(tokens) + self.positions[:, :tokens.shape[1]]))

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.scores = nn.LSTM(20, 32), nn.Linear(32, 3)

    def forward(self, x):
        return self.scores(self.lstm(x)[0])

class OneLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.positions = nn.Embedding(10, 8), nn.Parameter(torch.zeros(32, 8))

    def forward(self, tokens):
        return self.table(tokens) + self.positions

class Autoencoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784))

class OnGpu(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4, device="cuda")
        self.to(torch.device("cuda"))

    def forward(self, x):
        shift = torch.zeros(4, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = self.layer(x.cuda())
        return y.float() + shift

class OwnLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, x, labels=None):
        return {"loss": self.layer(x).abs().mean(), "logits": x}

class NeedsArguments(nn.Module):
    def __init__(self, width, depth, bias=True):
        super().__init__()

class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, source, target, mask=None):
        return self.layer(source) + target

class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return self.layer(x)

class OneBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x.view(16, 2, 4)).sum(1)

model = Cnn()

def pair():
    return TwoInputs().cuda().half().float(), (torch.randn(6, 4), torch.randn(6, 4))

def triple():
    return Cnn(7).to("cuda"), (torch.randn(16, 1, 28, 28), torch.randint(0, 7, (16,))), nn.CrossEntropyLoss()

def triple_without_targets():
    return Cnn(7), torch.randn(16, 1, 28, 28), nn.functional.cross_entropy

def one_batch():
    return OneBatch(), torch.randn(16, 8)

def nothing():
    return None

def vector_loss():
    return nn.Linear(3, 4), torch.randn(5, 3), lambda output: output

SETTINGS = {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


def captured(model: str, *inputs: str, mode: str = "train", seq: int | None = None) -> Workload:
    request = Request(model=model, seq=seq, inputs=tuple(map(parse_input, inputs)), settings=Settings(mode=mode))
    return capture(request, timeout_s=90)


def kinds(workload: Workload, phase: int = 0) -> list[str]:
    return [workload.ops[call.op].kind for call in workload.calls if call.phase == phase]


def test_a_class_is_built_and_its_images_are_guessed(file: Path) -> None:
    workload = captured(f"{file}:Cnn")
    assert workload.symbols == ("batch",)
    assert workload.parameters == 8 * 9 + 8 + 8 * 13 * 13 * 10 + 10
    assert evaluate.totals(workload, 1).forward_flops == 2 * (8 * 9 * 26 * 26 + 8 * 13 * 13 * 10)
    assert any("1 × 28 × 28" in note for note in workload.notes)
    assert any("cross-entropy over 10 classes" in note for note in workload.notes)


def test_a_model_object_gives_what_its_class_gives(file: Path) -> None:
    by_object, by_class = captured(f"{file}:model"), captured(f"{file}:Cnn")
    assert kinds(by_object) == kinds(by_class)
    assert by_object.parameters == by_class.parameters


def test_tokens_are_guessed_within_the_positions_the_model_has(file: Path) -> None:
    workload = captured(f"{file}:Language")
    assert workload.seq == 64
    assert "attention" in kinds(workload)
    assert any("valid only at the captured size" in note for note in workload.notes)  # all positions are used: nothing is cut off
    assert captured(f"{file}:Language", seq=48).symbols == ("batch", "seq")


def test_a_recurrent_net_gets_its_time_first(file: Path) -> None:
    workload = captured(f"{file}:Recurrent", mode="infer")
    assert kinds(workload).count("rnn") == 1
    assert workload.symbols == ("batch", "seq")


def test_a_length_that_cannot_vary_is_said(file: Path) -> None:
    workload = captured(f"{file}:OneLength", mode="infer")
    assert workload.symbols == ("batch",)
    assert any("only the length 32" in note for note in workload.notes)


def test_what_returns_the_shape_of_its_input_is_not_a_classifier(file: Path) -> None:
    workload = captured(f"{file}:Autoencoder")
    assert any("mean of the squared output" in note for note in workload.notes)


def test_code_that_says_cuda_needs_none(file: Path) -> None:
    workload = captured(f"{file}:OnGpu")
    assert {workload.ops[call.op].dtype for call in workload.calls if workload.ops[call.op].kind == "matmul"} == {"bf16"}


def test_the_models_own_loss_is_taken(file: Path) -> None:
    assert not any("loss assumed" in note for note in captured(f"{file}:OwnLoss").notes)


def test_a_function_may_return_inputs(file: Path) -> None:
    workload = captured(f"{file}:pair")
    assert workload.batch == 6
    assert workload.symbols == ("batch",)


@pytest.mark.parametrize("name", ["triple", "triple_without_targets"])
def test_a_function_may_return_a_loss(file: Path, name: str) -> None:
    workload = captured(f"{file}:{name}")
    assert kinds(workload).count("loss") == 1
    assert workload.batch == 16
    assert not any("loss assumed" in note for note in workload.notes)


def test_a_model_for_one_batch_only_is_kept_at_it(file: Path) -> None:
    workload = captured(f"{file}:one_batch")
    assert workload.symbols == ()
    assert workload.batch == 16
    assert any("does not run at other sizes" in note for note in workload.notes)


def test_inputs_by_hand(file: Path) -> None:
    workload = captured(f"{file}:TwoInputs", "source=batch,seq,4", "target=batch,seq,4", seq=48)
    assert (workload.symbols, workload.seq) == (("batch", "seq"), 48)


@pytest.mark.afresh
def test_a_module_of_the_current_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert captured("models:Cnn", mode="infer").source == "user_code"


def test_a_unicode_path(tmp_path: Path) -> None:
    folder = tmp_path / "Modèles 模型"
    folder.mkdir()
    (folder / "сеть.py").write_text(MODELS, encoding="utf-8")
    assert captured(f"{folder / 'сеть.py'}:Cnn", mode="infer").parameters == 13610


def test_a_keras_model_from_a_function(tmp_path: Path) -> None:
    if importlib.util.find_spec("keras") is None:
        pytest.skip("needs Keras")
    path = tmp_path / "net.py"
    path.write_text(
        "import keras\n"
        "def build():\n"
        "    return keras.Sequential([keras.Input((20,)), keras.layers.Dense(30), keras.layers.Dense(10)])\n",
        encoding="utf-8",
    )
    assert captured(f"{path}:build", mode="infer").parameters == 20 * 30 + 30 + 30 * 10 + 10


# ---------------------------------------------------------------- what cannot be captured


def failure(kind: type[GpuwiseError], model: str, *inputs: str, mode: str = "train") -> str:
    with pytest.raises(kind) as caught:
        captured(model, *inputs, mode=mode)
    assert caught.value.hint
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_a_name_that_is_not_there_lists_those_that_are(file: Path) -> None:
    text = failure(UnknownName, f"{file}:Cn")
    assert "Autoencoder, Branching, Cnn" in text
    assert f"did you mean `{file}:Cnn`" in text


def test_a_missing_file(tmp_path: Path) -> None:
    assert "not found" in failure(BadFile, f"{tmp_path / 'no.py'}:Net")


@pytest.mark.afresh
def test_a_missing_module() -> None:
    assert "Python module 'no_such_package' not found" in failure(UnknownName, "no_such_package.models:Net")


def test_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import torch\n\ndef f(:\n", encoding="utf-8")
    assert "broken.py line 3 is not valid Python" in failure(BadFile, f"{path}:Net")


def test_constructor_arguments_are_named(file: Path) -> None:
    text = failure(BadValue, f"{file}:NeedsArguments")
    assert "it needs width, depth" in text
    assert "def build(): return NeedsArguments(width=…, depth=…)" in text


def test_inputs_that_cannot_be_guessed_are_named(file: Path) -> None:
    text = failure(BadValue, f"{file}:TwoInputs")
    assert "(source, target, mask=None)" in text
    assert "--input source=batch" in text


def test_an_input_of_another_name(file: Path) -> None:
    assert "unknown input a" in failure(BadValue, f"{file}:TwoInputs", "a=batch,4", "target=batch,4")


def test_an_input_of_the_wrong_shape(file: Path) -> None:
    assert "does not run with the inputs given, at models.py line" in failure(BadValue, f"{file}:Cnn", "x=batch,3,28,28")


def test_inputs_without_a_batch(file: Path) -> None:
    assert "no batch dimension" in failure(BadValue, f"{file}:Cnn", "x=1,1,28,28").replace("has a", "no")


def test_data_dependent_control_flow_names_the_line(file: Path) -> None:
    line = MODELS.splitlines().index("        if x.sum() > 0:") + 1
    assert f"depends on tensor values at models.py line {line}" in failure(GpuwiseError, f"{file}:Branching")


def test_a_function_that_returns_no_model(file: Path) -> None:
    assert "returns a NoneType, not a model" in failure(BadValue, f"{file}:nothing")


def test_a_name_that_is_no_model(file: Path) -> None:
    assert "is a dict, not a model" in failure(BadValue, f"{file}:SETTINGS")


def test_a_loss_that_is_no_number(file: Path) -> None:
    assert "the loss is a tensor of shape (5, 4)" in failure(BadValue, f"{file}:vector_loss")


def test_exit_at_import(tmp_path: Path) -> None:
    path = tmp_path / "leaves.py"
    path.write_text("import sys\nsys.exit(3)\n", encoding="utf-8")
    assert "ended the program at leaves.py line 2 (sys.exit(3))" in failure(GpuwiseError, f"{path}:Net")


def test_a_missing_package_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "imports.py"
    path.write_text("\nimport no_such_package\n", encoding="utf-8")
    text = failure(GpuwiseError, f"{path}:Net")
    assert "at imports.py line 2" in text
    assert "install no_such_package" in text
