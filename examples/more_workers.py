"""Fixed: six workers read the samples."""

from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train

if __name__ == "__main__":
    train(DataLoader(Samples(0.0015), batch_size=BATCH, num_workers=6, prefetch_factor=4), perceptron(1024, 4))
