"""The results of trying settings on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.core.text import both
from gpuwise.live.tune.types import LEAST_ROUNDS, Change, DeviceFacts, Gain, Trial, Variant
from gpuwise.questions.common.options import Shown
from gpuwise.questions.tune.changes import Pruned
from gpuwise.questions.tune.predicting import Expected

__all__ = ["NO_TIME", "Best", "MeasuredAnswer", "Tried"]

NO_TIME = "there was no time left to try it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One change: its expected gain, its measured gain, or the reason why it did not run."""

    change: Change
    expected: Expected | None
    gain: Gain | None
    trials: tuple[Trial, ...]
    fault: str = ""
    kind: str = ""

    @property
    def is_untried(self) -> bool:
        """Whether there was no time for it."""
        return self.fault.startswith(NO_TIME)

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether the measured gain is within the predicted range; None if either is missing."""
        if self.expected is None or self.gain is None:
            return None
        return self.expected.low <= self.gain.middle <= self.expected.high

    def to_dict(self) -> dict[str, Any]:
        """Gains are speed-up factors."""
        expected, gain = self.expected, self.gain
        return {
            "setting": self.change.name,
            "value": self.change.value,
            "predicted_gain": expected.middle if expected else None,
            "predicted_gain_low": expected.low if expected else None,
            "predicted_gain_high": expected.high if expected else None,
            "gain": gain.middle if gain else None,
            "gain_low": gain.low if gain and gain.rounds > 1 else None,
            "gain_high": gain.high if gain and gain.rounds > 1 else None,
            "as_predicted": self.is_as_predicted,
            **_figures(self.trials),
            "fault": self.fault or None,
            "fault_kind": self.kind or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """Changes measured again together, and the product of their separate gains."""

    changes: Variant
    gain: Gain
    product: float
    start: tuple[Trial, ...]
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAnswer(Shown):
    """Settings of one model or script on one device of this machine."""

    TEXT: ClassVar[str] = "questions.tune.measured_text.render_measured"

    model: str
    facts: DeviceFacts
    start: tuple[Trial, ...]
    tried: tuple[Tried, ...]
    pruned: tuple[Pruned, ...]
    best: Best | None
    seconds: float
    is_script: bool
    assumptions: tuple[Assumption, ...]
    data_date: date
    needed_s: float = 0.0  # for the minimum number of rounds of all changes, judging by the runs so far

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        best = self.best
        nothing = 0 if any(one.is_untried for one in self.tried) else LEAST_ROUNDS
        if min((one.gain.rounds for one in self.tried if one.gain), default=nothing) < LEAST_ROUNDS:
            enough = f"`--seconds {self.needed_s:.0f}` should be enough" if self.needed_s else "allow more time with `--seconds`"
            return f"no verdict, because there was not enough time for {LEAST_ROUNDS} rounds of each change; {enough}"
        certain = [one for one in self.tried if one.gain is not None and one.gain.is_certain]
        if certain and (best is None or best.gain.rounds < LEAST_ROUNDS):
            names = ", ".join(f"{one.change.name} {one.change.value} {one.gain.middle:.2f}" for one in certain if one.gain)
            return f"faster separately: {names}; there was no time to measure them together; allow more time with `--seconds`"
        if best is None or not best.gain.is_certain:
            return "none of the changes was faster in every round"
        names = both(f"{change.name} {change.value}" for change in best.changes)
        return f"{names}: {best.gain.middle:.2f} times as fast ({best.gain.low:.2f} to {best.gain.high:.2f})"

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        best, facts = self.best, self.facts
        return {
            "model": self.model,
            "device": facts.device,
            "device_name": facts.name,
            "torch": facts.torch,
            "verdict": self.verdict,
            "start": _figures(self.start),
            "tried": [one.to_dict() for one in self.tried],
            "pruned": [one._asdict() for one in self.pruned],
            "best": None
            if best is None
            else {
                "settings": [change._asdict() for change in best.changes],
                "gain": best.gain.middle,
                "gain_low": best.gain.low,
                "gain_high": best.gain.high,
                "product_of_gains": best.product,
                "diff": self.diff(),
                **_figures(best.trials),
            },
            "seconds": self.seconds,
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }

    def diff(self) -> list[str]:
        """The settings to change, as a diff; empty if no gain was certain."""
        if self.best is None or not self.best.gain.is_certain:
            return []
        lines = []
        for change in self.best.changes:
            before, after = _write_setting(change, self)
            lines += ([f"- {before}"] if before else []) + [f"+ {after}"]
        return lines


def _figures(trials: tuple[Trial, ...]) -> dict[str, Any]:
    """Return the median of some runs."""
    if not trials:
        return {"batch": None, "step_s": None, "samples_per_s": None, "rounds": 0, "peak_bytes": None, "begin_s": None}
    return {
        "batch": trials[0].batch or None,
        "step_s": median(trial.step_s for trial in trials),
        "samples_per_s": median(trial.samples_per_s for trial in trials) if trials[0].batch else None,
        "rounds": len(trials),
        "peak_bytes": max(trial.peak_bytes for trial in trials) or None,
        "begin_s": median(trial.begin_s for trial in trials),
    }


def _write_setting(change: Change, answer: MeasuredAnswer) -> tuple[str, str]:
    """A setting before and after the change, as written in code."""
    kind, value, start = answer.facts.device.partition(":")[0], change.value, answer.start[0]
    dtype = "bfloat16" if value == "amp-bf16" else "float16"
    scaler = "" if value == "amp-bf16" else "  # with torch.amp.GradScaler"
    ways = {
        "batch": (f"batch = {start.batch}", f"batch = {value}"),
        "precision": ("", f'with torch.autocast("{kind}", dtype=torch.{dtype}):{scaler}'),
        "channels-last": ("", "model = model.to(memory_format=torch.channels_last)  # and the images"),
        "compile": ("", "model = torch.compile(model)"),
        "optimizer": ("optimizer = Optimizer(parameters)", f"optimizer = Optimizer(parameters, {value}=True)"),
        "workers": (f"DataLoader(..., num_workers={start.workers})", f"DataLoader(..., num_workers={value})"),
        "pinned": ("", "DataLoader(..., pin_memory=True)"),
    }
    if change == ("precision", "tf32"):
        return "", 'torch.set_float32_matmul_precision("high")'
    return ways.get(change.name, ("", f"{change.name} = {value}"))
