"""All GPUs we know, and the way from a name to one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from gpuwise.core.errors import UnknownName
from gpuwise.core.units import GIB
from gpuwise.hardware import specs, tables
from gpuwise.hardware.names import VENDORS, Match, NameIndex, added_products, shows_size, without_size
from gpuwise.hardware.types import Gpu

__all__ = ["Catalog", "load_catalog"]

_SEVERAL = re.compile(r"(\d{1,4})\s*[x×]?\s+(\S.*)")
_LONGEST = 400  # letters of a name or of typed specs


class Catalog:
    """Curated products first, then the long tail; a user's own entries before both."""

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
        """Everything, the long tail included."""
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
        """The GPU meant by a name, an alias, a driver string or typed specs; or a CPU, where no GPU is meant."""
        if len(name) > _LONGEST:
            raise UnknownName(
                f"a GPU name of {len(name):,} characters is too long", looked_in=f"'{name[:40]}…'", hint="see `gpuwise gpus`"
            )
        if "=" in name:
            return Match(gpu=specs.gpu_from_text(name))
        match = (
            self._own_index.exact(name)
            or self._index.exact(name)
            or self._tail_index.exact(name)
            or self._cpu_index.exact(name)
            or self._loose(name)
        )
        if match is None:
            raise self._unknown(name)
        return match

    def _loose(self, name: str) -> Match | None:
        """The product that explains the name with the least detail added. A memory size chooses among those that the name without
        it may mean, and does not make it another product."""
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
        """Another product of the series, with the memory that was asked for."""
        match = self._index.loose(name) or self._tail_index.loose(name)
        return (match.gpu,) if match else ()

    def _plain(self, name: str) -> Match | None:
        """The GPU meant by a name without a size."""
        return self._index.exact(name) or self._tail_index.exact(name) or self._index.loose(name) or self._tail_index.loose(name)

    def _unknown(self, name: str) -> UnknownName:
        near = self._index.close(name) or self._tail_index.close(name) or self._cpu_index.close(name)
        numbers = set(re.findall(r"\d{3,}", name))
        same = tuple(one for one in near if numbers & set(re.findall(r"\d{3,}", one)))
        near = same if near[:1] == same[:1] else near  # where the nearest has the same number, others are only spelled alike
        plain = without_size(name)
        named = self._plain(plain) if plain else None
        reason = tables.refused_gpus().get(name.strip().lower())
        if reason:
            hint = f"the entry for this GPU is not usable ({reason}); type its specs instead: {specs.EXAMPLE}"
        elif name.strip().lower() in VENDORS:
            hint = f"this is a vendor; list its GPUs with `gpuwise gpus --vendor {name.strip()}`"
        elif (several := _SEVERAL.fullmatch(name.strip())) and self._index.loose(several[2]):
            count, one = several.groups()
            apart = f'give the number separately: `--gpu "{one}" --gpus {count}`'
            hint = f'{apart}; only `plan`, `build` and `compare` accept "{count}x {one}"'
        elif named:
            nearest = (named.gpu, *named.others[:2], *self._of_size(name))
            meant = " or ".join(f"`{gpu.name}` ({gpu.memory_bytes / GIB:g} GB)" for gpu in dict.fromkeys(nearest))
            hint = f"did you mean {meant}? Otherwise type its specs: {specs.EXAMPLE}"
        elif near:
            hint = "did you mean " + " or ".join(f"`{other}`" for other in near) + "? `gpuwise gpus` lists all GPUs"
        else:
            hint = f"list all GPUs with `gpuwise gpus`, or type the specs of yours: {specs.EXAMPLE}"
        return UnknownName(f"no GPU called '{name}'", looked_in=f"{len(self.gpus):,} GPUs and their aliases", hint=hint)


def load_catalog(own: Path | None = None) -> Catalog:
    """The shipped catalogue, extended by a user's own file if given."""
    return Catalog(specs.read_catalog(own)) if own else _shipped()


@cache
def _shipped() -> Catalog:
    return Catalog()
