"""Slow: the layers process a batch sixteen samples at a time."""

from typing import Any

from keras_training import BATCH, FEATURES, Samples, keras, perceptron, train


class Piecewise(keras.layers.Layer):
    """Processes the pieces of a batch one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = perceptron(64, 8)

    def call(self, batch: Any) -> Any:
        return keras.ops.concatenate([self.inner(batch[place : place + 16]) for place in range(0, BATCH, 16)])


if __name__ == "__main__":
    train(Samples(), keras.Sequential([keras.Input((FEATURES,), batch_size=BATCH), Piecewise()]))
