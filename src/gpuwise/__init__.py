"""gpuwise: which GPU should I get, and why is mine slow?"""

__all__ = ["__version__"]

__version__ = "0.1.0"
