"""How long a step takes on one GPU."""
