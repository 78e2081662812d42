"""Samples the GPUs, the host and the steps of a running job."""
