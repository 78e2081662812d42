"""Models of Keras 3, translated layer by layer."""
