"""gpuwise: which GPU should I get, and why is mine slow?

    >>> import gpuwise
    >>> answer = gpuwise.predict("resnet50", gpu="RTX 3090", batch=64)
    >>> answer.results[0].bound
    'memory'

Each question is a function with the names of the command line's options; its answer prints as text, shows itself in a notebook,
and gives the command's JSON with `to_dict()`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.questions.bench.answer import bench
    from gpuwise.questions.build.answer import build
    from gpuwise.questions.capture.answer import capture
    from gpuwise.questions.charts.answer import charts
    from gpuwise.questions.compare.answer import compare
    from gpuwise.questions.cost.answer import cost
    from gpuwise.questions.doctor.answer import doctor
    from gpuwise.questions.fit.answer import fit
    from gpuwise.questions.gpus.answer import gpus
    from gpuwise.questions.matters.answer import matters
    from gpuwise.questions.plan.answer import plan
    from gpuwise.questions.predict.answer import predict
    from gpuwise.questions.prices.answer import prices
    from gpuwise.questions.sweep.answer import sweep
    from gpuwise.questions.tune.answer import tune
    from gpuwise.questions.validate.answer import validate
    from gpuwise.questions.watch.face import watch
    from gpuwise.questions.which.answer import which
    from gpuwise.questions.why.answer import why

__all__ = [
    "__version__",
    "bench",
    "build",
    "capture",
    "charts",
    "compare",
    "cost",
    "doctor",
    "fit",
    "gpus",
    "matters",
    "plan",
    "predict",
    "prices",
    "sweep",
    "tune",
    "validate",
    "watch",
    "which",
    "why",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Nothing heavy is imported before it is asked for."""
    if name == "watch":
        return import_module("gpuwise.questions.watch.face").watch
    if name in __all__:
        return getattr(import_module(f"gpuwise.questions.{name}.answer"), name)
    raise AttributeError(f"module 'gpuwise' has no attribute '{name}'")
