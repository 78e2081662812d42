"""The user's case for a language model that generates text, and how the time per token changes when one thing changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.core.units import GIB
from gpuwise.engine.generation import Generations, Serving, fits, generate, generation_memory, room_bytes
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.text.ask import TextQuery
from gpuwise.step.time.engines import refusal, usual_split, weights_in

__all__ = ["SMALLER", "TextCase"]

SMALLER = "int4"  # the format to try where 16-bit weights do not fit


@dataclass(kw_only=True)
class TextCase:
    """One language model that generates text on one kind of GPU, or on `count` GPUs that share the model."""

    query: TextQuery
    count: int = 2
    cpu: str = ""  # as the user names it

    @property
    def work(self) -> str:
        """What gets faster or slower, as the sentences of a topic call it."""
        return "text generation"

    @property
    def activity(self) -> str:
        return "text generation"

    @property
    def unit(self) -> str:
        return "token"

    @property
    def gpu(self) -> Gpu:
        return self.query.gpus[0]

    @property
    def engine(self) -> str:
        return self.query.serving.engine.title

    @property
    def can_share(self) -> bool:
        """Whether the engine can run the model on `count` GPUs."""
        return bool(self._split)

    @property
    def _split(self) -> str:
        return usual_split(self.query.serving.engine, self.query.serving.shape.heads, self.count)

    def serving(self, count: int = 1, weights: str = "") -> Serving:
        """The serving on one GPU, or on several that share the model."""
        found = replace(self.query.serving, gpu_count=1, split="", gpu_link="")
        found = replace(found, weights=weights_in(found.engine, weights)) if weights else found
        if count == 1:
            return found
        if not self.can_share:
            raise BadValue(
                f"{self.engine} cannot run {self.query.model} on {count} GPUs at once",
                hint="try `--engine llama.cpp`, which assigns whole layers to each GPU",
            )
        return replace(found, gpu_count=count, split=self._split)

    def generated(
        self,
        *,
        gpu: Gpu | None = None,
        count: int = 1,
        gpu_link: str = "",
        cpu: str = "",
        launch_factor: float = 1.0,
        watts: float | None = None,
    ) -> Generations:
        """Text as it is generated with these changes, whether or not the model fits."""
        serving = replace(self.serving(count), gpu_link=gpu_link)
        host = find_host(cpu) if cpu else serving.host
        host = replace(host, launch_s=host.launch_s * launch_factor)
        serving = replace(serving, host=host, power_limit_watts=watts or serving.power_limit_watts)
        return generate(serving, [gpu or self.gpu])

    def seconds(self, **changes: Any) -> float:
        """Seconds for one token."""
        return float(self.generated(**changes).token_s[0])

    def with_gpu(self, **fields: Any) -> Gpu:
        """This GPU with other figures."""
        return replace(self.gpu, **fields)

    def needs_gib(self, count: int = 1, weights: str = "") -> float:
        """GiB that each GPU holds."""
        return generation_memory(self.serving(count, weights)).total_bytes / GIB

    def has_gib(self) -> float:
        """GiB of each GPU that the engine may use."""
        return room_bytes(self.query.serving, self.gpu) / GIB

    def fits(self, count: int = 1, weights: str = "") -> bool:
        return fits(self.serving(count, weights), self.gpu)

    def fits_smaller(self, count: int) -> bool:
        """Whether the same engine runs the model on so many of these GPUs with 4-bit weights."""
        return refusal(self.query.serving.engine, self.gpu, SMALLER) is None and self.fits(count, SMALLER)

    def describe(self) -> str:
        """The case in one line."""
        serving = self.query.serving
        users = "1 user" if serving.users == 1 else f"{serving.users:,} users"
        size = f"{users}, prompt {serving.prompt:,}, output {serving.output:,} tokens"
        how = f"{self.query.format_name} in {serving.engine.name}, {size}"
        return f"{self.query.model} (text generation, {how}) on {the(self.gpu.name)}"

    def room_note(self) -> tuple[Assumption, ...]:
        """What is assumed of one GPU that the model does not fit on."""
        if self.fits():
            return ()
        why = f"one {self.gpu.name} has {self.has_gib():.1f} GiB for it, but the model needs {self.needs_gib():.1f} GiB"
        return (assumed("memory", "enough for the model", f"{why}; the effect is computed as if it fitted", code="memory"),)
