"""Jobs: which models represent a kind of work, the ways to run one on a GPU, and how fast it runs. Jobs for users who name no
model are listed in `data/jobs.toml`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple

import msgspec
import numpy as np

from gpuwise.core.errors import UnknownName
from gpuwise.core.text import either
from gpuwise.hardware.tables import parse_toml
from gpuwise.hardware.types import Gpu, has_matrix_cores, supported
from gpuwise.prediction import Run, predict_steps
from gpuwise.prediction.choices import METHODS, Choices, DoesNotApply
from gpuwise.prediction.ways import Needs, Ways, room_of, safe_bytes
from gpuwise.step.memory.peak import MemorySetting, upper_ratio
from gpuwise.workload.model.types import Workload

__all__ = [
    "GRID",
    "NO_BLOCKS",
    "SHORT_WAYS",
    "WAYS",
    "Job",
    "JobPace",
    "Pacer",
    "StandIn",
    "Task",
    "Tried",
    "find_task",
    "stand_ins",
    "taken",
    "tasks",
    "ways_on",
]


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, run for a number of samples. Sizes of None are the model's defaults; `ways` says how it is run, best first."""

    model: str
    samples: float
    mode: str = "train"
    phase: str = ""
    batch: int | None = None
    seq: int | None = None
    ways: tuple[str, ...] = ("usual",)
    note: str = ""

    @property
    def unit(self) -> str:
        """What one sample is."""
        return "tokens" if self.phase == "decode" else "samples"


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that make up one run. With `prompt` and `output`, in tokens, its jobs generate text."""

    title: str
    jobs: tuple[Job, ...]
    name: str = ""
    prompt: int = 0
    output: int = 0


class StandIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model that represents a kind of work. An empty `precision` is the usual one for each GPU; `precisions` are those
    that a chart shows; an empty `stack` is the usual software. With `users`, an `engine` generates text for them: `prompt`
    and `output` are the tokens of each request. With a `method`, adapters are trained.
    """

    title: str
    model: str
    batch: int
    name: str = ""
    mode: str = "train"
    phase: str = ""
    seq: int | None = None
    precision: str = ""
    precisions: tuple[str, ...] = ("fp32", "16 bit")
    stack: str = ""
    method: str = ""
    engine: str = ""
    users: int = 0
    prompt: int = 0
    output: int = 0


