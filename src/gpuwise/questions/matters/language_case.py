"""The user's case for a language model that generates text, and how the time per token changes when one thing changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.core.units import GIB
from gpuwise.hardware.machines import with_ram
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Generations, Serving, fits, generate, generation_memory, least_offloaded, room_bytes
from gpuwise.questions.common.language.answer import offloaded_layers, placed
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.common.step import named_host
from gpuwise.step.time.engines import find_engine, refusal, usual_split, weights_in

__all__ = ["SMALLER", "LanguageCase"]

SMALLER = "int4"  # the format to try where 16-bit weights do not fit
SMALLEST = "q4_k_m"  # the same in llama.cpp
_OFFLOADS = "llama.cpp"  # the usual engine for models that do not fit


@dataclass(kw_only=True)
class LanguageCase:
    """One language model that generates text on one kind of GPU, or on `count` GPUs that share the model."""

    query: LanguageQuery
    count: int = 2
    held: int = 1  # GPUs that the user says they have
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
        ram_speed: str = "",
        launch_factor: float = 1.0,
        watts: float | None = None,
    ) -> Generations:
        """Text as it is generated with these changes, with layers on the CPU if not all fit and the engine supports that."""
        serving = replace(self.serving(count), gpu_link=gpu_link)
        host = named_host(cpu) if cpu else serving.host
        host = with_ram(host, ram_speed) if ram_speed and host.memory_channels else host
        host = replace(host, launch_s=host.launch_s * launch_factor)
        serving = replace(serving, host=host, power_limit_watts=watts or serving.power_limit_watts)
        return generate(placed(serving, gpu or self.gpu), [gpu or self.gpu])

    def kept_in_ram(self, count: int = 1) -> Serving:
        """The serving with as many layers on the CPU as it takes to fit, however much RAM that needs. If the engine cannot do
        that, llama.cpp does, with 4-bit weights where it does not have these.
        """
        serving = self.serving(count)
        if self.fits(count):
            return serving
        if not serving.engine.offloads:
            engine = find_engine(_OFFLOADS)
            known = refusal(engine, self.gpu, self.query.format_name) is None
            weights = weights_in(engine, serving.weights.name if known else SMALLEST)
            serving = replace(serving, engine=engine, weights=weights, split="layers" if count > 1 else "", cache="fp16")
        return replace(serving, offloaded=least_offloaded(serving, self.gpu, any_ram=True) or 0.0)

    @property
    def offloads(self) -> bool:
        """Whether one GPU runs the model with part of it on the CPU."""
        return placed(self.serving(), self.gpu).offloaded > 0

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
        """Whether the same engine runs the model on this many of these GPUs with 4-bit weights."""
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
        found = placed(self.serving(), self.gpu)
        if found.offloaded:
            effect = f"not all layers fit in the memory of one {self.gpu.name}; effects on one GPU take this into account"
            return (assumed("offload", f"{offloaded_layers(found)} on the CPU", effect, code="offload"),)
        why = f"one {self.gpu.name} has {self.has_gib():.1f} GiB for it, but the model needs {self.needs_gib():.1f} GiB"
        return (assumed("memory", "enough for the model", f"{why}; the effect is computed as if it fitted", code="memory"),)
