"""Clusters: their GPUs, the links between them, and how long messages take."""
