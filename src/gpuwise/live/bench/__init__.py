"""Measures this machine's device: the speeds of matrix products, kernels, copies, the disk and the image decoder."""
