"""gpuwise: which GPU should I get, and why is mine slow?"""

from typing import Any

__all__ = ["__version__", "watch"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Nothing heavy is imported before it is asked for."""
    if name == "watch":
        from gpuwise.questions.watch.face import watch

        return watch
    raise AttributeError(f"module 'gpuwise' has no attribute '{name}'")
