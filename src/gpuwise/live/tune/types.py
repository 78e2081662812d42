"""The types for measured runs: changed settings, the result of one run, and the gain from a change over several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from gpuwise.workload.capture.request import Request

__all__ = ["BASELINE", "LEAST_ROUNDS", "Change", "DeviceFacts", "Gain", "Order", "Trial", "Variant", "gain_of"]


class Change(NamedTuple):
    """One setting with a value that differs from the start."""

    name: str
    value: str


Variant = tuple[Change, ...]  # nothing changed, one change, or several together
BASELINE: Variant = ()
LEAST_ROUNDS = 3


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a model, to be made in a separate process."""

    request: Request
    device: str
    compiled: bool = False
    seconds: float = 2.0


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that runs a model sees of its device. `precisions` are those it computes in; `no_compiler` says why
    torch.compile cannot run, empty where it can; `uuid` is the driver's."""

    device: str
    name: str
    torch: str
    threads: int
    memory_bytes: float
    precisions: tuple[str, ...]
    no_compiler: str = ""
    uuid: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run. `spread_fraction` is the half-width of a 95% interval around the step; `begin_s` the time before
    the first timed step; `watts` the mean over timed steps, if the card measures its energy. For scripts: `wait_s` for
    input per step, `work_low_s` a step at its best without waiting, `cpu_s` its processor time. `fault` says why there is
    no result, `kind` whether it was memory, time or an error.
    """

    batch: int = 0
    step_s: float = 0.0
    spread_fraction: float = 0.0
    runs: int = 0
    begin_s: float = 0.0
    peak_bytes: float = 0.0
    watts: float = 0.0
    wait_s: float = 0.0
    work_low_s: float = 0.0
    cpu_s: float = 0.0
    workers: int | None = None
    fault: str = ""
    kind: str = ""

    @property
    def wait_fraction(self) -> float:
        """Waiting for input as a share of the step."""
        return self.wait_s / self.step_s if self.step_s > 0 else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples per second, or steps per second if the batch is unknown."""
        return max(self.batch, 1) / self.step_s if self.step_s > 0 else 0.0


class Gain(NamedTuple):
    """The ratio of samples per second over rounds: the smallest, the median and the largest."""

    low: float
    middle: float
    high: float
    rounds: int

    @property
    def is_certain(self) -> bool:
        """Whether each of at least three rounds showed a gain, which happens by chance at most once in eight times."""
        return self.rounds >= LEAST_ROUNDS and self.low > 1.0


def gain_of(before: Sequence[Trial], after: Sequence[Trial]) -> Gain:
    """Compare runs round by round, because a disturbance affects both runs in a round."""
    ratios = sorted(new.samples_per_s / old.samples_per_s for old, new in zip(before, after, strict=False))
    return Gain(low=ratios[0], middle=median(ratios), high=ratios[-1], rounds=len(ratios))
