"""Slow: a single process reads ahead and cannot keep up."""

from keras_training import Samples, perceptron, train

if __name__ == "__main__":
    train(Samples(0.12, workers=1, use_multiprocessing=True), perceptron(1024, 4))
