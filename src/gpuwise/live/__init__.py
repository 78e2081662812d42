"""The machine gpuwise runs on: samples a running job, measures its devices, and tries settings on them."""
