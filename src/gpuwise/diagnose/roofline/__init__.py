"""Ops of known size against what the kernel models and the limits of the GPU say of them."""