class _Jobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the file: tasks of `which`, and stand-ins by the question that uses them."""

    tasks: dict[str, Task]
    compare: tuple[StandIn, ...]
    compare_servers: tuple[StandIn, ...]
    charts: tuple[StandIn, ...]
    machine: tuple[StandIn, ...]


@cache
def _jobs() -> _Jobs:
    return msgspec.convert(parse_toml((files("gpuwise.advise") / "data" / "jobs.toml").read_text("utf-8")), _Jobs)


@cache
def tasks() -> dict[str, Task]:
    return {name: msgspec.structs.replace(task, name=name) for name, task in _jobs().tasks.items()}


def stand_ins(use: str) -> tuple[StandIn, ...]:
    """Return the jobs that represent kinds of work in `compare` (for servers: `compare_servers`), in `charts`, or when a
    `machine` is judged.
    """
    found: tuple[StandIn, ...] = getattr(_jobs(), use)
    return found


def find_task(name: str) -> Task:
    """Return the task with this name, ignoring case and spacing."""
    wanted = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if wanted not in tasks():
        near = difflib.get_close_matches(wanted, tasks(), n=2, cutoff=0.6)
        hint = (
            "did you mean " + either(f"`{other}`" for other in near) + "?"
            if near
            else "try `--task vision`, or name a model with `--model`"
        )
        raise UnknownName(f"unknown task '{name}'", known=", ".join(tasks()), hint=hint)
    return tasks()[wanted]


# ---------------------------------------------------------------- ways: from the word in a task's table to choices

# What each way means, for assumptions and after a model's name in a sentence.
WAYS = {
    "usual": "mixed precision, or fp32 on GPUs without matrix cores",
    "checkpoint": "mixed precision, recomputing the activations of repeated blocks on GPUs where that is needed to save memory",
    "int8": "8-bit weights",
    "int4": "4-bit weights",
    "lora": "LoRA adapters, recomputing the activations of repeated blocks, as common programs do by default",
    "qlora": "QLoRA: adapters on 4-bit weights, recomputing the activations of repeated blocks, as common programs do by default",
    "dora": "DoRA adapters, recomputing the activations of repeated blocks, as common programs do by default",
}
SHORT_WAYS = {
    "usual": "with the usual method",
    "checkpoint": "with recomputed activations",
    "int8": "with 8-bit weights",
    "int4": "with 4-bit weights",
    "lora": "with LoRA adapters",
    "qlora": "with QLoRA adapters on 4-bit weights",
    "dora": "with DoRA adapters",
}
NO_BLOCKS, _ALL_BLOCKS = (0, 0), (1, 10_000)
_TRIED = {"train": ("amp", "amp-bf16", "tf32", "fp32"), "infer": ("fp16", "bf16", "tf32", "fp32")}


def ways_on(gpu: Gpu, way: str, *, mode: str, precision: str = "", optimizer: str = "") -> tuple[Choices, ...]:
    """Return the choices to try on this GPU, none if it cannot run them. A `precision` of `auto` tries all it has."""
    able = supported(gpu)
    wanted = [precision] if precision not in ("", "auto") else _TRIED[mode] if precision == "auto" else _usual(gpu, way, mode)
    base = [Choices(precision=name, optimizer=optimizer) for name in wanted if name in able]
    return tuple(changed for choices in base for changed in _choices_for(choices, way))


def _usual(gpu: Gpu, way: str, mode: str) -> tuple[str, ...]:
    """Return what people run here. Frozen and packed weights are computed in a 16-bit type, whether or not it is faster."""
    if way in (*METHODS, "int8", "int4"):
        return ("bf16",) if "bf16" in supported(gpu) else ("fp16",)
    if not has_matrix_cores(gpu):
        return ("fp32",)
    return ("amp",) if mode == "train" else ("fp16",)


def _choices_for(choices: Choices, way: str) -> tuple[Choices, ...]:
    if way in ("int8", "int4"):
        return (replace(choices, weights=way),)
    if way in METHODS:
        return (replace(choices, adapters=way, checkpoint=_ALL_BLOCKS),)  # as programs that train adapters do by default
    return (choices,) if way == "usual" else (choices, replace(choices, checkpoint=_ALL_BLOCKS))


def taken(way: str, pace: JobPace) -> str:
    """Return how a job runs on this GPU: in the usual way where it holds all activations."""
    return "usual" if way == "checkpoint" and pace.choices.checkpoint == NO_BLOCKS else way


# ---------------------------------------------------------------- how fast one job runs on every GPU of a list

GRID = tuple(2**power for power in range(12))  # batches tried when the best one is requested
_Key = tuple[str, tuple[Choices, ...], "int | None", bool]  # a GPU, the ways to try on it, a batch and whether to find the best
_BAND = 3  # sizes of the grid that GPUs may differ in and still be priced together
_ENOUGH = 0.98  # share of the best rate: the smallest batch that reaches it is used


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPace:
    """One job on one GPU, or on several of a kind that divide the samples. A step has `batch` samples on each, in as many
    micro-batches as its choices say.
    """

    gpu: Gpu
    choices: Choices
    batch: int
    step_s: float
    memory_bytes: float
    usable_bytes: float
    bound: str

    @property
    def gpu_count(self) -> int:
        return self.choices.gpu_count

    @property
    def micro_batch(self) -> int:
        """Samples that are run at once."""
        return -(-self.batch // self.choices.accumulate)

    @property
    def fits(self) -> bool:
        """Whether it fits by the careful standard of `fit`: nine in ten such steps run."""
        return self.memory_bytes * upper_ratio() <= self.usable_bytes

    @property
    def samples_per_s(self) -> float:
        return self.batch * self.gpu_count / self.step_s

    @property
    def adds_up(self) -> bool:
        """Whether several GPUs hold the job together, with software that does so by default."""
        return False

    @property
    def shares_model(self) -> bool:
        """Whether several GPUs share the weights (FSDP)."""
        return self.choices.zero_stage == 3


class Tried(NamedTuple):
    """One way to run the job on a GPU and the batches to evaluate: all that fit, or the smallest if none does."""

    choices: Choices
    sizes: tuple[int, ...]
    fits: bool


class Pacer:
    """One model on many GPUs. Results are kept for the next question."""

    def __init__(self, ways: Ways, run: Run) -> None:
        self.ways = ways
        self.run = run
        self._needs: dict[Choices, Needs] = {}
        self._refusal: DoesNotApply | None = None  # raised if no way of running is left
        self._fitting: dict[tuple[Choices, str], tuple[int, ...]] = {}
        self._parted: dict[tuple[Choices, str, int], Tried] = {}
        self._steps: dict[tuple[Choices, str], dict[int, tuple[float, str]]] = {}  # seconds and bound by batch
        self._paced: dict[_Key, JobPace] = {}

    def paces(
        self, gpus: Sequence[Gpu], ways: Callable[[Gpu], Sequence[Choices]], *, batch: int | None, auto: bool = False
    ) -> dict[str, JobPace]:
        """Return the pace on each GPU that can run the job, using the fastest of its ways that fit: at `batch` (None: the
        default), or with `auto` at the batch with the most samples per second.
        """
        keys = {gpu.name: (gpu.name, tuple(ways(gpu)), batch, auto) for gpu in gpus}
        left = [gpu for gpu in gpus if not self._knows(gpu, keys[gpu.name])]
        tried = {gpu.name: found for gpu in left if (found := self._tried(gpu, keys[gpu.name][1], batch, auto))}
        if self._refusal is not None and len(left) == len(gpus) and not tried:
            raise self._refusal.__cause__ or self._refusal
        self.price((gpu, one) for gpu in left for one in tried.get(gpu.name, ()))
        for gpu in left:
            if gpu.name in tried:
                self._paced[keys[gpu.name]] = self.soonest(gpu, tried[gpu.name])
        return {gpu.name: self._paced[keys[gpu.name]] for gpu in gpus if self._knows(gpu, keys[gpu.name])}

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """Return the same jobs divided over `gpu_count` of each GPU, with the batch per GPU unchanged."""
        divided = {choices: replace(choices, gpu_count=gpu_count) for choices in {pace.choices for pace in paces}}
        keys = {pace.gpu.name: (pace.gpu.name, (divided[pace.choices],), pace.batch, False) for pace in paces}
        left = [pace for pace in paces if not self._knows(pace.gpu, keys[pace.gpu.name])]
        tried = {pace.gpu.name: self._divided(pace, divided[pace.choices]) for pace in left}
        self.price((pace.gpu, tried[pace.gpu.name]) for pace in left)
        for pace in left:
            self._paced[keys[pace.gpu.name]] = self.pace(pace.gpu, tried[pace.gpu.name].choices, pace.batch)
        return {name: self._paced[key] for name, key in keys.items()}

    def _divided(self, pace: JobPace, choices: Choices) -> Tried:
        """Return how each of several GPUs runs a job. Sending gradients takes memory, so that it may need more parts."""
        if not pace.fits or self._need(choices).within(pace.gpu, safe_bytes(pace.gpu))(pace.micro_batch):
            return Tried(choices, (pace.batch,), pace.fits)
        return self.in_parts(pace.gpu, replace(choices, accumulate=1), pace.batch)

    def _knows(self, gpu: Gpu, key: _Key) -> bool:  # the same GPU: another one may have its name
        return key in self._paced and self._paced[key].gpu is gpu

    def workload(self, choices: Choices) -> Workload:
        return self.ways.way(choices).workload

    def _tried(self, gpu: Gpu, ways: Sequence[Choices], batch: int | None, auto: bool) -> list[Tried]:
        """Return every batch of the grid that fits; for a single batch, the fewest micro-batches that fit; otherwise the
        smallest. Activations are recomputed only where a whole batch does not fit without that.
        """
        found: list[Tried] = []
        for choices in ways:
            plain = replace(choices, checkpoint=NO_BLOCKS)
            if not auto and plain != choices and any(one.fits and one.choices == plain for one in found):
                continue
            try:
                workload = self.workload(choices)
            except DoesNotApply as refusal:
                self._refusal = refusal
                continue
            if "batch" in workload.symbols and auto:
                found.append(self.every_batch(gpu, choices))
            else:
                key = (choices, gpu.name, batch or workload.batch)
                if key not in self._parted:
                    self._parted[key] = self.in_parts(gpu, choices, batch or workload.batch)
                found.append(self._parted[key])
        return found

    def in_parts(self, gpu: Gpu, choices: Choices, batch: int) -> Tried:
        """One batch, at once or in the fewest parts that fit, halving repeatedly."""
        is_open = "batch" in self.workload(choices).symbols
        for size in [batch >> power for power in range(batch.bit_length())] if is_open else [batch]:
            tried = replace(choices, accumulate=-(-batch // size)) if size < batch else choices
            if self._need(tried).within(gpu, safe_bytes(gpu))(-(-batch // tried.accumulate)):
                return Tried(tried, (batch,), True)
        return Tried(tried, (batch,), False)

    def every_batch(self, gpu: Gpu, choices: Choices) -> Tried:
        """Return the batches of the grid that fit: a larger one needs more, so the first that does not fit ends them."""
        key = (choices, gpu.name)
        if key not in self._fitting:
            room, need = safe_bytes(gpu), self._need(choices)
            self._fitting[key] = tuple(takewhile(need.within(gpu, room), GRID))
        kept = self._fitting[key]
        return Tried(choices, kept or GRID[:1], bool(kept))

    def _need(self, choices: Choices) -> Needs:
        """Ways that hold the same bytes, such as both 16-bit types, share what is known about them."""
        if choices not in self._needs:
            workload, setting = self.workload(choices), MemorySetting(gpu_count=choices.gpu_count)
            alike = [known for known in self._needs.values() if known.serves(workload)]
            same = next((known for known in alike if known.setting == setting), None)
            self._needs[choices] = same or Needs(alike[0].workload if alike else workload, setting)
        return self._needs[choices]

    def price(self, wanted: Iterable[tuple[Gpu, Tried]]) -> None:
        """Predict steps of GPUs that run the same way at the same batches, all at once."""
        groups: dict[tuple[Choices, tuple[int, ...]], dict[str, Gpu]] = {}
        for gpu, (choices, sizes, _) in wanted:
            if not self._steps.setdefault((choices, gpu.name), {}).keys() >= {*sizes}:
                groups.setdefault((choices, _together(sizes)), {})[gpu.name] = gpu
        for (choices, sizes), members in groups.items():
            way, gpus = self.ways.way(choices), list(members.values())
            steps = predict_steps(
                way.workload, gpus, way.run(self.run), sizes, needs=self._need(choices), dtype=np.float32, by_kind=False
            )
            for place, gpu in enumerate(gpus):
                seconds = steps.step_s[:, place].tolist()
                bounds = [steps.bound_name(point, place) for point in range(len(sizes))]
                self._steps[choices, gpu.name].update(zip(sizes, zip(seconds, bounds, strict=True), strict=True))

    def soonest(self, gpu: Gpu, tried: Sequence[Tried]) -> JobPace:
        """Return the fastest or, among those nearly as fast, the one with the smallest batch."""
        able = [one for one in tried if one.fits] or [min(tried, key=lambda one: self.least_bytes(gpu, one))]
        rates = [
            (size / self._steps[choices, gpu.name][size][0], -size, place)
            for place, (choices, sizes, _) in enumerate(able)
            for size in sizes
        ]
        least = _ENOUGH * max(rates)[0]
        _, size, place = max((one for one in rates if one[0] >= least), key=lambda one: (one[1], one[0]))
        return self.pace(gpu, able[place].choices, -size)

    def least_bytes(self, gpu: Gpu, one: Tried) -> float:
        return self._need(one.choices).total_bytes(gpu, -(-one.sizes[0] // one.choices.accumulate))

    def pace(self, gpu: Gpu, choices: Choices, batch: int) -> JobPace:  # its step must be priced
        step_s, bound = self._steps[choices, gpu.name][batch]
        held, room = self._need(choices).total_bytes(gpu, -(-batch // choices.accumulate)), room_of(gpu).usable_bytes
        return JobPace(gpu=gpu, choices=choices, batch=batch, step_s=step_s, memory_bytes=held, usable_bytes=room, bound=bound)


def _together(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes to evaluate for these: parts of the grid grow by three, so that there are few groups of GPUs.

    >>> _together((1, 2, 4, 8)), _together((24,))
    ((1, 2, 4, 8, 16, 32), (24,))
    """
    return GRID[: -(-len(sizes) // _BAND) * _BAND] if sizes == GRID[: len(sizes)] and len(sizes) > 1 else sizes
