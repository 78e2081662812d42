"""The zoo: workloads of well-known models, shipped as data, so that no framework is needed for them.

Each model is stored as a few graphs (training and inference, fp32 and mixed precision; language models also prefill and decode).
`rewrite` derives other precisions, optimizers and layouts from them. `tools/build_zoo.py` captures them again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.edit import Graph, workload_of
from gpuwise.workload.model.types import Settings, Workload, no_collection
from gpuwise.workload.store import packing
from gpuwise.workload.transform import relatives as rewrite

if TYPE_CHECKING:
    from gpuwise.workload.language.shape import LanguageShape

__all__ = ["Entry", "Stored", "at_its_size", "close", "entries", "entry", "has", "key", "load", "names", "own_name"]

_DATA = files("gpuwise.workload") / "data" / "zoo"
_KEPT = 32  # workloads, of 1 to 8 MB each
_NAMES_KEPT = 1024
_TRAINED_FOR = re.compile(r"[_-]\d+x([_-]coco)?$", re.IGNORECASE)  # the length of training, in names of detectors
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/([\w.-]{1,96})")  # of the Hugging Face Hub: its longest names, and no `./`
_LOW = {"fp16": "fp16", "bf16": "bf16", "fp8": "bf16"}  # fp8 recipes keep tensors in bf16 between matrix products


class Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One graph in a model's file. Its default sizes are the model's unless it has its own; a sequence of 0 means it has none."""

    mode: str
    precision: str
    phase: str = ""
    batch: int | None = None
    seq: int | None = None
    symbols: tuple[str, ...] = ("batch",)
    notes: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model in the zoo. `batch`, `seq`, `image` and `optimizer` are the values with which people usually train it;
    `longest` is the longest sequence it has positions for.
    """

    name: str
    title: str
    family: str
    source: str
    parameters: int
    batch: int
    optimizer: str
    aliases: tuple[str, ...] = ()
    seq: int | None = None
    longest: int | None = None
    image: int | None = None
    options: dict[str, int | str] = {}
    notes: tuple[str, ...] = ()
    graphs: tuple[Stored, ...] = ()


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    models: tuple[Entry, ...]


# ---------------------------------------------------------------- names


@cache
def entries() -> dict[str, Entry]:
    """Return every model in the zoo by name, in the order of families."""
    index = msgspec.json.decode((_DATA / "index.json").read_bytes(), type=_Index)
    return {found.name: found for found in index.models}


@cache
def _by_key() -> dict[str, str]:
    known: dict[str, str] = {}
    for found in entries().values():
        for spelling in (found.name, found.title, *found.aliases):
            known.setdefault(key(spelling), found.name)
    return known | {key(name): name for name in entries()}


def key(name: str) -> str:
    """Return a name without case, spaces, dashes, underscores and slashes. Dots are kept: they distinguish 1.3b from 13b.

    >>> key("ResNet-50") == key("resnet_50")
    True
    """
    return re.sub(r"[\s_/-]+", "", name.lower())


def own_name(model: str) -> str:
    """Return the name of a model on the Hugging Face Hub without its publisher. Other names and paths are returned as they are.

    >>> own_name("openai/whisper-small"), own_name("whisper-small")
    ('whisper-small', 'whisper-small')
    """
    found = _HUB_ID.fullmatch(model)
    return found[1] if found and not Path(model).exists() else model


def names() -> tuple[str, ...]:
    """Return the names of all models."""
    return tuple(entries())


def has(model: str) -> bool:
    """Return whether the zoo has a model with this name or alias, or a language model with the same sizes."""
    return _name_of(model) is not None


@lru_cache(maxsize=_NAMES_KEPT)
def _name_of(model: str) -> str | None:
    """Return the model for this name. A language model that is derived from another, or known by one of its many other names,
    has no separate graph: it uses the steps of the model with its sizes.
    """
    found = _by_key().get(key(model)) or _by_key().get(key(_TRAINED_FOR.sub("", model)))
    if found is None:
        from gpuwise.workload.language.find import twin_of  # reads tables that other models do not need

        twin = twin_of(model)
        found = _by_key().get(key(own_name(model))) if twin is None else _by_sizes().get(twin)
    return found


@cache
def _by_sizes() -> Mapping[tuple[str, LanguageShape] | None, str]:
    """Return the zoo's language models by the values that models with the same step share."""
    from gpuwise.workload.language.find import twin_of

    known: dict[tuple[str, LanguageShape] | None, str] = {}
    for found in entries().values():
        if found.seq is not None and (twin := twin_of(found.source.removeprefix("hf:"))) is not None:
            known.setdefault(twin, found.name)
    return known


def close(model: str, count: int = 3) -> tuple[str, ...]:
    """Return names that the user may have meant, nearest first."""
    near = difflib.get_close_matches(key(model)[:80], _by_key(), n=count * 3, cutoff=0.6)
    return tuple(dict.fromkeys(_by_key()[found] for found in near))[:count]


