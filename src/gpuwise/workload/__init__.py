"""What a model needs from a GPU: its ops with shapes, bytes, FLOPs and tensor lifetimes, and how to capture them."""
