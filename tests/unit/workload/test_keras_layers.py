"""Every Keras layer is the GPU work it stands for, with the shapes and weights it has in Keras."""

from __future__ import annotations

import pytest
from keras_recording import flops, keras, kinds, record

from gpuwise.workload.capture.keras import backend as keras_backend
from gpuwise.workload.model import evaluate

__all__ = ["record"]
pytestmark = pytest.mark.filterwarnings("default")
layers, ops = keras.layers, keras.ops

# ---------------------------------------------------------------- recurrent networks and attention


def test_an_lstm_classifier_is_whole_rnn_calls(record):
    model = keras.Sequential(
        [keras.Input((None,), dtype="int32"), layers.Embedding(1000, 64), layers.LSTM(128), layers.Dense(1, activation="sigmoid")]
    )
    workload = record(model, "train")
    assert kinds(workload, 0)["rnn"] == kinds(workload, 1)["rnn"] == 1
    assert workload.symbols == ("batch", "seq")
    assert workload.parameters == model.count_params() == 1000 * 64 + 4 * 128 * (64 + 128 + 1) + 129
    assert flops(workload, 3, 50) == 3 * 50 * 2 * 4 * 128 * (64 + 128) + 3 * 2 * 128


def test_a_gru_keeps_both_biases(record):
    model = keras.Sequential([keras.Input((7, 5)), layers.GRU(4, return_sequences=True, go_backwards=True)])
    workload = record(model)
    assert workload.parameters == model.count_params()
    assert kinds(workload)["rnn"] == 1


@pytest.mark.parametrize("merge", ["concat", "sum", "ave", "mul"])
def test_bidirectional_layers_are_rnn_calls(record, merge):
    inner = layers.LSTM(6, return_sequences=True)
    model = keras.Sequential(
        [keras.Input((9, 5)), layers.Bidirectional(inner, merge_mode=merge), layers.Bidirectional(layers.GRU(3, dropout=0.1))]
    )
    workload = record(model, "train")
    calls = [workload.ops[call.op] for call in workload.calls if call.phase == 0 and workload.ops[call.op].kind == "rnn"]
    assert len(calls) in (3, 4)  # one call for both directions where Keras fuses them, two with dropout
    assert workload.parameters == model.count_params()


def test_states_pass_from_an_encoder_to_a_decoder(record):
    source_text, target_text = keras.Input((None, 10)), keras.Input((None, 12))
    _, *states = layers.LSTM(16, return_state=True)(source_text)
    decoded = layers.LSTM(16, return_sequences=True)(target_text, initial_state=states)
    workload = record(keras.Model([source_text, target_text], layers.Dense(12, activation="softmax")(decoded)), "train")
    assert kinds(workload, 1)["rnn"] == 2
    assert workload.symbols == ("batch", "seq")


@pytest.mark.parametrize(
    "layer", ["SimpleRNN(8)", "LSTM(8, activation='relu')", "GRU(8, reset_after=False)", "LSTM(8, recurrent_dropout=0.1)"]
)
def test_cells_without_a_cudnn_kernel_run_step_by_step(record, layer):
    recurrent = eval(f"layers.{layer}", {"layers": layers})  # noqa: S307
    workload = record(keras.Sequential([keras.Input((6, 4)), recurrent]), "train")
    assert "rnn" not in kinds(workload)
    assert kinds(workload, 0)["matmul"] >= 12
    assert any(recurrent.name in note and "step by step" in note for note in workload.notes)
    assert workload.symbols == ("batch",)


class Positions(layers.Layer):
    """Token and position embeddings, as in the Keras examples."""

    def __init__(self, length, width):
        super().__init__()
        self.tokens, self.positions = layers.Embedding(1000, width), layers.Embedding(length, width)

    def call(self, x):
        return self.tokens(x) + self.positions(ops.arange(0, ops.shape(x)[-1]))


