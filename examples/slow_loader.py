"""Slow: samples are read one after another, in the training process."""

from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train

if __name__ == "__main__":
    train(DataLoader(Samples(0.0008), batch_size=BATCH), perceptron(1024, 4))
