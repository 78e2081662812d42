"""One file for each kind of op: everything that gpuwise knows of it. `kernels/registry.py` lists them."""
