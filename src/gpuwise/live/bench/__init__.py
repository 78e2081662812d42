"""Measures this machine's device: what its matrix products, kernels, copies, disk and decoder reach."""
