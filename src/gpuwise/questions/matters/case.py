"""The user's case: a model on a GPU in a machine, and how its step changes when one thing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gpuwise.core.provenance import Assumption
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.ways import Needs, room_of
from gpuwise.questions.common.capturing import check_precision
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.predictions import predict_captured
from gpuwise.questions.common.step import StepQuery, named_host, step_query, workload_of
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.workload.model.evaluate import input_bytes, product_values
from gpuwise.workload.model.types import Workload

__all__ = ["Case", "MattersCase"]


class Case(Protocol):
    """What topics need: the time that the user's work takes, unchanged and with one thing changed."""

    count: int
    held: int

    @property
    def work(self) -> str: ...

    @property
    def activity(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def gpu(self) -> Gpu: ...

    def seconds(self, **changes: Any) -> float: ...

    def with_gpu(self, **fields: Any) -> Gpu: ...


@dataclass(kw_only=True)
class MattersCase:
    """One model on one kind of GPU. The model is captured once per precision, and each step is computed once."""

    query: StepQuery
    asked: StepOptions
    progress: Callable[[str], None]
    count: int = 2
    held: int = 1  # GPUs that the user says they have
    other: Gpu | None = None  # a second card of another kind
    _steps: dict[object, Prediction] = field(default_factory=dict)
    _captured: dict[str, Workload] = field(default_factory=dict)

    @property
    def work(self) -> str:
        """What gets faster or slower, in the words of a topic's sentences."""
        return "the step"

    @property
    def activity(self) -> str:
        return "training"

    @property
    def unit(self) -> str:
        return "step"

    @property
    def gpu(self) -> Gpu:
        return self.query.gpus[0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.step().assumptions

    def step(self, **changes: Any) -> Prediction:
        """The step as it is, or with the changes that `_changed` names."""
        if "gpu" in changes:
            return self._predicted(**changes)
        key = tuple(sorted(changes.items()))
        if key not in self._steps:
            self._steps[key] = self._predicted(**changes)
        return self._steps[key]

    def _predicted(self, **changes: Any) -> Prediction:
        query, workload = self._changed(**changes), self.workload(changes.get("precision", ""))
        check_precision(workload.precision, query.gpus)
        return predict_captured(workload, query).results[0]

    def seconds(self, **changes: Any) -> float:
        """Seconds for the samples of one GPU's step; several GPUs share them."""
        found = self.step(**changes)
        return found.step_s / found.gpu_count

    def _changed(
        self,
        *,
        gpu: Gpu | None = None,
        count: int = 1,
        gpu_link: str = "",
        pcie: str = "",
        link_bytes_per_s: float | None = None,
        cpu: str = "",
        launch_factor: float = 1.0,
        precision: str = "",
        watts: float | None = None,
    ) -> StepQuery:
        query = self.query if not precision else step_query(replace(self.asked, precision=precision))
        setting = query.run.setting
        if pcie:
            link = find_link(pcie)
            setting = replace(setting, link_bytes_per_s=link.bytes_per_s_one_way * link.achieved_fraction)
        if link_bytes_per_s is not None:
            setting = replace(setting, link_bytes_per_s=link_bytes_per_s)
        if cpu:
            setting = replace(setting, host=named_host(cpu))
        if launch_factor != 1.0:
            setting = replace(setting, host=replace(setting.host, launch_s=setting.host.launch_s * launch_factor))
        gpus = (gpu or self.gpu,)
        limit = watts or query.run.power_limit_watts
        return replace(query, gpus=gpus).changed(gpu_count=count, gpu_link=gpu_link, setting=setting, power_limit_watts=limit)

    def workload(self, precision: str = "") -> Workload:
        if precision not in self._captured:
            self._captured[precision] = workload_of(self._changed(precision=precision), self.progress)
        return self._captured[precision]

    def input_bytes(self) -> float:
        """Bytes that one step copies from the host."""
        workload = self.workload()
        size = float(self.step().batch) if "batch" in workload.symbols else None
        return float(input_bytes(workload, product_values(workload, size))[0])

    def largest_batch(self, precision: str = "") -> int:
        """The largest batch that fits this GPU."""
        return Needs(self.workload(precision)).largest(self.gpu, room_of(self.gpu).usable_bytes)

    def at_largest_batch(self) -> MattersCase:
        """The same case at the largest batch, a power of two, that fits."""
        return self._asked(batch="auto")

    def accumulating(self, count: int) -> MattersCase:
        """The same case with this many micro-batches of this size in each step."""
        return self._asked(batch=count * self.step().batch, accumulate=count)

    def _asked(self, **options: Any) -> MattersCase:
        asked = replace(self.asked, **options)
        return MattersCase(query=step_query(asked), asked=asked, progress=self.progress, count=self.count)

    @property
    def lanes(self) -> int:
        return self.gpu.pcie_lanes or 16

    @property
    def generation(self) -> int:
        return self.gpu.pcie_generation or 3

    def with_gpu(self, **fields: Any) -> Gpu:
        """Return this GPU with other values."""
        return replace(self.gpu, **fields)
