"""The zoo's entry for a model: its names, its origin, its default sizes, and how to build it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuwise.workload.capture.torch.step import Subject

__all__ = ["Model", "Wish", "plain"]


@dataclass(frozen=True, slots=True)
class Wish:
    """The graph wanted of a model: train or infer, in fp32, amp or bf16. The phase is empty, "prefill" or "decode"."""

    mode: str
    precision: str
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One entry. `subject(Wish)` says how to capture it.

    `published` is the number of parameters that its authors or their code state; the build fails where ours is off by more than
    the fraction `tolerance`. `optimizer`, `batch` and `seq` are what people usually train it with; `longest` is the longest
    sequence it has positions for.
    """

    name: str
    title: str
    family: str
    source: str
    subject: Callable[[Wish], Subject]
    aliases: tuple[str, ...] = ()
    published: int | None = None
    tolerance: float = 0.0
    optimizer: str = "momentum"
    batch: int = 32
    seq: int | None = None
    longest: int | None = None
    image: int | None = None
    phases: tuple[str, ...] = ("",)
    modes: tuple[str, ...] = ("train", "infer")
    options: Mapping[str, int | str] = field(default_factory=dict)


def plain(subject: Callable[[], Subject]) -> Callable[[Wish], Subject]:
    """A subject that is the same for every wish."""
    return lambda wish: subject()
