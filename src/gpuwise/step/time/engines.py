"""Software that generates text with language models: what each engine can run, and the constants fitted for it.

`data/engines` has a file of facts for each engine. `tools/fit_language` writes `data/fitted_engines.json`: the constants of
its kernels and its cost on the host. An engine without its own measurements uses those of the engine it is `like`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import inf

import msgspec

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.text import either, the
from gpuwise.core.units import parse
from gpuwise.hardware.tables import parse_toml
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.step.types import Stack
from gpuwise.workload.language.weight_formats import FORMATS, MXFP4_IN_GGUF, Format

__all__ = [
    "PIPELINED",
    "PREFERRED",
    "Engine",
    "Fitted",
    "Limit",
    "engine_range",
    "engine_stack",
    "engines",
    "find_engine",
    "fitted_engines",
    "measured_gpus",
    "prompt_gain",
    "refusal",
    "usual_split",
    "weights_in",
]


PREFERRED = ("vllm", "llama.cpp", "transformers", "tensorrt-llm", "exllama", "mlx")  # the order in which engines are tried

PIPELINED = "linear.pipelined"  # the constant that says how well chunks of a prompt are pipelined through several GPUs
_PIPELINED = 0.5  # for an engine without measurements


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The devices on which an engine supports a format: the lowest compute capability of NVIDIA GPUs, the generations of AMD
    GPUs and the makers (unless all that the engine supports), and whether CPUs are included.
    """

    nvidia: float = 0.0
    amd: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    cpu: bool = True


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine. `formats` and `caches` are the formats that it supports, and `experimental` are formats that it supports too
    poorly to predict. `splits` are the ways in which it uses several GPUs, the default first.

    `batching`: continuous (requests join and leave at every step) or static. A pass reads at most `chunk` tokens of a prompt.
    `reserves_fraction` of a GPU's memory is reserved at the start; `fixed_bytes` are needed besides weights and cache.
    `offloads`: layers that do not fit run on the CPU. `limits` and `kv_limits` list formats of weights and caches that need
    newer devices than the engine itself; `amd` lists the supported generations of AMD GPUs, unless all are supported.
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    like: str = ""
    vendors: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    experimental: tuple[str, ...] = ()
    default_format: str = "bf16"
    caches: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    runs_on_cpu: bool = False
    offloads: bool = False
    least_capability: float = 0.0
    amd: tuple[str, ...] = ()
    limits: dict[str, Limit] = {}
    kv_limits: dict[str, Limit] = {}
    batching: str = "static"
    chunk: int = 0
    reserves_fraction: float = 0.0
    fixed_bytes: float = 0.0
    sources: tuple[str, ...] = ()

    @property
    def measured_as(self) -> str:
        """The engine whose measurements it uses."""
        return self.like if self.like and self.name not in fitted_engines() else self.name


class Fitted(msgspec.Struct, frozen=True):
    """The values fitted for one engine: kernel constants for all formats and for each family of formats, seconds on the host, how
    many rows on which GPUs, and for each phase the range that holds 8 of 10 rows from a GPU left out of the fit.
    """

    rows: int
    gpus: tuple[str, ...]
    layer_s: float
    step_s: float
    constants: dict[str, float]
    families: dict[str, dict[str, float]]
    ranges: dict[str, tuple[float, float]]
    fused_attention: bool = True