def entry(model: str) -> Entry:
    """Return the zoo's entry for the model with this name or alias."""
    name = _name_of(model)
    if name is None:
        near = close(model)
        hint = (
            "did you mean " + either(f"`{other}`" for other in near) + "?"
            if near
            else "use a prefix for models from other sources: `timm:NAME` or `hf:NAME`"
        )
        raise UnknownName(f"unknown built-in model '{model}'", looked_in=f"{len(entries())} models and their aliases", hint=hint)
    return entries()[name]


# ---------------------------------------------------------------- workloads


def load(model: str, request: Request | None = None) -> Workload:
    """Return the workload of a model at its default sizes with these settings or, without a request, one fp32 training step."""
    found = entry(model)
    if request is None:
        mode = "train" if any(stored.mode == "train" for stored in found.graphs) else "infer"
        request = Request(model=found.name, settings=Settings(mode=mode, optimizer=found.optimizer))
    image = request.image if request.image not in (None, found.image) and _pair(found) else None
    if image:
        request = msgspec.structs.replace(request, image=None)
    _refuse_what_needs_a_capture(found, request)
    _refuse_too_long(found, request)
    wanted = msgspec.structs.replace(request, model=found.name, batch=None, seq=None)
    return _at_side(wanted, image) if image else _loaded(wanted)


# Image networks that are stored at two sizes, the second with twice the side of the first.
_PAIRS = (
    ("sd15_unet", "sd15_unet_1024"),
    ("sd2_unet_256", "sd2_unet"),
    ("sdxl_unet_512", "sdxl_unet"),
    ("sd_vae_decoder", "sd_vae_decoder_1024"),
    ("vae16_decoder_512", "vae16_decoder_1024"),
    ("sd15_controlnet_512", "sd15_controlnet_1024"),
    ("sdxl_controlnet_512", "sdxl_controlnet_1024"),
)
_SIDES = 64, 4096  # pixels: multiples of the first, up to the second
_LIBRARIES = ("timm", "torchvision")
_WIDE_WINDOWS = 384  # pixels, at which Swin has windows of 12 instead of 7
_DETECTORS = ("ssd", "mask_rcnn")  # their libraries' versions select boxes by value, so they cannot be captured


def at_its_size(request: Request) -> Request:
    """Return a request that names the library's model if the zoo has this model only for images of another size."""
    if request.image is None or not has(request.model):
        return request
    found, library = entry(request.model), entry(request.model).source.split(",")[0]
    fits = request.image == found.image or _pair(found) is not None or found.family in _DETECTORS
    if fits or library.partition(":")[0] not in _LIBRARIES:
        return request
    wider = library.replace("window7_224", "window12_384") if request.image == _WIDE_WINDOWS else library
    return msgspec.structs.replace(request, model=wider)


def _pair(found: Entry) -> tuple[str, str] | None:
    """Return the two names under which this network is stored at two sizes."""
    return next((pair for pair in _PAIRS if found.name in pair), None)


@lru_cache(maxsize=_KEPT)
def _at_side(request: Request, side: int) -> Workload:
    """Return this request's network for images with another side, derived from two stored sizes."""
    from gpuwise.workload.transform.resize import resized

    found = entry(request.model)
    step, most = _SIDES
    if side % step or not step <= side <= most:
        near = min(most, max(step, step * round(side / step)))
        raise BadValue(
            f"{found.title} works on images with sides of {step} to {most} pixels in steps of {step}, not {side}",
            hint=f"try `--image {near}`",
        )
    small, large = _pair(found) or ("", "")
    one, two = (_loaded(msgspec.structs.replace(request, model=name)) for name in (small, large))
    made = resized(one, two, side / (entry(small).image or side))
    return replace(made, model=found.name, batch=found.batch, options={**made.options, "image": side})


@lru_cache(maxsize=_KEPT)
def _loaded(request: Request) -> Workload:
    """Return one workload for all sizes. It is cached, so later calls neither read it again nor recompute values cached on its
    form.
    """
    with no_collection():
        return _made(entry(request.model), request)


def _made(found: Entry, request: Request) -> Workload:
    settings = request.settings
    stored, graph = _graph(found, settings, _phase(found, request))
    if settings.channels_last:
        graph = rewrite.channels_last(graph)
    if settings.mode == "train":
        graph = rewrite.with_optimizer(graph, settings.optimizer, settings.implementation)
    return workload_of(
        graph,
        model=found.name,
        source="zoo",
        mode=settings.mode,
        precision=settings.precision,
        optimizer=settings.optimizer if settings.mode == "train" else "",
        options=_options(found, request),
        batch=stored.batch or found.batch,
        seq=found.seq if stored.seq is None else stored.seq or None,
        symbols=stored.symbols,
        parameters=found.parameters,
        notes=(*found.notes, *stored.notes),
    )


