"""How wide a prediction's range must be to hold eight of ten measurements, by kind of question.

The widths are conformal: quantiles of the errors of leave-one-GPU-out predictions for that kind of question. `tools/fit` writes
them with the number of rows behind each. No step was fitted for CPUs and some makers: their ranges are assumed, based on no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.core.text import both, either, the
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.step.time.setting import CPU_RANGE

__all__ = [
    "SURE",
    "TIED",
    "TRUST",
    "UNMEASURED_RANGE",
    "Range",
    "as_known",
    "change_range",
    "describe_doubts",
    "knows",
    "knows_vendor",
    "operator_range",
    "pair_range",
    "probability_above",
    "range_of",
    "ratio_range",
    "report_range",
    "step_range",
    "trust_of",
]

# How much of a measured deviation carries over to other GPUs: the value with the least error, counting every source and pair of
# GPUs once.
TRUST = 0.7
# The same for fitted software, by whether the setup (mode, precision, version, ...) and the GPU match the measurement. The fit
# already contains what a source's rows have in common, so the remaining deviation is mostly specific to that GPU or setup: these
# shares have the least error on left-out rows.
_TRUST_FITTED = {(True, True): 0.9, (True, False): 0.3, (False, True): 0.3, (False, False): 0.0}
_SPREAD_OF_ROWS, _SPREAD_OF_SOURCES = 0.14, 0.12  # in ln: the spread of rows with fitted software, and of sources
_TENTH = 1.2815515655446004  # standard deviations from the mean to the 90th percentile of a normal distribution
UNMEASURED_RANGE = (0.5, 2.5)  # assumed for a maker without GPUs in any fit: as wide as the widest range of the other makers


class Range(msgspec.Struct, frozen=True):
    """Measured over predicted time: the bounds that hold 80%, and how many rows say so. Without rows, they are assumed."""

    low: float
    high: float
    rows: int

    def widened(self, factor: float) -> Range:
        """Return the same range, this many times as wide on a log scale."""
        return Range(low=self.low**factor, high=self.high**factor, rows=self.rows)

    def around(self, other: Range) -> Range:
        """Return the range that contains both, with the smaller number of rows."""
        return Range(low=min(self.low, other.low), high=max(self.high, other.high), rows=min(self.rows, other.rows))


class _File(msgspec.Struct):
    generations: list[str]
    scales: dict[str, dict[str, float]]  # for known and unknown sources, by generation: 1 if none is given
    ranges: dict[str, Range]


@cache
def _file() -> _File:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "ranges.json").read_bytes(), type=_File)


def knows(gpu: Gpu) -> bool:
    """Return whether any GPU of the same generation was measured."""
    return gpu.architecture.generation in _file().generations


def knows_vendor(gpu: Gpu) -> bool:
    """Return whether any GPU from the same maker was measured."""
    return gpu.architecture.vendor in _vendors() and not gpu.is_cpu


@cache
def _vendors() -> frozenset[str]:
    known = _file().generations
    return frozenset(one.vendor for one in tables.architectures().values() if one.generation in known)


def step_range(gpu: Gpu, bound: str = "") -> Range:
    """Return the range for a step that a user asks about, with software that is not one of our sources."""
    if gpu.is_cpu:
        return _assumed(gpu)
    usual = range_of(known_generation=knows(gpu), known_stack=False, bound=bound)
    return as_known(usual, gpu, known_stack=False)


def as_known(usual: Range, gpu: Gpu, *, known_stack: bool) -> Range:
    """Return the range, widened for a maker or generation that is predicted less well or was never measured."""
    own = _of_maker(gpu)
    found = usual if own is None else usual.around(own)
    scales = _file().scales["known" if known_stack else "unknown"]
    return found.widened(1.0 if gpu.is_cpu else scales.get(gpu.architecture.generation, 1.0))


def _of_maker(gpu: Gpu) -> Range | None:
    """Return the extra error for GPUs from this maker, unless it is NVIDIA."""
    if knows_vendor(gpu):
        return _file().ranges.get(gpu.architecture.vendor.lower())
    return _assumed(gpu)


def _of_generation(gpu: Gpu) -> Range | None:
    """Return the extra error for GPUs from this maker, widened if this generation is predicted less accurately than the maker's
    other GPUs.
    """
    found = _of_maker(gpu)
    scale = _file().scales["unknown"].get(gpu.architecture.generation, 1.0)
    return found if found is None or gpu.is_cpu else found.widened(scale)


def trust_of(*, same_setup: bool, same_gpu: bool, fitted: bool) -> float:
    """Return how much of a measured deviation carries over, by what the measurement shares with the step in question.

    For software that was not fitted, a measurement also shows how far its source is from the others, which carries over in full.

    >>> [round(trust_of(same_setup=True, same_gpu=False, fitted=fitted), 1) for fitted in (True, False)]
    [0.3, 0.6]
    """
    own = _TRUST_FITTED[same_setup, same_gpu]
    if fitted:
        return own
    rows, sources = _SPREAD_OF_ROWS**2, _SPREAD_OF_SOURCES**2
    return (own * rows + sources) / (rows + sources)


def pair_range(base: Gpu, other: Gpu) -> Range:
    """Return the range for the time of `other` over that of `base`. Assumptions about one of them remain in the ratio."""
    found = ratio_range(known=knows(base) and knows(other))
    if base.is_cpu and other.is_cpu:
        return Range(low=found.low, high=found.high, rows=0)
    own, others = _of_generation(base), _of_generation(other)
    found = found if others is None else found.around(others)
    return found if own is None else found.around(_inverse(own))


SURE = 0.9  # probability from which an order is stated without its odds: the range excludes a tie
TIED = 2 / 3  # probability below which an order is called a tie


def probability_above(low: float, high: float, value: float = 1.0, *, middle: float | None = None) -> float:
    """Return the probability that a number exceeds `value` if 80% of its values lie between `low` and `high`.

    Errors are assumed to be log-normal, with the ends of the range as the 10th and 90th percentiles. For a ratio of speeds, this
    is the probability that the first GPU is faster than the second.

    >>> [round(probability_above(low, high), 2) for low, high in ((0.8, 1.25), (1.0, 2.0), (0.9, 2.0), (0.5, 1.0))]
    [0.5, 0.9, 0.83, 0.1]

    `middle` is the median, by default the middle of the range on a log scale. With another median, the two sides of the range
    differ in width: only the side towards `value` counts, so a median below `value` never gives more than 0.5.

    >>> [round(probability_above(0.7, 2.0, middle=middle), 2) for middle in (0.9, 1.0, 1.2)]
    [0.43, 0.5, 0.67]
    """
    centre = math.sqrt(low * high) if middle is None else middle
    far = centre / low if value < centre else high / centre
    if far <= 1.0 or centre == value:
        return 0.5 * ((centre > value) + (centre >= value))
    return 0.5 * (1.0 + math.erf(math.log(centre / value) / math.log(far) * _TENTH / math.sqrt(2.0)))


def _assumed(gpu: Gpu) -> Range:
    low, high = CPU_RANGE if gpu.is_cpu else UNMEASURED_RANGE
    return Range(low=low, high=high, rows=0)


def _inverse(one: Range) -> Range:
    return Range(low=1 / one.high, high=1 / one.low, rows=one.rows)


def range_of(*, known_generation: bool, known_stack: bool, bound: str = "", procedure: str = "") -> Range:
    """Return the range for a question, by whether the GPU's generation and the software were measured and the host limits the
    step.

    Sources differ in how much their steps vary. A `procedure` (source and way of running) with enough rows has its own range,
    which is widened for a new generation as much as the general one.
    """
    found = _file().ranges
    end = "" if known_stack else "_unknown_stack"
    own = found.get(f"{procedure}{end}")
    if own is None:
        return found[("launch" if bound == "launch" else "known" if known_generation else "new_generation") + end]
    if known_generation:
        return own
    pairs = [(found[f"known{tail}"], found[f"new_generation{tail}"]) for tail in ("", "_unknown_stack")]
    lower, higher = min(new.low / old.low for old, new in pairs), max(new.high / old.high for old, new in pairs)
    return Range(low=own.low * min(1.0, lower), high=own.high * max(1.0, higher), rows=own.rows)


def report_range(gpu: Gpu) -> Range:
    """Return the range for the measurements of one person with a program that has many settings, such as an image web interface.

    It is wider than the range for the median over several people, because their settings, versions and hosts differ.
    """
    found = _file().ranges["report" if gpu.vendor == "NVIDIA" else "report_other_maker"]
    return found if knows_vendor(gpu) else found.around(_assumed(gpu))


def ratio_range(*, known: bool) -> Range:
    """Return the range for a ratio between two GPUs: errors that both predictions share cancel."""
    return _file().ranges["ratio" if known else "ratio_new_generation"]


def operator_range(table: str, operator: str) -> Range:
    """Return the range for this operator in a table, or the range for the whole table if the operator has none."""
    ranges = _file().ranges
    return ranges.get(f"{table}/{operator}", ranges[table])


def change_range(setting: str) -> Range | None:
    """Return the range for the gain from one changed setting (batch, precision, compile, channels-last), as measured over
    predicted; None if no published pair of steps differs in that setting alone. `tools/fit_changes.py` writes them.
    """
    return _changes().get(setting)


@cache
def _changes() -> dict[str, Range]:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "changes.json").read_bytes(), type=dict[str, Range])


# ---------------------------------------------------------------- doubt

_WIDE = 1.3  # the range of a ratio counts as less accurate if it is this many times as wide as that for NVIDIA GPUs


def describe_doubts(gpus: Sequence[Gpu]) -> str:
    """Return why predictions for these GPUs are uncertain: first what was not measured, then what is predicted less well."""
    devices: dict[str, None] = {}
    generations: dict[str, str] = {}
    makers: dict[str, None] = {}
    for gpu in gpus:
        if gpu.is_cpu:
            devices["CPU"] = None
        elif not knows_vendor(gpu):
            devices[f"{gpu.vendor} {'TPU' if gpu.segment == 'tpu' else 'GPU'}"] = None
        elif not knows(gpu):
            generations.setdefault(gpu.architecture.generation, the(gpu.name))
        elif _is_wide(gpu):
            makers[gpu.vendor] = None
    if len(generations) == 1:
        devices |= {f"GPU of {name}'s generation": None for name in generations.values()}
    elif generations:
        devices[f"GPU of the same generation as {either(generations.values())}"] = None
    reasons = [f"no {' and no '.join(devices)} was measured"] if devices else []
    return both([*reasons, *([f"predictions for {both(makers)} GPUs are less accurate"] if makers else [])])


def _is_wide(gpu: Gpu) -> bool:
    """Return whether ratios with GPUs of this maker have a wide range."""
    own, usual = pair_range(gpu, gpu), ratio_range(known=True)
    return own.high / own.low > _WIDE * usual.high / usual.low
