"""Slow: a single worker reads the samples and cannot keep up."""

from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train

if __name__ == "__main__":
    train(DataLoader(Samples(0.0015), batch_size=BATCH, num_workers=1), perceptron(1024, 4))
