"""What computing costs: prices with dates, ownership, rent, electricity, carbon. Knows no kernels."""
