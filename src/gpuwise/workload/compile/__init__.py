"""Models what torch.compile would launch instead of the recorded eager calls."""
