"""The questions gpuwise answers, as Python functions. The command line and the web page are thin shells around them.

Each question's module is imported when it is first asked, so that a light question stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.questions.bench.answer import BenchAnswer
    from gpuwise.questions.capture.answer import CaptureAnswer, KindRow
    from gpuwise.questions.common.capturing import CaptureQuery
    from gpuwise.questions.common.diagnosis import WhyAnswer
    from gpuwise.questions.common.prediction_types import OpShare, PredictAnswer, Prediction
    from gpuwise.questions.common.predictions import predict
    from gpuwise.questions.doctor.answer import CheckedGpu, Checkup
    from gpuwise.questions.fit.answer import fit_step as fit
    from gpuwise.questions.fit.ask import FitQuery
    from gpuwise.questions.fit.catalogue import CatalogueFit, CatalogueRow, fit_catalogue
    from gpuwise.questions.fit.types import Fit, FitAnswer
    from gpuwise.questions.predict.batches import SweepAnswer, SweepPoint, sweep
    from gpuwise.questions.predict.grid import GridAnswer
    from gpuwise.questions.sweep.answer import SweptAnswer
    from gpuwise.questions.sweep.ask import SweepQuery
    from gpuwise.questions.tune.ask import TuneQuery
    from gpuwise.questions.tune.batch import TuneAnswer
    from gpuwise.questions.tune.power import PowerAnswer
    from gpuwise.questions.tune.types import MeasuredAnswer
    from gpuwise.questions.validate.answer import ValidateAnswer
    from gpuwise.questions.watch.cluster import ClusterAnswer
    from gpuwise.questions.watch.here import Watch
    from gpuwise.questions.watch.types import WatchAnswer
    from gpuwise.questions.why.fleet import Diagnosed, FleetAnswer

__all__ = [
    "BenchAnswer",
    "CaptureAnswer",
    "CaptureQuery",
    "CatalogueFit",
    "CatalogueRow",
    "CheckedGpu",
    "Checkup",
    "ClusterAnswer",
    "Diagnosed",
    "Fit",
    "FitAnswer",
    "FitQuery",
    "FleetAnswer",
    "GridAnswer",
    "KindRow",
    "MeasuredAnswer",
    "OpShare",
    "PowerAnswer",
    "PredictAnswer",
    "Prediction",
    "SweepAnswer",
    "SweepPoint",
    "SweepQuery",
    "SweptAnswer",
    "TuneAnswer",
    "TuneQuery",
    "ValidateAnswer",
    "Watch",
    "WatchAnswer",
    "WhyAnswer",
    "catalogue_query",
    "fit",
    "fit_catalogue",
    "fit_query",
    "predict",
    "predict_grid",
    "predict_query",
    "sweep",
]

_HOMES = {
    "questions.bench.answer": ("BenchAnswer",),
    "questions.doctor.answer": ("CheckedGpu", "Checkup"),
    "questions.common.diagnosis": ("WhyAnswer",),
    "questions.fit.types": ("Fit", "FitAnswer"),
    "questions.fit.ask": ("FitQuery",),
    "questions.fit.catalogue": ("CatalogueFit", "CatalogueRow", "fit_catalogue"),
    "questions.predict.grid": ("GridAnswer",),
    "questions.why.fleet": ("Diagnosed", "FleetAnswer"),
    "questions.sweep.answer": ("SweptAnswer",),
    "questions.sweep.ask": ("SweepQuery",),
    "questions.predict.batches": ("SweepAnswer", "SweepPoint", "sweep"),
    "questions.common.prediction_types": ("OpShare", "PredictAnswer", "Prediction"),
    "questions.common.predictions": ("predict",),
    "questions.tune.types": ("MeasuredAnswer",),
    "questions.tune.power": ("PowerAnswer",),
    "questions.tune.ask": ("TuneQuery",),
    "questions.tune.batch": ("TuneAnswer",),
    "questions.validate.answer": ("ValidateAnswer",),
    "questions.watch.answer": ("WatchAnswer",),
    "questions.watch.cluster": ("ClusterAnswer",),
    "questions.watch.types": ("WatchAnswer",),
    "questions.watch.here": ("Watch",),
    "questions.capture.answer": ("CaptureAnswer", "KindRow"),
    "questions.common.capturing": ("CaptureQuery",),
}


_RENAMED = {"compiled": "compile", "inputs": "input", "timeout_s": "timeout"}


def _named(asked: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(name, name): value for name, value in asked.items()}


def predict_query(**asked: Any) -> Any:
    """The question of `predict`."""
    from gpuwise.questions.predict.ask import ask
    from gpuwise.questions.predict.options import PredictOptions

    return ask(PredictOptions(**_named(asked)))


def predict_grid(**asked: Any) -> Any:
    """`predict` at several batches or precisions."""
    from gpuwise.questions.predict.grid import predict_grid as grid
    from gpuwise.questions.predict.options import PredictOptions

    return grid(PredictOptions(**_named(asked)))


def fit_query(**asked: Any) -> Any:
    """The question of `fit`."""
    from gpuwise.questions.fit.ask import ask
    from gpuwise.questions.fit.options import FitOptions

    return ask(FitOptions(**_named(asked)))


def catalogue_query(**asked: Any) -> Any:
    """The question of `fit --all`."""
    from gpuwise.questions.common.step_options import step_options
    from gpuwise.questions.fit.catalogue import catalogue_query as asked_of_all

    return asked_of_all(step_options(asked))


def __getattr__(name: str) -> Any:
    if name == "fit":
        from gpuwise.questions.fit.answer import fit_step

        return fit_step
    for module, exports in _HOMES.items():
        if name in exports:
            return getattr(import_module(f"gpuwise.{module}"), name)
    raise AttributeError(f"module 'gpuwise.api' has no attribute '{name}'")
