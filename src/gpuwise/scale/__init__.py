"""Many GPUs on one step: clusters, ways to split the work, and plans."""
