"""The catalogue of known GPUs, and the lookup from a name to a product.

A name is split into tokens (`NVIDIA GeForce RTX 4090 Laptop GPU` -> rtx, 4090, laptop). A product matches if it accounts for
every token in the name. If several match, the one that adds the least detail is chosen and the others are reported. Names are
never matched by substring, so `3090 Ti` never becomes `3090`, and `A10` never becomes `A100`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property, lru_cache
from pathlib import Path

from gpuwise.core.errors import UnknownName
from gpuwise.core.text import either
from gpuwise.core.units import GIB
from gpuwise.hardware import specs, tables
from gpuwise.hardware.types import Gpu

__all__ = ["VENDORS", "Catalog", "Match", "NameIndex", "added_products", "load_catalog", "shows_size", "tokens", "without_size"]

# ---------------------------------------------------------------- names

_VENDOR_WORDS = {
    "nvidia": "NVIDIA",
    "geforce": "NVIDIA",
    "tesla": "NVIDIA",
    "amd": "AMD",
    "ati": "AMD",
    "radeon": "AMD",
    "instinct": "AMD",
    "intel": "Intel",
    "apple": "Apple",
    "google": "Google",
}
VENDORS = frozenset(vendor.lower() for vendor in _VENDOR_WORDS.values())
# Words that do not distinguish products.
_NOISE = frozenset(_VENDOR_WORDS) | frozenset(
    "gpu graphics card with design the corporation inc tm r founders edition generation accelerator cloud sramecc xnack vf "
    "asus msi evga gigabyte zotac palit pny sapphire powercolor".split()
)
_SAME = {
    "mobile": "laptop",
    "notebook": "laptop",
    "lp": "laptop",
    "sxm2": "sxm",
    "sxm3": "sxm",
    "sxm4": "sxm",
    "sxm5": "sxm",
    "pci": "pcie",
    "pcie3": "pcie",
    "pcie4": "pcie",
    "pcie5": "pcie",
    "s": "super",
}
_LINES = "rtx gtx gt rx arc titan quadro tpu jetson pro geforce radeon tesla".split()
_MODEL = re.compile(r"(\d{3,4})(ti|super|laptop|mobile|maxq|xtx|xt|gre|ada|max|pro|ultra|d|s)(.*)")
# Details of a product that people may leave out, with a score for how surprising it is if the catalogue fills one in.
_OPTIONAL_COST = {
    "rtx": 0.1,
    "gtx": 0.1,
    "gt": 0.3,
    "rx": 0.1,
    "arc": 0.1,
    "quadro": 0.2,
    "titan": 0.3,
    "jetson": 0.1,
    "tpu": 0.1,
}
_VARIANT = re.compile(r"\d+gb|pcie|sxm\d?|nvl|dgxs|\d+core|blackwell|ada|hbm\d?e?|refresh")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)gb")
# Share of the memory that drivers report: they reserve a little, and ECC on GDDR takes a sixteenth (a 16 GiB T4 shows 14.6 to
# 15).
_SHOWN_FRACTION = 0.975
_ECC_FRACTION = 15 / 16
_WITH_ECC = frozenset(("datacenter", "workstation"))  # used when a row does not specify it
_LONGEST_NAME = 80
_VARIANT_COST = 0.5
_PRODUCT_COSTS = {"laptop": 2.0, "maxq": 6.0}
_PRODUCT_COST = 5.0


def tokens(name: str) -> tuple[str, ...]:
    """Return the parts of a name that distinguish products, each in one spelling.

    >>> tokens("NVIDIA GeForce RTX 2070 with Max-Q Design")
    ('rtx', '2070', 'maxq')
    """
    text = name.lower().replace("™", " ").replace("®", " ").replace("(r)", " ").replace("(tm)", " ")
    text = re.sub(r"max[\s_-]?q", "maxq", text)
    text = re.sub(r"(\d{4,6})[\s_-]*(?:mib|mb)\b", lambda found: f" {int(found[1]) / 1024:.4g}gb ", text)
    text = re.sub(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)[\s_-]*(?:gib|gb|g)\b", r" \1gb ", text)
    text = re.sub(r"(\d+)[\s_-]*cores?\b", r" \1core ", text)
    words = [part for word in re.split(r"[^a-z0-9.+]+", text) for part in _split(word.strip(".+"))]
    return tuple(word for word in words if word and word not in _NOISE)


@lru_cache(4096)
def _split(word: str) -> tuple[str, ...]:
    """`rtx3090ti` -> rtx, 3090, ti; `rtxa6000` -> rtx, a6000, which stays whole."""
    for line in _LINES:
        if word.startswith(line) and re.match(r"\d|a\d{3,4}$|pro\d", word[len(line) :]):
            return line, *_split(word[len(line) :])
    match = _MODEL.fullmatch(word)
    if match:
        return match[1], match[2], *(_split(match[3]) if match[3] else ())
    return (word,)


def _unified(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(_SAME.get(word, word) for word in words)


def _is_model_number(word: str) -> bool:
    """Return whether a token is a model number: `3090`, `a100` and `t4` are; `5`, `16gb`, `8core` and `sxm4` are not."""
    if word.isdigit():
        return len(word) >= 3
    return any(letter.isdigit() for letter in word) and not re.fullmatch(r"\d+(\.\d+)?gb|\d+core|sxm\d|hbm\d?e?|gddr\d\w?", word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The product chosen for a name, and the others the name could have meant."""

    gpu: Gpu
    others: tuple[Gpu, ...] = ()


