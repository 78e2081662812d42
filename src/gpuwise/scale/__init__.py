"""Several GPUs on one step: clusters, collectives, data parallelism."""
