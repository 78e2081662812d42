"""Fixed: the model processes the whole batch at once."""

from keras_training import Samples, perceptron, train

if __name__ == "__main__":
    train(Samples(), perceptron(64, 8))
