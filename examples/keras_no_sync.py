"""Fixed: the weights are added up as one tensor, and a single value is read."""

from keras_training import Samples, keras, perceptron, train


class Count(keras.callbacks.Callback):
    """Adds up weights as a tensor."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.total = self.model.layers[1].kernel.value[:8].sum().item()


if __name__ == "__main__":
    train(Samples(), perceptron(512, 4), [Count()])
