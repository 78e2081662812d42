"""How long one op takes on one GPU."""
