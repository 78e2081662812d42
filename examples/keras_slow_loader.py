"""Slow: batches are read one after another, between the steps."""

from keras_training import Samples, perceptron, train

if __name__ == "__main__":
    train(Samples(0.06), perceptron(1024, 4))
