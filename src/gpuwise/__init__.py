"""gpuwise: which GPU should I get, and why is mine slow?

    >>> import gpuwise
    >>> answer = gpuwise.predict("resnet50", gpu="RTX 3090", batch=64)
    >>> answer.results[0].bound
    'memory'

Each command is also a function that takes the same option names. Its result prints as text, displays in a notebook, and returns
the same JSON as the command with `to_dict()`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuwise.questions.registry import QUESTIONS

if TYPE_CHECKING:
    from gpuwise.questions.bench.answer import bench as bench
    from gpuwise.questions.build.answer import build as build
    from gpuwise.questions.capture.answer import capture as capture
    from gpuwise.questions.charts.answer import charts as charts
    from gpuwise.questions.compare.answer import compare as compare
    from gpuwise.questions.cost.answer import cost as cost
    from gpuwise.questions.doctor.answer import doctor as doctor
    from gpuwise.questions.fit.answer import fit as fit
    from gpuwise.questions.gpus.answer import gpus as gpus
    from gpuwise.questions.matters.answer import matters as matters
    from gpuwise.questions.models.answer import models as models
    from gpuwise.questions.plan.answer import plan as plan
    from gpuwise.questions.predict.answer import predict as predict
    from gpuwise.questions.prices.answer import prices as prices
    from gpuwise.questions.sweep.answer import sweep as sweep
    from gpuwise.questions.tune.answer import tune as tune
    from gpuwise.questions.validate.answer import validate as validate
    from gpuwise.questions.watch.face import watch as watch
    from gpuwise.questions.which.answer import which as which
    from gpuwise.questions.why.answer import why as why

__all__ = ["__version__", *QUESTIONS]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import each question when it is first used."""
    if name == "watch":
        return import_module("gpuwise.questions.watch.face").watch
    if name in QUESTIONS:
        return getattr(import_module(f"gpuwise.questions.{name}.answer"), name)
    raise AttributeError(f"module 'gpuwise' has no attribute '{name}'")