def _phase(found: Entry, request: Request) -> str:
    """Return the requested phase. For a model that generates text, inference means prefill unless stated otherwise."""
    whole = any((row.mode, row.phase) == (request.settings.mode, "") for row in found.graphs)
    return request.phase if request.phase or whole or request.settings.mode == "train" else "prefill"


def _refuse_what_needs_a_capture(found: Entry, request: Request) -> None:
    settings = request.settings
    wishes = {
        f"--image {request.image}": request.image not in (None, found.image),
        f"--accumulate {settings.accumulate}": settings.accumulate != 1,
        "--checkpoint": settings.checkpoint,
        "--clip": settings.clip,
        "--input": bool(request.inputs),
    }
    asked = [wish for wish, given in wishes.items() if given]
    if asked:
        size = f", captured at image size {found.image}," if found.image else ""
        known = found.source.split(",")[0]
        anew = known.startswith(("timm:", "torchvision:", "hf:"))
        where = f"`{known}`, which captures the model again" if anew else "your own code, as `file.py:Net`"
        raise BadValue(f"the built-in {found.name}{size} cannot be changed with {asked[0]}", hint=f"use {where}")


def _refuse_too_long(found: Entry, request: Request) -> None:
    """Refuse more tokens than the model has positions for; another model with the same sizes may have more."""
    if request.seq is None or found.longest is None or request.seq <= found.longest:
        return
    from gpuwise.workload.language.find import named_shape

    shape = named_shape(request.model)
    longest = max(found.longest, shape.context if shape else 0)
    if request.seq > longest:
        raise BadValue(
            f"{found.name} supports at most {longest:,} tokens, so --seq {request.seq} is too long",
            hint=f"use at most `--seq {longest}`, or a model with a longer context",
        )


def _graph(found: Entry, settings: Settings, phase: str) -> tuple[Stored, Graph]:
    """Return the stored graph nearest to these settings, and how it is rewritten to their precision."""
    rows = {row.precision: number for number, row in enumerate(found.graphs) if (row.mode, row.phase) == (settings.mode, phase)}
    if not rows:
        known = sorted({f"{row.mode} {row.phase}".strip() for row in found.graphs})
        if settings.mode == "train" and not phase:
            raise _not_trained(found)
        raise BadValue(
            f"there is no built-in {f'{settings.mode} {phase}'.strip()} workload for {found.name}",
            known=", ".join(known),
            hint="leave out `--phase`" if phase else f"try `--mode {known[0].split()[0]}`",
        )
    mixed = settings.precision.startswith("amp")
    wanted = "amp" if mixed else "bf16" if settings.precision in _LOW and "bf16" in rows else "fp32"
    if wanted not in rows:
        raise BadValue(
            f"there is no built-in {settings.precision} {phase} workload for {found.name}",
            hint="use `--precision bf16`, as servers do",
        )
    graph = packing.unpack((_DATA / f"{found.name}.json.gz").read_bytes(), rows[wanted], f"the zoo's {found.name}")
    return found.graphs[rows[wanted]], _in_precision(graph, settings.precision, wanted)


def _not_trained(found: Entry) -> BadValue:
    """Say that training is not covered, and which large models of the family can be trained."""
    family = [one for one in entries().values() if one.family == found.family and any(row.mode == "train" for row in one.graphs)]
    largest = sorted(family, key=lambda one: -one.parameters)[:4]
    others = either(f"`{(one.aliases or (one.name,))[0]}`" for one in largest)
    return BadValue(
        f"training {found.title} is not covered, with all weights or with adapters; it is included for inference only",
        hint="use `--mode infer`" + (f", or train another model of its kind, such as {others}" if others else ""),
    )


def _in_precision(graph: Graph, precision: str, stored: str) -> Graph:
    if precision == "amp-bf16":
        return rewrite.retyped(rewrite.unscaled(graph), {"fp16": "bf16"})
    if precision not in _LOW:
        return graph  # fp32, amp, and tf32, which only the kernels treat differently from fp32
    if stored == "fp32":
        return rewrite.narrowed(graph, _LOW[precision])
    return rewrite.retyped(graph, {"bf16": _LOW[precision]})


def _options(found: Entry, request: Request) -> dict[str, bool | int | str]:
    """Return the settings that differ from the defaults, for the record."""
    options: dict[str, bool | int | str] = dict(found.options)
    if found.image is not None:
        options["image"] = found.image
    if phase := _phase(found, request):
        options["phase"] = phase
    if request.settings.channels_last:
        options["channels_last"] = True
    if request.settings.mode == "train" and request.settings.implementation != "foreach":
        options["implementation"] = request.settings.implementation
    return options