class NameIndex:
    """Products by the tokens of their names and aliases."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self.gpus = gpus
        self._as_written: dict[tuple[str, ...], list[Gpu]] = defaultdict(list)
        self._unified: dict[tuple[str, ...], list[Gpu]] = defaultdict(list)
        self._by_token: dict[str, list[tuple[frozenset[str], Gpu]]] = defaultdict(list)
        for gpu in gpus:
            for name in (gpu.name, *gpu.aliases):
                self._add(name, gpu)

    def _add(self, name: str, gpu: Gpu) -> None:
        raw = tokens(name)
        for index, words in ((self._as_written, raw), (self._unified, _unified(raw))):
            entries = index[tuple(sorted(words))]
            if gpu not in entries:
                entries.append(gpu)
        if name == gpu.name:
            entry = (frozenset(_unified(raw)), gpu)
            for word in entry[0]:
                self._by_token[word].append(entry)

    def exact(self, name: str) -> Match | None:
        """Return the product with exactly this name or alias, ignoring case, spacing, word order and vendor words."""
        raw = tokens(name)
        found = self._as_written.get(tuple(sorted(raw))) or self._unified.get(tuple(sorted(_unified(raw)))) or []
        found = _of_vendor(found, name)
        if not found:
            return None
        best = max(found, key=_launch)  # `M4` is both a 2015 Tesla card and a 2024 Apple chip
        return Match(gpu=best, others=self._others(frozenset(_unified(raw)), best, found))

    def loose(self, name: str) -> Match | None:
        """Return the product that accounts for every token of the name and adds the least detail."""
        asked = frozenset(_unified(tokens(name)))
        numbers = [word for word in asked if _is_model_number(word)]
        if not numbers:
            return None
        scored = []
        for words, gpu in self._by_token.get(numbers[0], ()):
            if all(_explained(word, words, gpu) for word in asked):
                scored.append((sum(_cost(word) for word in words - asked), gpu))
        candidates = _of_vendor([gpu for _, gpu in scored], name)
        if not candidates:
            return None
        costs = {id(gpu): cost for cost, gpu in scored}
        best = min(candidates, key=lambda gpu: (costs[id(gpu)], _apart(asked, gpu)))
        return Match(gpu=best, others=self._others(asked, best, ()))

    def _others(self, asked: frozenset[str], best: Gpu, found: Sequence[Gpu]) -> tuple[Gpu, ...]:
        """Return other products that have the same name or differ only in details that it leaves open (memory, form factor)."""
        own = frozenset(_unified(tokens(best.name)))
        siblings = [gpu for gpu in found if gpu is not best]
        if any(word.startswith("gfx") for word in asked):  # a chip family, not a product
            return tuple(gpu for gpu in self.gpus if gpu.architecture is best.architecture and gpu is not best)
        if own <= asked:  # the name leaves nothing open
            return tuple(siblings)
        rarest = min(asked, key=lambda word: len(self._by_token.get(word, ())))
        for words, gpu in self._by_token.get(rarest, ()):
            open_detail = (words - asked) | (own - asked)
            if asked <= words and gpu is not best and all(_cost(word) < 1 for word in open_detail):
                siblings.append(gpu)
        return tuple(dict.fromkeys(siblings))

    def close(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Return names that the user may have meant, nearest first."""
        wanted = ("".join(tokens(name)) or name.lower())[:_LONGEST_NAME]
        keys: dict[str, str] = {}
        for gpu in self.gpus:
            keys.setdefault("".join(tokens(gpu.name)), gpu.name)
            for alias in gpu.aliases:
                keys.setdefault("".join(tokens(alias)), gpu.name)
        near = [keys[key] for key in difflib.get_close_matches(wanted, keys, n=count * 3, cutoff=0.6)]
        understood = self.loose(" ".join(word for word in tokens(name) if word in self._by_token))
        if understood is not None:
            near.insert(min(len(near), count - 1), understood.gpu.name)
        return tuple(dict.fromkeys(near))[:count]


