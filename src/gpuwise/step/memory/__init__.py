"""Predicts how much memory a step needs on one GPU, including what allocators and frameworks take."""