class Encoder(layers.Layer):
    """A transformer block, as in the Keras examples."""

    def __init__(self, width, heads, rate=0.1, **attention):
        super().__init__()
        self.attention = layers.MultiHeadAttention(heads, width // heads, **attention)
        self.feed = keras.Sequential([layers.Dense(4 * width, activation="relu"), layers.Dense(width)])
        self.first, self.second = layers.LayerNormalization(), layers.LayerNormalization()
        self.dropout = layers.Dropout(rate)

    def call(self, x, training=None):
        x = self.first(x + self.dropout(self.attention(x, x), training=training))
        return self.second(x + self.dropout(self.feed(x), training=training))


def transformer(length=256, **attention):
    tokens = keras.Input((None,), dtype="int32")
    encoded = Encoder(32, 4, **attention)(Positions(length, 32)(tokens))
    return keras.Model(tokens, layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(encoded)))


def test_a_small_transformer_has_whole_attention(record):
    model = transformer()
    workload = record(model, "train")
    assert kinds(workload, 0)["attention"] == kinds(workload, 1)["attention"] == 1
    assert kinds(workload, 0)["norm"] == 2
    assert kinds(workload, 0)["embedding"] == kinds(workload, 1)["embedding"] == 2  # positions are looked up and trained too
    assert workload.parameters == model.count_params()
    assert workload.symbols == ("batch", "seq")
    seq, width = 50, 32
    products = seq * 2 * (4 * width * width + 2 * 4 * width * width) + 2 * width * 2
    assert flops(workload, 3, seq) == 3 * (products + 4 * seq * seq * width)


def test_attention_with_dropout_is_the_products_that_keras_runs(record):
    workload = record(transformer(dropout=0.1), "train")
    assert "attention" not in kinds(workload)
    assert kinds(workload, 0)["softmax"] == 2


def test_a_mask_reaches_attention(record):
    tokens = keras.Input((16,), dtype="int32")
    embedded = layers.Embedding(100, 32, mask_zero=True)(tokens)
    workload = record(keras.Model(tokens, layers.MultiHeadAttention(4, 8)(embedded, embedded)))
    assert [op.attrs["mask"] for op in workload.ops if op.kind == "attention"] == [True]


def test_causal_attention_is_said_to_be_causal(record):
    x = keras.Input((16, 32))
    workload = record(keras.Model(x, layers.GroupQueryAttention(8, 8, 2)(x, x, use_causal_mask=True)))
    (attention,) = [op for op in workload.ops if op.kind == "attention"]
    assert attention.attrs["causal"] or attention.attrs["mask"]


# ---------------------------------------------------------------- layers of all kinds (every shape is held against Keras')


def image_layers():
    x = y = keras.Input((32, 32, 3))
    for layer in (
        layers.Conv2D(8, 3, 2, padding="same"),
        layers.Conv2D(8, 3, padding="same", groups=4, dilation_rate=2),
        layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same", strides=2),
        layers.SeparableConv2D(16, 3, padding="same", activation="swish"),
        layers.Conv2DTranspose(8, 3, 2, padding="same"),
        layers.Conv2DTranspose(8, 4, 3),
        layers.Conv2DTranspose(8, 2, 3, padding="same", output_padding=1),
        layers.MaxPooling2D(3, 2, padding="same"),
        layers.AveragePooling2D(3, 2, padding="same"),
        layers.UpSampling2D(2, interpolation="bilinear"),
        layers.Cropping2D(((1, 2), (3, 0))),
        layers.ZeroPadding2D(((0, 1), (2, 0))),
        layers.GroupNormalization(4),
        layers.SpatialDropout2D(0.1),
        layers.GaussianNoise(0.1),
        layers.GaussianDropout(0.1),
        layers.AlphaDropout(0.1),
        layers.LeakyReLU(),
        layers.ELU(),
        layers.PReLU(),
        layers.PReLU(shared_axes=[1, 2]),
        layers.ReLU(6.0),
        layers.Activation("gelu"),
        layers.UnitNormalization(),
        layers.Rescaling(1 / 255, offset=-1),
        layers.Permute((3, 1, 2)),
        layers.Flatten(),
        layers.RepeatVector(3),
        layers.Reshape((-1, 3)),
        layers.GlobalMaxPooling1D(),
    ):
        y = layer(y)
    return keras.Model(x, y)