@cache
def engines() -> Mapping[str, Engine]:
    """Return every engine by name."""
    folder = files("gpuwise.step") / "data" / "engines"
    tables = {
        entry.name.removesuffix(".toml"): parse_toml(entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return {name: _engine(name, tables) for name in sorted(tables)}


def _engine(name: str, tables: Mapping[str, dict[str, object]]) -> Engine:
    own = tables[name]
    base = {} if not own.get("like") else {key: value for key, value in tables[str(own["like"])].items() if key != "aliases"}
    table = {**base, **own, "name": name}
    table["fixed_bytes"] = parse(str(table["fixed_bytes"]), "bytes")
    return msgspec.convert(table, Engine)


@cache
def fitted_engines() -> Mapping[str, Fitted]:
    """Return the fitted values by engine name."""
    data = (files("gpuwise.step") / "data" / "fitted_engines.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Fitted])


def measured_gpus(engine: Engine) -> frozenset[str]:
    """Return the names of the GPUs on which any version of an engine was measured."""
    own = engine.measured_as
    return frozenset(gpu for name, one in fitted_engines().items() if name.split(" ")[0] == own for gpu in one.gpus)


def find_engine(text: str) -> Engine:
    """Return the engine with this name.

    >>> find_engine("Llama.cpp").name
    'llama.cpp'
    """
    name = text.strip().lower()
    for engine in engines().values():
        if name in (engine.name, engine.title.lower(), *engine.aliases):
            return engine
    raise UnknownName(f"unknown engine '{text}'", known=", ".join(engines()), hint="try `--engine vllm` or `--engine llama.cpp`")


def refusal(engine: Engine, gpu: Gpu, weights: str = "", cache: str = "") -> BadValue | None:
    """Return why this engine cannot run on this device in these formats, and what would work; None if it can run."""
    if not _runs_on(engine, gpu):
        return _no_device(engine, gpu)
    if weights and not _holds(engine, gpu, weights, engine.formats, engine.limits):
        return _no_format(engine, gpu, weights)
    if cache and not _holds(engine, gpu, cache, engine.caches, engine.kv_limits):
        able = _held(engine, gpu, engine.caches, engine.kv_limits)
        why = _why(engine, gpu, engine.kv_limits.get(cache)) if cache in engine.caches else ""
        return BadValue(
            f"{engine.title} does not support a key-value cache in {cache}" + (f" on {the(gpu.name)}{why}" if why else ""),
            known=", ".join(able),
            hint=f"try `--kv {_nearest(cache, able)}`",
        )
    return None


def _no_device(engine: Engine, gpu: Gpu) -> BadValue:
    others = [one.name for one in _preferred() if _runs_on(one, gpu)]
    needs = f"only on devices from {either(engine.vendors)}" + (" and on CPUs" if engine.runs_on_cpu else "")
    if gpu.vendor in engine.vendors and not gpu.is_cpu:
        needs = f"which is too old ({engine.title} needs {_least(engine, gpu)} or newer)"
    return BadValue(
        f"{engine.title} does not run on the {gpu.name}, {needs}",
        hint=f"use one of these engines instead: {', '.join(others)}"
        if others
        else "choose another GPU, because no known engine runs on this one",
    )


def _no_format(engine: Engine, gpu: Gpu, weights: str) -> BadValue:
    """Say what this engine runs on this device instead, and which engines run these weights there."""
    known = weights in engine.formats
    where = f" on {the(gpu.name)}{_why(engine, gpu, engine.limits.get(weights))}" if known else ""
    where = ", except experimentally" if weights in engine.experimental else where
    able = _held(engine, gpu, engine.formats, engine.limits)
    others = [one.name for one in _preferred() if one != engine and _runs_on(one, gpu)]
    others = [name for name in others if _holds(engines()[name], gpu, weights, engines()[name].formats, engines()[name].limits)]
    ways = [f"`--engine {others[0]}`"] if others else []
    ways += [f"`--weights {_nearest(weights, able)}`"] if able else []
    return BadValue(
        f"{engine.title} does not support {weights} weights{where}",
        known=", ".join(able),
        hint=f"use {either(ways)}" if ways else "choose another engine, because this one has no format for this device",
    )


def _held(engine: Engine, gpu: Gpu, names: tuple[str, ...], limits: Mapping[str, Limit]) -> list[str]:
    """Return those of these formats that an engine supports on this device."""
    return [name for name in names if _holds(engine, gpu, name, names, limits)]


def _holds(engine: Engine, gpu: Gpu, name: str, names: tuple[str, ...], limits: Mapping[str, Limit]) -> bool:
    return name in names and (name not in limits or _within(engine, gpu, limits[name]))


def _within(engine: Engine, gpu: Gpu, limit: Limit) -> bool:
    if gpu.is_cpu:
        return limit.cpu
    if gpu.vendor not in (limit.vendors or engine.vendors):
        return False
    if gpu.vendor == "AMD" and limit.amd and gpu.architecture.generation not in limit.amd:
        return False
    return _capability(gpu) >= limit.nvidia


def _why(engine: Engine, gpu: Gpu, limit: Limit | None) -> str:
    """Return the feature that this device lacks for a format, as the end of a sentence."""
    if limit is None or gpu.is_cpu:
        return ""
    if gpu.vendor not in (limit.vendors or engine.vendors):
        return f", only on GPUs from {either(limit.vendors)}"
    if gpu.vendor == "AMD":
        return f", only on {either(name.upper() for name in limit.amd)}"
    return f", which has compute capability {_capability(gpu):.1f}; {limit.nvidia:.1f} or higher is needed"


def _nearest(name: str, able: Sequence[str]) -> str:
    """Return the format with the closest whole number of bits (the first of several), except formats that only experts use."""
    bits = {one: int(8.0 * (FORMATS[one].bytes_a_weight if one in FORMATS else DTYPE_BYTES[one])) for one in (name, *able)}
    common = [one for one in able if one not in FORMATS or not FORMATS[one].experts_only]
    return min(common or able, key=lambda one: abs(bits[one] - bits[name]))


def _preferred() -> list[Engine]:
    """Return all engines, the most common ones first."""
    return [engines()[name] for name in dict.fromkeys((*PREFERRED, *engines()))]


def weights_in(engine: Engine, name: str) -> Format:
    """Return a format of weights as this engine stores it: engines that read GGUF files pack what is outside the experts too."""
    return MXFP4_IN_GGUF if name == "mxfp4" and "q8_0" in engine.formats else FORMATS[name]


def usual_split(engine: Engine, heads: int, gpu_count: int) -> str:
    """Return how this engine spreads a model with this many attention heads over several GPUs, or an empty string if it cannot.
    Matrices are divided by heads, so the number of heads must be a multiple of the number of GPUs.
    """
    return next((split for split in engine.splits if split != "tensor" or heads % gpu_count == 0), "")


def _runs_on(engine: Engine, gpu: Gpu) -> bool:
    if gpu.is_cpu:
        return engine.runs_on_cpu
    if gpu.vendor not in engine.vendors:
        return False
    if gpu.vendor == "AMD" and engine.amd and gpu.architecture.generation not in engine.amd:
        return False
    return _capability(gpu) >= engine.least_capability


def _least(engine: Engine, gpu: Gpu) -> str:
    """Return the oldest GPU of this maker that an engine runs on."""
    return engine.amd[0].upper() if gpu.vendor == "AMD" else f"compute capability {engine.least_capability:g}"


def _capability(gpu: Gpu) -> float:
    """Return the compute capability; infinite for other makers' GPUs, which have no such restriction."""
    try:
        return float(gpu.architecture.capability) if gpu.vendor == "NVIDIA" else inf
    except ValueError:
        return inf


def prompt_gain(engine: Engine, prompt: int, gpu_count: int, pipelined: float = 0.0) -> float:
    """Return how much faster layers on several GPUs read a prompt than one GPU does: its chunks are pipelined through them.

    The ideal gain is raised to the power `pipelined`, by default as fitted for the engine: 1 is ideal, 0 is no gain.
    """
    chunks = -(-prompt // (engine.chunk or prompt))
    power = pipelined or fitted_engines()[engine.measured_as].constants.get(PIPELINED, _PIPELINED)
    return float((chunks * gpu_count / (chunks + gpu_count - 1)) ** power)


def engine_stack(engine: Engine, phase: str, family: str, version: str = "") -> Stack:
    """Return the engine as the software of a pass (reading a prompt or decoding), with weights of this family of formats.
    Versions other than the newest are kept for the measurements made with them.
    """
    found = fitted_engines()[f"{engine.measured_as} {version}".strip()]
    own = found.families.get(family) or _mean(found.families)
    low, high, rows = engine_range(engine, phase)
    return Stack(
        name=engine.name,
        framework=engine.name,
        version=(0, 0),
        how="graph",
        rows=rows,
        widths=(low, high),
        fused_attention=found.fused_attention,
        constants={**found.constants, **own},
        layer_s=found.layer_s,
        step_s=found.step_s,
    )


def _mean(families: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over the measured families, for a family that was not measured with this engine."""
    names = {name for one in families.values() for name in one}
    found = {}
    for name in names:
        values = [one[name] for one in families.values() if name in one]
        product = 1.0
        for value in values:
            product *= value
        found[name] = product ** (1.0 / len(values))
    return found


def engine_range(engine: Engine, phase: str) -> tuple[float, float, int]:
    """Return measured over predicted, low and high, and the number of rows behind them (0: assumed, for an engine without rows of
    its own).
    """
    found = fitted_engines()[engine.measured_as]
    low, high = found.ranges[phase]
    if engine.measured_as == engine.name:
        return low, high, found.rows
    return low / 1.15, high * 1.15, 0  # assumed for an engine that only resembles a measured one
