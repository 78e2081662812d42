"""Fixed: four threads read ahead."""

from keras_training import Samples, perceptron, train

if __name__ == "__main__":
    train(Samples(0.06, workers=4, max_queue_size=10), perceptron(1024, 4))
