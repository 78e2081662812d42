"""gpuwise: which GPU should I get, and why is mine slow?

`gpuwise.watch` is both a package and, called, the function that watches this program (`report/watch_here.py`). Nothing heavy is
imported before the call.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.report.watch_here import watch
else:
    from gpuwise import watch

    class _Callable(ModuleType):
        """A module that can be called, as the data model allows: its `__class__` is set."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            from gpuwise.report.watch_here import watch as begin

            return begin(*args, **kwargs)

    watch.__class__ = _Callable

__all__ = ["__version__", "watch"]

__version__ = "0.1.0"
