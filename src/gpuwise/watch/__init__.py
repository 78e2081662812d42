"""Looks at the machine gpuwise runs on."""
