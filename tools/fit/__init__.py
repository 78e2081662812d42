"""Fits the constants of the kernel models, and what belongs to software, hosts and tables, to published measurements."""
