"""Records PyTorch modules on fake tensors, without a GPU, weights or arithmetic. Imported only for captures."""
