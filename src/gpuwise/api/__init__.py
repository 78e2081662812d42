"""The questions gpuwise answers, as Python functions. The command line and the web page are thin shells around them.

Each question's module is imported when it is first asked, so that a light question stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.api.benching import BenchAnswer, bench
    from gpuwise.api.building import BuildAnswer, build, build_query
    from gpuwise.api.charting import ChartRow, ChartsAnswer, ChartsQuery, charts
    from gpuwise.api.checkup import CheckedGpu, Checkup, doctor
    from gpuwise.api.choosing import WhichAnswer, which
    from gpuwise.api.compare_jobs import Job
    from gpuwise.api.comparisons import CompareAnswer, Pair, compare
    from gpuwise.api.cost_question import CostQuery, cost_query
    from gpuwise.api.costs import BreakEven, CostAnswer, JobCost, cost
    from gpuwise.api.diagnosis import WhyAnswer, why
    from gpuwise.api.fitting import Fit, FitAnswer, FitQuery, fit, fit_query
    from gpuwise.api.fitting_catalogue import CatalogueFit, CatalogueRow, catalogue_query, fit_catalogue
    from gpuwise.api.grids import GridAnswer, is_grid, predict_grid
    from gpuwise.api.hardware import GpuAnswer, GpuQuery, gpus
    from gpuwise.api.many.fleet import Diagnosed, FleetAnswer, why_each
    from gpuwise.api.many.sweep import SweptAnswer, sweep_models
    from gpuwise.api.many.sweep_question import SweepQuery, sweep_query
    from gpuwise.api.plan_answer import PlanAnswer, PlanEntry
    from gpuwise.api.plan_question import PlanQuery, plan_query
    from gpuwise.api.planning import plan
    from gpuwise.api.predictions import OpShare, PredictAnswer, Prediction, predict, predict_query
    from gpuwise.api.price_lists import PricesAnswer, prices, refresh_prices
    from gpuwise.api.sweeps import SweepAnswer, SweepPoint, sweep
    from gpuwise.api.topics.registry import MattersAnswer, matters
    from gpuwise.api.tune_answer import MeasuredAnswer
    from gpuwise.api.tune_measuring import tune_measured
    from gpuwise.api.tune_powering import PowerAnswer, power_query, tune_power
    from gpuwise.api.tune_question import TuneQuery, tune_query
    from gpuwise.api.tuning import TuneAnswer, tune
    from gpuwise.api.validation import ValidateAnswer, validate
    from gpuwise.api.watching import WatchAnswer, watch_command, watch_pid
    from gpuwise.api.watching_cluster import ClusterAnswer, watch_cluster
    from gpuwise.api.watching_here import Watch
    from gpuwise.api.which_question import WhichQuery, which_query
    from gpuwise.api.workloads import CaptureAnswer, CaptureQuery, KindRow, capture, capture_query

__all__ = [
    "BenchAnswer",
    "BreakEven",
    "BuildAnswer",
    "CaptureAnswer",
    "CaptureQuery",
    "CatalogueFit",
    "CatalogueRow",
    "ChartRow",
    "ChartsAnswer",
    "ChartsQuery",
    "CheckedGpu",
    "Checkup",
    "ClusterAnswer",
    "CompareAnswer",
    "CostAnswer",
    "CostQuery",
    "Diagnosed",
    "Fit",
    "FitAnswer",
    "FitQuery",
    "FleetAnswer",
    "GpuAnswer",
    "GpuQuery",
    "GridAnswer",
    "Job",
    "JobCost",
    "KindRow",
    "MattersAnswer",
    "MeasuredAnswer",
    "OpShare",
    "Pair",
    "PlanAnswer",
    "PlanEntry",
    "PlanQuery",
    "PowerAnswer",
    "PredictAnswer",
    "Prediction",
    "PricesAnswer",
    "SweepAnswer",
    "SweepPoint",
    "SweepQuery",
    "SweptAnswer",
    "TuneAnswer",
    "TuneQuery",
    "ValidateAnswer",
    "Watch",
    "WatchAnswer",
    "WhichAnswer",
    "WhichQuery",
    "WhyAnswer",
    "bench",
    "build",
    "build_query",
    "capture",
    "capture_query",
    "catalogue_query",
    "charts",
    "compare",
    "cost",
    "cost_query",
    "doctor",
    "fit",
    "fit_catalogue",
    "fit_query",
    "gpus",
    "is_grid",
    "matters",
    "plan",
    "plan_query",
    "power_query",
    "predict",
    "predict_grid",
    "predict_query",
    "prices",
    "refresh_prices",
    "sweep",
    "sweep_models",
    "sweep_query",
    "tune",
    "tune_measured",
    "tune_power",
    "tune_query",
    "validate",
    "watch_cluster",
    "watch_command",
    "watch_pid",
    "which",
    "which_query",
    "why",
    "why_each",
]

_HOMES = {
    "benching": ("BenchAnswer", "bench"),
    "building": ("BuildAnswer", "build", "build_query"),
    "charting": ("ChartRow", "ChartsAnswer", "ChartsQuery", "charts"),
    "checkup": ("CheckedGpu", "Checkup", "doctor"),
    "choosing": ("WhichAnswer", "which"),
    "compare_jobs": ("Job",),
    "comparisons": ("CompareAnswer", "Pair", "compare"),
    "cost_question": ("CostQuery", "cost_query"),
    "costs": ("BreakEven", "CostAnswer", "JobCost", "cost"),
    "diagnosis": ("WhyAnswer", "why"),
    "fitting": ("Fit", "FitAnswer", "FitQuery", "fit", "fit_query"),
    "fitting_catalogue": ("CatalogueFit", "CatalogueRow", "catalogue_query", "fit_catalogue"),
    "grids": ("GridAnswer", "is_grid", "predict_grid"),
    "hardware": ("GpuAnswer", "GpuQuery", "gpus"),
    "many.fleet": ("Diagnosed", "FleetAnswer", "why_each"),
    "many.sweep": ("SweptAnswer", "sweep_models"),
    "many.sweep_question": ("SweepQuery", "sweep_query"),
    "sweeps": ("SweepAnswer", "SweepPoint", "sweep"),
    "topics.registry": ("MattersAnswer", "matters"),
    "plan_answer": ("PlanAnswer", "PlanEntry"),
    "plan_question": ("PlanQuery", "plan_query"),
    "planning": ("plan",),
    "predictions": ("OpShare", "PredictAnswer", "Prediction", "predict", "predict_query"),
    "price_lists": ("PricesAnswer", "prices", "refresh_prices"),
    "tune_answer": ("MeasuredAnswer",),
    "tune_measuring": ("tune_measured",),
    "tune_powering": ("PowerAnswer", "power_query", "tune_power"),
    "tune_question": ("TuneQuery", "tune_query"),
    "tuning": ("TuneAnswer", "tune"),
    "validation": ("ValidateAnswer", "validate"),
    "watching": ("WatchAnswer", "watch_command", "watch_pid"),
    "watching_cluster": ("ClusterAnswer", "watch_cluster"),
    "watching_here": ("Watch",),
    "which_question": ("WhichQuery", "which_query"),
    "workloads": ("CaptureAnswer", "CaptureQuery", "KindRow", "capture", "capture_query"),
}


def __getattr__(name: str) -> Any:
    for module, exports in _HOMES.items():
        if name in exports:
            return getattr(import_module(f"gpuwise.api.{module}"), name)
    raise AttributeError(f"module 'gpuwise.api' has no attribute '{name}'")
