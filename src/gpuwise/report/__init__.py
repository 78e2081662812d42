"""Makes answers visible. Computes nothing of its own."""