def sequence_and_volume_layers():
    x = y = keras.Input((64, 3))
    v = z = keras.Input((8, 16, 16, 2))
    for layer in (
        layers.Conv1D(8, 3, padding="causal", dilation_rate=2),
        layers.Conv1D(8, 3, 2, padding="same"),
        layers.MaxPooling1D(2),
        layers.AveragePooling1D(3, 2, padding="same"),
        layers.SeparableConv1D(8, 3),
        layers.DepthwiseConv1D(3),
        layers.Conv1DTranspose(8, 3, 2),
        layers.UpSampling1D(2),
        layers.ZeroPadding1D(1),
        layers.Cropping1D(1),
        layers.SpatialDropout1D(0.1),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling1D(),
    ):
        y = layer(y)
    for layer in (
        layers.Conv3D(4, 3, 2, padding="same"),
        layers.Conv3DTranspose(4, 3, 2, padding="same"),
        layers.MaxPooling3D(2),
        layers.AveragePooling3D(2, padding="same"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling3D(),
    ):
        z = layer(z)
    return keras.Model([x, v], [y, z])


def channels_first():
    x = keras.Input((3, 32, 32))
    y = layers.Conv2D(8, 3, padding="same", strides=2, data_format="channels_first")(x)
    y = layers.MaxPooling2D(2, data_format="channels_first")(layers.BatchNormalization(axis=1)(y))
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D(data_format="channels_first")(y)))


def operations():
    x = keras.Input((10, 6))
    y = (x - ops.mean(x, axis=1, keepdims=True)) / ops.sqrt(ops.var(x, axis=1, keepdims=True) + 1e-6)
    y = ops.softmax(ops.matmul(x, ops.transpose(ops.relu(y) * 2 - 1, (0, 2, 1))))
    y = ops.reshape(y, (-1, 100))
    y = ops.clip(1 - ops.maximum(ops.where(y > 0, y, 0.0), 0.5), 0, 1)
    y = ops.max(ops.stack([y, y], 1), 1)
    a, b = ops.split(ops.concatenate([y, y[:, :10]], axis=-1), 2, axis=-1)
    y = ops.pad(ops.squeeze(ops.expand_dims(ops.einsum("bi,bj->bij", a, b), -1), -1), ((0, 0), (1, 1), (0, 0)))
    y = ops.sum(y, axis=(1,))
    y = ops.one_hot(ops.argmax(y, -1), 7) + ops.power(ops.exp(-ops.abs(y[:, :7])), 2)
    return keras.Model(x, layers.Dense(3)(ops.repeat(ops.tile(y, (1, 2)), 2, axis=1)))


def merges():
    a, b = keras.Input((8,), name="a"), keras.Input((8,), name="b")
    parts = [
        kind()([a, b]) for kind in (layers.Add, layers.Multiply, layers.Subtract, layers.Average, layers.Maximum, layers.Minimum)
    ]
    return keras.Model([a, b], layers.Dense(3)(layers.Concatenate()([*parts, layers.Dot(axes=1)([a, b])])))


def stacked_cells():
    return keras.Sequential([keras.Input((6, 8)), layers.RNN([layers.LSTMCell(4), layers.GRUCell(5)]), layers.Dense(5)])


def recurrent_convolution():
    return keras.Sequential(
        [keras.Input((4, 16, 16, 3)), layers.ConvLSTM2D(8, 3, padding="same"), layers.Flatten(), layers.Dense(5)]
    )


def every_step():
    inner = keras.Sequential([layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(8)])
    return keras.Sequential([keras.Input((None, 8, 8, 3)), layers.TimeDistributed(inner), layers.LSTM(4)])


def norms_and_einsums():
    x = keras.Input((4, 6, 8))
    y = layers.LayerNormalization(axis=1)(layers.LayerNormalization(axis=[1, 2])(x))
    y = layers.EinsumDense("abcd,de->abce", output_shape=(None, None, 5), bias_axes="e")(y)
    return keras.Model(x, layers.Masking()(layers.EinsumDense("...x,xy->...y", output_shape=3)(y)))


def attentions():
    x = keras.Input((16, 32))
    return keras.Model(x, layers.AdditiveAttention()([layers.Attention(use_scale=True)([x, x]), x]))


