"""Compares ops of known size with the kernel models and the limits of the GPU."""
