"""Models of Hugging Face transformers, from their configuration alone."""
