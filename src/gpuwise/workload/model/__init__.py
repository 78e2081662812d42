"""What a workload is, and the arithmetic on one: FLOPs, bytes, sizes by batch and sequence."""
