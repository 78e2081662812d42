"""Fits the constants of the kernel models, and values specific to software, hosts and tables, to published measurements."""