MODELS = (
    image_layers,
    sequence_and_volume_layers,
    channels_first,
    operations,
    merges,
    stacked_cells,
    recurrent_convolution,
    every_step,
    norms_and_einsums,
    attentions,
)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(("mode", "precision"), [("train", "fp32"), ("train", "amp"), ("infer", "fp32")])
def test_layers_keep_the_shapes_and_weights_they_have_in_keras(record, make, mode, precision):
    model = make()
    workload = record(model, mode, precision)
    assert workload.parameters == model.count_params()
    assert "batch" in workload.symbols
    assert "other" not in kinds(workload)
    assert not any("is unknown" in note for note in workload.notes)


def test_padding_that_only_feeds_a_convolution_is_part_of_it(record):
    x = keras.Input((32, 32, 3))
    folded = record(keras.Model(x, layers.Conv2D(4, 7, 2)(layers.ZeroPadding2D(3)(x))))
    assert kinds(folded)["copy"] == 0
    uneven = record(keras.Model(x, layers.Conv2D(4, 3, 2)(layers.ZeroPadding2D(((0, 1), (0, 1)))(x))))
    assert kinds(uneven)["copy"] == 1
    padded = layers.ZeroPadding2D(1)(x)
    twice = record(keras.Model(x, [layers.Conv2D(4, 3)(padded), padded]))
    assert kinds(twice)["copy"] == 1


def test_same_padding_that_is_not_symmetric_pads_first(record):
    x = keras.Input((32, 32, 3))
    assert kinds(record(keras.Model(x, layers.Conv2D(4, 3, 2, padding="same")(x))))["copy"] == 1
    assert kinds(record(keras.Model(x, layers.Conv2D(4, 3, 1, padding="same")(x))))["copy"] == 0


# ---------------------------------------------------------------- the user's own layers


class Scaled(layers.Layer):
    """Weights used in every way a layer may: sliced, transposed, on either side of an operator."""

    def build(self, shape):
        self.square = self.add_weight(shape=(shape[-1], shape[-1]), name="square")
        self.scale = self.add_weight(shape=(64, shape[-1]), name="scale")

    def call(self, x):
        return self.scale[: ops.shape(x)[1]] * ops.matmul(x, ops.transpose(self.square))


def test_a_layer_of_the_users_own_is_opened_and_its_weights_are_trained(record):
    x = keras.Input((10, 6))
    model = keras.Model(x, Scaled()(x))
    workload = record(model, "train")
    assert flops(workload) == 10 * 2 * 6 * 6
    assert kinds(workload, 1)["matmul"] == 1
    assert workload.parameters == model.count_params()
    (update,) = {op.sizes for op in workload.ops if op.kind == "optimizer"}
    assert evaluate.product_values(workload, 1)[0, update[0]] == model.count_params()


def test_a_table_of_positions_that_ends_is_captured_within_it(record):
    x = keras.Input((None, 6))
    with keras_backend.without_weights():  # Keras infers the shape with a length of its own making
        layer = Scaled()
        layer.compute_output_shape = lambda shape: shape
        model = keras.Model(x, layer(x))
    workload = record(model)
    assert workload.symbols == ("batch", "seq")
    assert workload.seq <= 64
    assert flops(workload, 1, 20) == 20 * 2 * 6 * 6


def test_lambdas_are_opened(record):
    x = keras.Input((10,))
    workload = record(keras.Model(x, layers.Lambda(lambda t: ops.concatenate([t * 2, t], -1))(x)))
    assert kinds(workload) == {"elementwise": 1, "copy": 1}


class Opaque(layers.Layer):
    """Does what no trace can follow."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 5), name="kernel")

    def call(self, x):
        raise NotImplementedError("only on a GPU")

    def compute_output_shape(self, shape):
        return (*shape[:-1], 5)


def test_a_layer_that_cannot_be_opened_moves_bytes_and_is_named(record):
    x = keras.Input((10,))
    model = keras.Model(x, layers.Dense(3)(Opaque(name="odd_one")(layers.Dense(10)(x))))
    workload = record(model, "train")
    assert (kinds(workload, 0)["other"], kinds(workload, 1)["other"]) == (1, 2)  # backward for its input and for its weight
    assert any("'odd_one' (Opaque) is unknown" in note and "only on a GPU" in note for note in workload.notes)
    assert workload.parameters == model.count_params()
    assert kinds(workload, 1)["matmul"] == 3  # the gradient goes through it to the first layer
