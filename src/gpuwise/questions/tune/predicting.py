"""Predicts the gain from changed settings on a device in this machine, from the `gpuwise bench` profile or the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuwise.core.errors import BadFile, GpuwiseError, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.evidence.ranges import UNMEASURED_RANGE, Range, change_range, knows_vendor
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu, supported
from gpuwise.live.bench import store
from gpuwise.live.bench.price import price
from gpuwise.live.bench.types import Profile
from gpuwise.live.tune.types import DeviceFacts
from gpuwise.prediction import Run, predict_steps
from gpuwise.step.memory.peak import memory_of
from gpuwise.step.time.setting import CPU_RANGE, find_stack
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import peak_memory
from gpuwise.workload.model.types import Workload

__all__ = ["Expected", "Predictor", "predictor_of"]

_PROFILED = (0.7, 1.5)  # as `predict --on-this-machine`, from 42 small models
_UNKNOWN = (0.9, 1.1)  # of a gain on a GPU without a published pair of steps; assumed


class Expected(NamedTuple):
    """A predicted gain, with its range."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A device as predictions see it: through its profile or a row of the catalogue, or neither if both are None. A CPU
    with fewer threads than the one in the catalogue is slower in proportion."""

    torch: str
    slower: float = 1.0
    gpu: Gpu | None = None
    profile: Profile | None = None

    def step_s(self, workload: Workload, batch: int, compiled: bool) -> float | None:
        """Return the seconds of a step; None if they cannot be predicted."""
        try:
            if self.profile is not None:
                seq = workload.seq if "seq" in workload.symbols else None
                return price(workload, self.profile, _size(workload, batch), None if seq is None else float(seq)).seconds
            return self._simulated(workload, batch, compiled) if self.gpu is not None else None
        except GpuwiseError:
            return None

    def _simulated(self, workload: Workload, batch: int, compiled: bool) -> float | None:
        gpu = self.gpu
        if gpu is None or workload.precision not in supported(gpu):
            return None
        stack, _ = find_stack(f"torch-{self.torch}", compiled)
        run = Run(setting=Setting(stack=stack, host=find_host("desktop")))
        return float(predict_steps(workload, [gpu], run, [batch], by_kind=False).step_s[0, 0]) * self.slower

    def needed_bytes(self, workload: Workload, batch: int) -> float:
        """Return the memory that a step needs on this device."""
        if self.gpu is not None and not self.gpu.is_cpu:
            return memory_of(workload, _size(workload, batch), gpu=self.gpu).total_bytes
        size = _size(workload, batch)
        return float(peak_memory(workload, None if size is None else size).total_bytes)

    def expected(self, name: str, gain: float | None) -> Expected | None:
        """Return a predicted gain with the range of its kind."""
        if gain is None:
            return None
        low, high = self._width(name)
        return Expected(gain * low, gain, gain * high)

    def _width(self, name: str) -> tuple[float, float]:
        if self.profile is not None:
            return _PROFILED
        if self.gpu is not None and self.gpu.is_cpu:
            return CPU_RANGE
        if self.gpu is not None and not knows_vendor(self.gpu):
            return UNMEASURED_RANGE
        found = change_range(name)
        return (found.low, found.high) if found else _UNKNOWN

    def notes(self, names: tuple[str, ...]) -> tuple[Assumption, ...]:
        """Return what the predicted gains are based on."""
        if self.profile is not None:
            effect = f"the actual gain is assumed to be {_PROFILED[0]:g} to {_PROFILED[1]:g} times the predicted gain"
            return (assumed("predicted by", f"the `gpuwise bench` profile of {self.profile.day}", effect, basis="measured"),)
        if self.gpu is None:
            return (
                assumed(
                    "predicted by",
                    "no prediction, because the device is not in the catalogue",
                    "every change is tried",
                    basis="assumed",
                ),
            )
        if self.gpu.is_cpu:
            effect = (
                f"the actual gain is assumed to be {CPU_RANGE[0]:g} to {CPU_RANGE[1]:g} times the predicted gain; "
                "run `gpuwise bench` for a better estimate"
            )
            return (assumed("predicted by", f"the catalogue entry for a similar CPU, {self.gpu.name}", effect, basis="assumed"),)
        if not knows_vendor(self.gpu):
            low, high = UNMEASURED_RANGE
            effect = f"the actual gain is assumed to be {low:g} to {high:g} times the predicted gain, "
            effect += f"because no {self.gpu.vendor} GPU was measured"
            return (assumed("predicted by", f"the catalogue entry for {self.gpu.name}", effect, basis="assumed"),)
        widths = [(name, change_range(name)) for name in names]
        rests = "; ".join(f"{name} {_width_text(own)}" for name, own in widths if own)
        return (
            assumed(
                "predicted by",
                f"the catalogue entry for {self.gpu.name}",
                f"ratio of measured to predicted gain: {rests}",
                basis="computed",
            ),
        )


def _width_text(own: Range) -> str:
    return f"{own.low:.2f} to {own.high:.2f} in {own.rows} published pairs"


def _size(workload: Workload, batch: int) -> float | None:
    return float(batch) if "batch" in workload.symbols else None


def predictor_of(facts: DeviceFacts) -> Predictor:
    """Return what is known about this device."""
    if facts.device == "cpu":
        try:
            return Predictor(torch=facts.torch, profile=store.latest("cpu"))
        except BadFile:
            like = _found(facts.name) or _found("cpu")
            slower = max(1.0, like.sm_count / facts.threads) if like else 1.0
            return Predictor(torch=facts.torch, gpu=like, slower=slower)
    return Predictor(torch=facts.torch, gpu=_found(facts.name))


def _found(name: str) -> Gpu | None:
    try:
        return load_catalog().find(name).gpu
    except UnknownName:
        return None
