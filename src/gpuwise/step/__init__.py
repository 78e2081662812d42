"""Predicts the time and memory of one step on one GPU."""
