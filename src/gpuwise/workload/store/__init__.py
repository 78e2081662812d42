"""Workloads at rest: the zoo, workload files, the cache of captures."""
