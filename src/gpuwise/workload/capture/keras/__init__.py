"""Keras 3 models, translated layer by layer."""
