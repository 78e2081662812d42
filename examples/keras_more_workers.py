"""Fixed: six processes read ahead."""

from keras_training import Samples, perceptron, train

if __name__ == "__main__":
    train(Samples(0.12, workers=6, use_multiprocessing=True, max_queue_size=12), perceptron(1024, 4))
