"""Predicts how long one op takes on one GPU."""
