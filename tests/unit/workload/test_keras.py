"""Keras models come out as the work a GPU would do, whatever backend reads them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from keras_recording import counted_by_keras, flops, keras, kinds, named, names, record, source

from gpuwise.core.errors import BadValue, MissingExtra, UnknownName
from gpuwise.workload.capture.keras import backend as keras_backend
from gpuwise.workload.capture.request import Request, parse_input
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings

__all__ = ["record"]
pytestmark = pytest.mark.filterwarnings("default")
layers, ops = keras.layers, keras.ops

# ---------------------------------------------------------------- applications


needs_torchvision = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")


@needs_torchvision
def test_resnet50_is_torchvisions_with_the_stride_where_keras_has_it():
    """Keras keeps the first ResNet, with the stride on the 1x1 convolution; torchvision moved it to the 3x3 (+6 % FLOPs)."""
    from gpuwise.workload.capture.torch.images import image_subject
    from gpuwise.workload.capture.torch.step import capture
    from gpuwise.workload.capture.torch.torchvision import import_torchvision
    from gpuwise.workload.model.symbols import Description, join

    models = import_torchvision().models

    def first_resnet():
        model = models.resnet50()
        for block in model.modules():
            if isinstance(block, models.resnet.Bottleneck):
                block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
        return model

    ours = named("keras:ResNet50", "train")
    captures, _ = capture(image_subject(first_resnet, 224), Settings(), [(2, None), (3, None), (5, None), (8, None)])
    theirs = join(
        captures, Description(model="", source="", mode="train", precision="fp32", optimizer="sgd", options={}, parameters=0)
    )
    assert evaluate.totals(ours, 1).forward_flops == evaluate.totals(theirs, 1).forward_flops
    assert evaluate.totals(ours, 1).backward_flops == evaluate.totals(theirs, 1).backward_flops
    assert set(kinds(ours)) == set(kinds(theirs))
    for kind in ("conv", "norm", "matmul", "pool", "softmax", "loss"):
        assert kinds(ours)[kind] == kinds(theirs)[kind], kind
    assert {op.attrs["layout"] for op in ours.ops if op.kind == "conv"} == {"nhwc"}
    assert ours.parameters == 25_636_712
    assert any("25,583,592 trainable and 53,120 non-trainable" in note for note in ours.notes)


# https://keras.io/api/applications/ rounds these; Keras' own count_params gives them whole.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("VGG16", 138_357_544),
        ("MobileNetV2", 3_538_984),
        ("EfficientNetB0", 5_330_571),
        ("DenseNet121", 8_062_504),
        ("InceptionV3", 23_851_784),
        ("Xception", 22_910_480),
        ("ConvNeXtTiny", 28_589_128),
    ],
)
def test_applications_have_the_parameters_and_flops_that_keras_counts(name, parameters):
    workload = named(f"keras:{name}")
    with keras_backend.without_weights():
        model = getattr(keras.applications, name)(weights=None)
    assert workload.parameters == parameters == model.count_params()
    nested = [layer for layer in model.layers if isinstance(layer, keras.Model)]
    expected = counted_by_keras(model) + sum(counted_by_keras(inner) for inner in nested)
    assert flops(workload) == pytest.approx(expected, rel=1e-9)
    assert workload.symbols == ("batch",)
    assert "other" not in kinds(workload)


@needs_torchvision
def test_vgg16_equals_torchvisions():
    ours, theirs = named("keras:VGG16", "train"), named("torchvision:vgg16", "train")
    assert ours.parameters == theirs.parameters
    assert flops(ours) == flops(theirs)


@pytest.mark.slow
def test_an_image_size_is_taken():
    assert flops(named("keras:MobileNetV2", image=96)) < flops(named("keras:MobileNetV2")) / 4


def test_an_impossible_image_size_is_refused():
    with pytest.raises(BadValue) as error:
        named("keras:Xception", image=10)
    assert "image" in error.value.hint


def test_an_unknown_application_names_close_ones():
    with pytest.raises(UnknownName) as error:
        named("keras:resnet50")
    assert "`keras:ResNet50`" in error.value.hint


@pytest.mark.slow
def test_a_large_model_allocates_no_weights():
    """350 million parameters are 1.4 GB in fp32; what is left is Python, torch and Keras."""
    status = Path("/proc/self/status")  # not getrusage: its peak is handed on from the process that started this one
    if not status.exists():
        pytest.skip("no memory figures on this system")
    code = (
        "from gpuwise.workload.capture.worker import record\n"
        "from gpuwise.workload.capture.request import Request\n"
        "from gpuwise.workload.model.types import Settings\n"
        "workload = record(Request(model='keras:ConvNeXtXLarge', settings=Settings(mode='train', optimizer='adam')))\n"
        f"peak = next(line.split()[1] for line in open('{status}') if line.startswith('VmHWM'))\n"
        "print(workload.parameters, peak)\n"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=120)
    parameters, peak = map(int, ran.stdout.split())
    assert parameters == 350_196_968
    assert peak * 1024 < 1e9


def test_variables_left_without_values_are_not_given_any_later():
    """Keras keeps a list of them and fills it at the end of the next scope, were it not emptied."""
    with keras_backend.without_weights():
        layer = layers.Dense(5)
        layer.build((None, 4))
    with keras.StatelessScope():
        pass
    assert layer.kernel.shape == (4, 5)
    assert layer.kernel._value is None


def test_a_model_may_be_compiled_and_ask_for_weights_where_none_are():
    with keras_backend.without_weights():
        base = keras.applications.MobileNetV2(weights="imagenet", include_top=False, input_shape=(96, 96, 3))
        model = keras.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dense(3)])
        model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["accuracy"])
    assert source.compiled_optimizer(model) == "adam"
    assert base.layers[1].kernel._value is None


# ---------------------------------------------------------------- how models are put together


def test_a_shared_layer_has_one_weight_and_two_calls(record):
    a, b, shared = keras.Input((8,)), keras.Input((8,)), layers.Dense(4)
    model = keras.Model([a, b], layers.Add()([shared(a), shared(b)]))
    workload = record(model)
    assert workload.parameters == model.count_params() == 36
    assert kinds(workload)["matmul"] == 2


def test_nested_models_keep_their_names(record):
    inner = keras.Sequential([keras.Input((8,)), layers.Dense(8, name="deep"), layers.BatchNormalization()], name="inner")
    x = keras.Input((8,))
    workload = record(keras.Model(x, inner(inner(x))))
    assert "inner.deep" in workload.modules
    assert kinds(workload)["norm"] == 2


def test_a_frozen_base_is_not_trained(record):
    base = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization()], name="base")
    base.trainable = False
    x = keras.Input((8, 8, 3))
    model = keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(base(x, training=False))))
    workload = record(model, "train")
    assert kinds(workload, 1)["conv"] == kinds(workload, 1)["norm"] == 0
    assert kinds(workload, 1)["matmul"] == 1
    assert workload.parameters == model.count_params()


def test_dicts_of_inputs_and_outputs_get_their_compiled_losses(record):
    a, b = keras.Input((8,), name="a"), keras.Input((8,), name="b")
    both = layers.Concatenate()([a, b])
    outputs = {"p": layers.Dense(3, activation="softmax", name="p")(both), "q": layers.Dense(1, name="q")(both)}
    model = keras.Model({"a": a, "b": b}, outputs)
    model.compile("adam", loss={"p": "sparse_categorical_crossentropy", "q": keras.losses.BinaryCrossentropy(from_logits=True)})
    workload = record(model, "train")
    assert names(workload, 0)["nll_loss_forward"] == 1
    assert names(workload, 0)["binary_cross_entropy_with_logits"] == 1
    assert any("compiled with Adam" in note and "--optimizer adam" in note for note in workload.notes)
    assert not any("without a loss" in note for note in workload.notes)


@pytest.mark.parametrize(
    ("units", "activation", "expected"),
    [
        (10, "softmax", "sparse_categorical_crossentropy"),
        (10, None, "sparse_categorical_crossentropy"),
        (1, "sigmoid", "binary_crossentropy"),
        (1, None, "mean_squared_error"),
    ],
)
def test_a_model_without_a_loss_gets_the_usual_one_and_says_so(record, units, activation, expected):
    workload = record(keras.Sequential([keras.Input((4,)), layers.Dense(units, activation=activation)]), "train")
    assert any(expected in note for note in workload.notes)


def test_a_weight_penalty_is_work_of_the_loss(record):
    plain = record(keras.Sequential([keras.Input((4,)), layers.Dense(5)]), "train")
    held = record(keras.Sequential([keras.Input((4,)), layers.Dense(5, kernel_regularizer="l2")]), "train")
    assert kinds(held, 0)["reduction"] > kinds(plain, 0)["reduction"]


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [("adam", "adam"), ("adamw", "adamw"), ("sgd", "sgd"), (None, None), ("lion", "lion")],
)
def test_the_compiled_optimizer_is_told(optimizer, expected):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5)])
    if optimizer is not None:
        model.compile(optimizer)
    assert source.compiled_optimizer(model) == expected


def test_momentum_is_told_from_plain_descent():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5)])
    model.compile(keras.optimizers.SGD(momentum=0.9))
    assert source.compiled_optimizer(model) == "momentum"


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = layers.Dense(16, activation=lambda x: ops.relu(x) ** 2), layers.Dense(3)

    def call(self, x, training=None):
        return self.out(self.hidden(x))


def test_a_subclassed_model_needs_its_input_and_takes_it(record):
    with pytest.raises(BadValue) as error:
        record(Subclassed())
    assert "--input" in error.value.hint
    workload = record(Subclassed(), inputs=(parse_input("x=batch,8"),))
    assert workload.parameters == 8 * 16 + 16 + 16 * 3 + 3
    assert flops(workload) == 2 * (8 * 16 + 16 * 3)


def test_a_sequential_model_without_input_takes_it_by_hand(record):
    model = keras.Sequential([layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)])
    assert kinds(record(model, inputs=(parse_input("x=batch,28,28,1"),)))["conv"] == 1


def test_images_of_any_size_are_taken_at_the_size_asked_for(record):
    x = keras.Input((None, None, 3))
    model = keras.Model(x, layers.Conv2D(4, 3, padding="same")(x))
    assert flops(record(model, image=64)) == 64 * 64 * 2 * 4 * 27
    assert flops(record(model)) == 224 * 224 * 2 * 4 * 27


# ---------------------------------------------------------------- what is refused


def test_a_fixed_batch_is_refused(record):
    x = keras.Input(batch_shape=(32, 8))
    with pytest.raises(BadValue, match="only accepts batches of 32"):
        record(keras.Model(x, layers.Dense(3)(x)))


def test_inputs_that_no_gpu_takes_are_refused(record):
    x = keras.Input((1,), dtype="string")
    with pytest.raises(BadValue, match="string"):
        record(keras.Model(x, layers.Identity()(x)))


def test_a_wrong_number_of_inputs_is_refused(record):
    with pytest.raises(BadValue, match=r"1 input \(\w+\), but 2 were given"):
        record(
            keras.Sequential([keras.Input((4,)), layers.Dense(5)]), inputs=(parse_input("a=batch,4"), parse_input("b=batch,4"))
        )


def test_training_without_weights_to_train_is_refused(record):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5)])
    model.trainable = False
    with pytest.raises(BadValue, match="no weights to train"):
        record(model, "train")


def test_something_else_is_refused():
    with pytest.raises(BadValue, match=r"not a Keras \S+ model"):
        source.subject_from_model(object(), Request(model="x.py:build"))


def test_a_missing_keras_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(MissingExtra) as error:
        source.subject(Request(model="keras:ResNet50"))
    assert "gpuwise[keras]" in error.value.hint


# ---------------------------------------------------------------- the backend


@pytest.fixture
def before_keras(monkeypatch, tmp_path):
    """As if Keras had not been imported yet, in an empty home."""
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "")
    return tmp_path


def test_a_backend_that_is_installed_is_kept(before_keras, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert keras_backend.choose_backend() == ""


def test_a_backend_that_is_missing_is_replaced_and_said(before_keras, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "no_such_backend")
    assert "no_such_backend is not installed" in keras_backend.choose_backend()
    assert os.environ["KERAS_BACKEND"] == "torch"


def test_the_backend_of_the_configuration_file_is_read(before_keras):
    (before_keras / "keras.json").write_text(json.dumps({"backend": "jax"}))
    assert keras_backend.configured_backend() == "jax"
    (before_keras / "keras.json").write_text(json.dumps({"backend": "tensorflow"}))  # which Keras writes by itself
    assert keras_backend.configured_backend() is None
    (before_keras / "keras.json").write_text("{not json")
    assert keras_backend.configured_backend() is None


def test_the_backend_does_not_change_the_workload():
    """Where another backend is installed too, it reads the same graph."""
    other = next((name for name in ("jax", "tensorflow") if importlib.util.find_spec(name)), None)
    if other is None or other == keras.config.backend():
        pytest.skip("only one backend is installed")
    code = (
        "import hashlib\n"
        "from gpuwise.workload.store import files\n"
        "from gpuwise.workload.capture.worker import record\n"
        "from gpuwise.workload.capture.request import Request\n"
        "print(hashlib.sha256(files.encode(record(Request(model='keras:MobileNetV2')))).hexdigest())\n"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=os.environ | {"KERAS_BACKEND": name},
        ).stdout
        for name in (keras.config.backend(), other)
    ]
    assert answers[0] == answers[1]
