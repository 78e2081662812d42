"""Samples GPUs, hosts and steps of a running job."""
