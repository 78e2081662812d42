"""Maps a cloud's name for a GPU to products. Clouds often omit the form factor, so a name may match several."""

from __future__ import annotations

from gpuwise.core.errors import UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu

__all__ = ["products"]

_NOT_RENTED = ("DGXS", "SXM3")


def products(name: str) -> tuple[Gpu, ...]:
    """Return the GPU with this name and its variants in other form factors; none if the catalogue has no such name.

    >>> [gpu.name for gpu in products("H100 80GB")]
    ['H100 SXM 80GB', 'H100 PCIe 80GB']
    """
    try:
        match = load_catalog().find(name)
    except UnknownName:
        return ()
    return (match.gpu, *(other for other in match.others if _is_twin(match.gpu, other)))


def _is_twin(gpu: Gpu, other: Gpu) -> bool:
    """Return whether the other GPU has the same memory and a form factor that clouds offer."""
    return other.curated and other.memory_bytes == gpu.memory_bytes and not any(word in other.name for word in _NOT_RENTED)
