"""The cost of computing: dated prices, owning, renting, electricity, carbon. Independent of kernels and models."""
