"""Checks whether GPUs fit in a machine and can be powered and cooled there; each check has a number and a remedy."""
