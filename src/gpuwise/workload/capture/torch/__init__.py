"""Records PyTorch modules on fake tensors: no GPU, no weights, no arithmetic. Imported only when something is captured."""
