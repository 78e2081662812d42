"""How one step of a model unfolds on one GPU."""
