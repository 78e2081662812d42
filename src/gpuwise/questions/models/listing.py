"""Every model that can be used by name: those whose steps are included, and language models known by their sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuwise.workload.language.find import known_names, named_shape
from gpuwise.workload.store import zoo
from gpuwise.workload.store.pipelines import pipelines

__all__ = ["Listed", "listed_models"]

_FAMILIES = {"distilgpt": "gpt2", "codellama": "llama"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model, and what can be asked about it; `batch`, `seq` and `image` are the usual ones of a step."""

    name: str
    title: str
    family: str
    aliases: tuple[str, ...]
    parameters: int
    batch: int | None = None
    seq: int | None = None
    image: int | None = None
    trains: bool = False
    generates: bool = False

    @property
    def uses(self) -> str:
        """What can be asked: "train", "generate" or both."""
        return ", ".join(word for word, can in (("train", self.trains), ("generate", self.generates)) if can)


def listed_models() -> tuple[Listed, ...]:
    """All of them, family by family in the order of the zoo. A language model with the steps of another is one of its aliases."""
    included = (_included(entry) for entry in zoo.entries().values())
    found = {one.name: one for one in included if one.uses}  # without parts of programs that are never trained
    for model in known_names():
        short = _short(model)
        if not zoo.has(model):
            found[short] = _known_by_sizes(model, short)
            continue
        twin = found[zoo.entry(model).name]
        if zoo.key(short) not in map(zoo.key, (twin.name, twin.title, *twin.aliases)):
            found[twin.name] = replace(twin, aliases=(*twin.aliases, short))
    return _by_family(found.values())


def _included(entry: zoo.Entry) -> Listed:
    return Listed(
        name=entry.name,
        title=entry.title,
        family=entry.family,
        aliases=entry.aliases,
        parameters=entry.parameters,
        batch=entry.batch,
        seq=entry.seq,
        image=entry.image,
        trains=any(stored.mode == "train" for stored in entry.graphs),
        generates=any(stored.phase for stored in entry.graphs) or entry.name in _drawing(),
    )


def _drawing() -> frozenset[str]:
    """Models that make images, with others around them."""
    return frozenset(pipeline.denoiser for pipeline in pipelines())


def _known_by_sizes(model: str, short: str) -> Listed:
    shape = named_shape(model)
    parameters = shape.parameters if shape else 0
    return Listed(name=short, title=model, family=_family(short), aliases=(model,), parameters=parameters, generates=True)


def _short(model: str) -> str:
    """The name without its owner, as people type it: `Qwen/Qwen3-235B-A22B` is `qwen3-235b-a22b`."""
    return model.rpartition("/")[2].lower().removeprefix("c4ai-")


def _family(short: str) -> str:
    """The letters that a name begins with; GPT has families of its own."""
    found = re.match(r"gpt-[a-z]+|[a-z]+", short)
    name = found[0] if found else short
    return _FAMILIES.get(name, name)


def _by_family(models: Iterable[Listed]) -> tuple[Listed, ...]:
    families: dict[str, list[Listed]] = {}
    for model in models:
        families.setdefault(model.family, []).append(model)
    return tuple(model for family in families.values() for model in family)
