"""Slow: after each batch, the weights of the last layer are read one by one."""

from keras_training import Samples, keras, perceptron, train


class Count(keras.callbacks.Callback):
    """Adds up weights, value by value."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.total = sum(value.item() for value in self.model.layers[1].kernel.value[:8].flatten())


if __name__ == "__main__":
    train(Samples(), perceptron(512, 4), [Count()])
