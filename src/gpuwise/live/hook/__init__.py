"""What runs inside the watched process. Needs the standard library only: the process may have a Python without gpuwise."""