def _launch(gpu: Gpu) -> date:
    return gpu.launched_on or date.min


def _of_vendor(gpus: Sequence[Gpu], name: str) -> list[Gpu]:
    named = {_VENDOR_WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _VENDOR_WORDS}
    return [gpu for gpu in gpus if gpu.vendor in named] if named else list(gpus)


def _explained(word: str, words: frozenset[str], gpu: Gpu) -> bool:
    """Return whether the product accounts for this token of the name."""
    if word in words:
        return True
    size = _SIZE.fullmatch(word)
    if size:
        return _shown_gib(gpu) <= float(size[1]) < gpu.memory_bytes / GIB + 0.51
    if word == "laptop":
        return gpu.segment == "laptop"
    if word == "pcie":
        return gpu.cooler not in ("module", "laptop") and gpu.pcie_lanes is not None
    if word == "nvlink":
        return gpu.nvlink_bytes_per_s is not None
    return word == gpu.memory_type.lower() or word == gpu.chip.lower()


def _shown_gib(gpu: Gpu) -> int:
    """Return the smallest size that PyTorch or nvidia-smi show for this GPU's memory, in whole GiB as people write it."""
    checked = gpu.memory_type.startswith("GDDR") and gpu.ecc is not False and (gpu.ecc or gpu.segment in _WITH_ECC)
    whole = gpu.memory_bytes * _SHOWN_FRACTION * (_ECC_FRACTION if checked else 1.0)
    return math.floor(min(whole, gpu.usable_memory_bytes + gpu.slow_memory_bytes) / GIB)


def _apart(asked: Iterable[str], gpu: Gpu) -> float:
    """Return the difference in GiB between the requested memory and the product's."""
    return sum(abs(float(found[1]) - gpu.memory_bytes / GIB) for found in map(_SIZE.fullmatch, asked) if found)


def shows_size(name: str, gpu: Gpu) -> bool:
    """Return whether this GPU has, or is reported with, the memory size in the name."""
    return all(_explained(word, frozenset(), gpu) for word in tokens(name) if _SIZE.fullmatch(word))


def without_size(name: str) -> str | None:
    """Return the name without its memory size, or an empty string if it has no size or consists of nothing else.

    >>> without_size("RTX 3080 20GB")
    'rtx 3080'
    """
    words = tokens(name)
    plain = [word for word in words if not _SIZE.fullmatch(word)]
    return " ".join(plain) if plain and len(plain) < len(words) else None


def added_products(name: str, gpu: Gpu) -> frozenset[str]:
    """Return words that make this a different product from the one named: Ti, Super, Laptop.

    A memory size alone never implies them.
    """
    more = frozenset(_unified(tokens(gpu.name))) - frozenset(_unified(tokens(name)))
    return frozenset(word for word in more if _cost(word) >= 1)


def _cost(word: str) -> float:
    if word in _OPTIONAL_COST:
        return _OPTIONAL_COST[word]
    return _VARIANT_COST if _VARIANT.fullmatch(word) else _PRODUCT_COSTS.get(word, _PRODUCT_COST)


# ---------------------------------------------------------------- the catalogue

_SEVERAL = re.compile(r"(\d{1,4})\s*[x×]?\s+(\S.*)")
_LONGEST = 400  # the longest name or typed spec accepted


