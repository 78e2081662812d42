"""Stored workloads: the zoo, workload files, and the cache of captures."""
