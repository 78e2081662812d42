"""The input of a check: the scene, the parts of the step, the recording for what-ifs, and the GPU's catalogue entry if it is
known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.intervals import Spans
from gpuwise.diagnose.parts import Breakdown, Facts, measure, take_apart
from gpuwise.diagnose.replay import Change, Recording, record
from gpuwise.diagnose.scene import Scene
from gpuwise.diagnose.types import Gain
from gpuwise.hardware.types import Gpu
from gpuwise.trace.types import Mask

__all__ = ["View", "make_view"]

_PROFILED = 1.3  # how much recording slows ops on a CPU: measured 1.0 to 2.2, most for small ops (tools/record_pathologies.py)
_MOST = 20.0
_FEWEST_STEPS, _FEW, _NEARLY_ALL = 4, 0.5, 0.9  # steps; of the steps; of the time lost
_UNPROFILED = "without the profiler, CPU ops take less time, so the share of this cause is larger"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One rank, ready to be checked. `whole` has the facts of all steps, `facts` those of the steady ones."""

    scene: Scene
    parts: Breakdown
    facts: Facts
    whole: Facts
    recording: Recording | None
    gpu: Gpu | None

    @property
    def step_s(self) -> float:
        return self.parts.step_s

    @property
    def is_gpu(self) -> bool:
        """Whether the work runs on a GPU, rather than on a CPU or on an accelerator of another kind."""
        return not self.scene.on_cpu and self.scene.device.is_gpu

    @property
    def calls_it(self) -> str:
        """The name of the device in sentences."""
        return "CPU" if self.scene.on_cpu else "GPU" if self.scene.device.is_gpu else self.scene.device.name

    @property
    def per(self) -> str:
        """The unit for counts: a step, or the recording if no steps were found."""
        return "per step" if self.scene.steps.marked else "in the recording"

    @property
    def kernel_s(self) -> float:
        """The total kernel time of a steady step."""
        return self.work_s(self.scene.kernels)

    def work_s(self, chosen: Mask) -> float:
        """Return the total time of chosen work in a steady step."""
        rows = chosen & self.scene.steady
        return float(self.scene.work.duration_ns[rows].sum()) * 1e-9 / max(self.scene.steps.steady_count, 1)

    def held_s(self, chosen: Mask) -> float:
        """Seconds of a steady step in which selected work runs; overlapping streams count once."""
        begin, end = self.scene.steps.steady_window
        return self.scene.spans(chosen).within(begin, end).total_ns * 1e-9 / max(self.scene.steps.steady_count, 1)

    def count(self, chosen: Mask) -> float:
        """Return how many pieces of chosen work a steady step has."""
        return float((chosen & self.scene.steady).sum()) / max(self.scene.steps.steady_count, 1)

    def exposed_s(self, chosen: Mask) -> float:
        """Seconds of a steady step in which only selected work runs: what would be saved without it, if nothing else waited."""
        begin, end = self.scene.steps.steady_window
        alone = self.scene.spans(chosen).within(begin, end).without(self.scene.spans(~chosen))
        return alone.total_ns * 1e-9 / max(self.scene.steps.steady_count, 1)

    def gain(
        self, saved_s: float, *, likely: Change | None = None, best: Change | None = None, least: float = 0.3, beyond: str = ""
    ) -> Gain:
        """Return the range for a fix that could save `saved_s` of a step.

        The upper end is the step without it, with nothing else in the way (or the replay of `best`, if given). The lower end is
        the replay of `likely`, a modest version of the fix, in which everything else still limits the step; without a recording,
        it is `least` of the saving. Without a GPU, the upper end is wider, because the profiler slows the work itself. `beyond`
        says why a replay may show more than the cause costs; without it, the gain is limited to that (`Gain.bounded`).
        """
        step = self.step_s
        high = step / max(step - saved_s, 0.05 * step)
        if best is not None and self.recording is not None:
            high = self._replayed(best)
        if likely is not None and self.recording is not None:
            low = self._replayed(likely)
        else:
            low = step / max(step - least * saved_s, 0.05 * step)
        if self.scene.on_cpu:
            high = min(high * _PROFILED, _MOST)
            beyond = f"{beyond}; {_UNPROFILED}" if beyond else _UNPROFILED
        return Gain(low=min(low, high), high=max(low, high, 1.0), beyond=beyond)

    def _replayed(self, change: Change) -> float:
        """How many times as fast a step would be with a change. If nothing but the host changes, the device still has all of its
        work to do: a replay may let kernels on several streams overlap that wait for one another unseen. A host that does not
        wait does not copy what it waited for either.
        """
        if self.recording is None:
            return 1.0
        gain = self.recording.gain(change)
        if change.work is not None or not change.waiting or self.scene.on_cpu:
            return gain
        return min(gain, 1.0 / max(self.facts.busy_fraction, 1e-3))

    @property
    def blocks_per_sm(self) -> npt.NDArray[np.float64]:
        """The blocks of each kernel per multiprocessor, NaN if the trace does not record its grid."""
        blocks = self.scene.work.blocks_per_sm.astype(np.float64)
        counted = self.scene.device.sm_count or (self.gpu.sm_count if self.gpu is not None else 0)
        return np.where(blocks < 0, -blocks / counted if counted else np.nan, blocks)

    def shrink(self, chosen: Mask, factor: float) -> Change:
        """The change that multiplies the time of chosen work."""
        if self.recording is None:
            return Change()
        return Change(work=self.recording.factors(chosen, factor))

    def multiplied(self, factors: npt.NDArray[np.float64]) -> Change:
        """The change that multiplies the time of each piece of work by a factor of its own."""
        return Change() if self.recording is None else Change(work=factors[self.recording.rows])

    def seldom(self, spans: Spans) -> tuple[str, tuple[str, ...]]:
        """Return text for a title and for the evidence if these spans occur in only a few steady steps; nothing if they occur
        in most.
        """
        held = self.by_step_ns(spans)
        most = np.sort(held)[::-1].cumsum()
        if len(held) < _FEWEST_STEPS or most[-1] <= 0:
            return "", ()
        count = int(np.searchsorted(most, _NEARLY_ALL * most[-1])) + 1
        if count > _FEW * len(held):
            return "", ()
        few, each_ms = f"in {count} of {len(held)} steps", float(most[count - 1]) * 1e-6 / count
        return f", {few}", (f"nearly all of this time is lost {few}: {each_ms:,.1f} ms{' in each' if count > 1 else ''}",)

    def by_step_ns(self, spans: Spans) -> npt.NDArray[np.int64]:
        """Return how much of each steady step these spans take."""
        steps = self.scene.steps
        starts, ends = steps.start_ns[steps.steady].tolist(), steps.end_ns[steps.steady].tolist()
        return np.array([spans.within(start, end).total_ns for start, end in zip(starts, ends, strict=True)], dtype=np.int64)

    def median_kernel_s(self) -> float:
        """The median kernel of the steady steps."""
        durations = self.scene.work.duration_ns[self.scene.kernels & self.scene.steady]
        return float(np.median(durations)) * 1e-9 if len(durations) else 0.0


def make_view(scene: Scene, gpu: Gpu | None) -> View:
    """Compute every measurement once."""
    return View(
        scene=scene,
        parts=take_apart(scene),
        facts=measure(scene, scene.steps.steady_window),
        whole=measure(scene, scene.steps.window),
        recording=record(scene),
        gpu=gpu,
    )
