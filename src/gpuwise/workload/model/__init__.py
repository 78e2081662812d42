"""The types for a workload and its arithmetic: FLOPs, bytes, and sizes by batch and sequence."""
