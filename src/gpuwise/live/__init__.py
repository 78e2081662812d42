"""Looks at the machine gpuwise runs on: samples of a running job, measurements of its devices, settings tried on them."""
