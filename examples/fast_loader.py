"""Fixed: four workers read ahead."""

from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train

if __name__ == "__main__":
    train(DataLoader(Samples(0.0008), batch_size=BATCH, num_workers=4, prefetch_factor=4), perceptron(1024, 4))
