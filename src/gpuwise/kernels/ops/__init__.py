"""One file per kind of op, containing everything gpuwise knows about it. `kernels/registry.py` lists them."""
