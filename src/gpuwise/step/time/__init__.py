"""Predicts how long a step takes on one GPU."""
