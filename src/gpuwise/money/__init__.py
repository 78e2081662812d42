"""What computing costs: prices with dates, ownership, rent, electricity, carbon. Independent of kernels and models."""
