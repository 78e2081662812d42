"""Hugging Face transformers models, built from their configuration alone."""