class Catalog:
    """All known GPUs: the user's own entries first, then the curated products, then the long tail."""

    def __init__(self, own: Sequence[Gpu] = ()) -> None:
        self._own = tuple(own)

    @cached_property
    def curated(self) -> tuple[Gpu, ...]:
        """The user's own entries and the curated table."""
        names = {gpu.name.lower() for gpu in self._own}
        return self._own + tuple(gpu for gpu in tables.curated_gpus() if gpu.name.lower() not in names)

    @cached_property
    def _own_index(self) -> NameIndex:
        return NameIndex(self._own)

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs, including the long tail."""
        return self.curated + tables.long_tail_gpus()

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(self.curated)

    @cached_property
    def _tail_index(self) -> NameIndex:
        return NameIndex(tables.long_tail_gpus())

    @cached_property
    def _cpu_index(self) -> NameIndex:
        return NameIndex(tables.cpus())

    def find(self, name: str) -> Match:
        """Return the GPU for a name, an alias, a driver string or custom specs, or a CPU if no GPU matches."""
        if len(name) > _LONGEST:
            raise UnknownName(
                f"the GPU name '{name[:40]}…' is too long ({len(name):,} characters)", hint="list all GPUs with `gpuwise gpus`"
            )
        if "=" in name:
            return Match(gpu=specs.gpu_from_text(name, lambda like: self.find(like).gpu))
        match = self.match(name)
        if match is None:
            raise self._unknown(name)
        return match

    def match(self, name: str) -> Match | None:
        """Return the product that a name means, or None, without searching for names with a similar spelling."""
        match = self._own_index.exact(name) or self._index.exact(name) or self._tail_index.exact(name)
        return match or self._cpu_index.exact(name) or self._loose(name)

    def _loose(self, name: str) -> Match | None:
        """Return the product that explains the name with the least added detail. A memory size in the name selects among the
        products that the rest of the name could mean; it never leads to a different product.
        """
        plain = without_size(name)
        named = self._plain(plain) if plain else None
        if plain and named:
            fitting = [gpu for gpu in (named.gpu, *named.others) if shows_size(name, gpu)]
            if fitting:
                return Match(gpu=fitting[0], others=tuple(fitting[1:]))
        match = self._index.loose(name) or self._tail_index.loose(name) or self._cpu_index.loose(name)
        if match and plain and named and not added_products(name, match.gpu) <= added_products(plain, named.gpu):
            return None
        return match

    def _of_size(self, name: str) -> tuple[Gpu, ...]:
        """Return another product of the series that has the requested memory."""
        match = self._index.loose(name) or self._tail_index.loose(name)
        return (match.gpu,) if match else ()

    def _plain(self, name: str) -> Match | None:
        """Return the GPU for a name without a memory size."""
        return self._index.exact(name) or self._tail_index.exact(name) or self._index.loose(name) or self._tail_index.loose(name)

    def _unknown(self, name: str) -> UnknownName:
        near = self._index.close(name) or self._tail_index.close(name) or self._cpu_index.close(name)
        numbers = set(re.findall(r"\d{3,}", name))
        same = tuple(one for one in near if numbers & set(re.findall(r"\d{3,}", one)))
        near = same if near[:1] == same[:1] else near  # if the nearest has the same number, the others only look similar
        plain = without_size(name)
        named = self._plain(plain) if plain else None
        reason = tables.refused_gpus().get(name.strip().lower())
        if reason:
            hint = f"the catalogue entry for this GPU is not usable ({reason}); pass its specs instead: {specs.EXAMPLE}"
        elif name.strip().lower() in VENDORS:
            hint = f"this is a vendor name; list its GPUs with `gpuwise gpus --vendor {name.strip()}`"
        elif (several := _SEVERAL.fullmatch(name.strip())) and self._index.loose(several[2]):
            count, one = several.groups()
            apart = f'pass the number separately: `--gpu "{one}" --gpus {count}`'
            hint = f'{apart}; only commands that take a number of GPUs accept "{count}x {one}"'
        elif named:
            nearest = (named.gpu, *named.others[:2], *self._of_size(name))
            meant = either(f"`{gpu.name}` ({gpu.memory_bytes / GIB:g} GB)" for gpu in dict.fromkeys(nearest))
            hint = f"did you mean {meant}? Otherwise, pass its specs: {specs.like_text(named.gpu, name)}"
        elif near:
            hint = "did you mean " + either(f"`{other}`" for other in near) + "? List all GPUs with `gpuwise gpus`"
            hint += specs.own_specs(name, lambda text: getattr(self._index.exact(text), "gpu", None))
        else:
            hint = f"list all GPUs with `gpuwise gpus`, or pass the specs of your GPU: {specs.EXAMPLE}"
        return UnknownName(f"unknown GPU '{name}'", looked_in=f"{len(self.gpus):,} GPUs and their aliases", hint=hint)


def load_catalog(own: Path | None = None) -> Catalog:
    """Load the shipped catalogue, extended by the user's own file if there is one."""
    return Catalog(specs.read_catalog(own, lambda like: _shipped().find(like).gpu)) if own else _shipped()


@cache
def _shipped() -> Catalog:
    return Catalog()
