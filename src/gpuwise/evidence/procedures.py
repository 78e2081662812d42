"""How each source measured: what its terms mean, and what its steps contain besides the model.

Facts about procedures come from the sources themselves. The factors are fitted by `tools/fit` and kept in a separate part of the
same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["Fitted", "Procedure", "fitted", "procedure_of"]


class Procedure(msgspec.Struct, frozen=True):
    """How a source measured.

    `library` is the library that its model names come from. `pure_half` says whether its fp16 means a model entirely in fp16
    rather than mixed precision. `copies` says whether its times include copying the inputs, without overlap. `threads` says
    whether several GPUs are driven by threads of one Python process. `fast_norm` says whether norms stay in 16 bits under
    autocast in inference (inferred for timm: without it, its rows with layer and group norms are off by half). `every_token`
    says whether its language models score every token and keep no cache. `renamed` maps a name, or a mode and a name, to the
    model that the source means, such as one with another head or width. `half` is the precision that its fp16 means, if it is
    another one. `optimizer` and `version` are used for rows that do not state them. `tf32_convolutions` says whether its fp32
    has PyTorch's default, which lets convolutions run as TF32. `scores` are the factors that turn its values for some models
    into rates. `eager` is the text in its notes that marks a model that was not compiled. `channels_last` lists the models
    that it runs in this layout.
    """

    library: str = "timm"
    pure_half: bool = False
    copies: bool = False
    unfused_attention: bool = False
    threads: bool = False
    fast_norm: bool = False
    every_token: bool = False
    tf32_convolutions: bool = False
    renamed: Mapping[str, str] = {}
    half: str = ""
    optimizer: str = ""
    version: str = ""
    scores: Mapping[str, float] = {}
    eager: str = ""
    channels_last: tuple[str, ...] = ()


class Fitted(msgspec.Struct, frozen=True):
    """The values fitted for sources: a factor for each (source, version, way of running), seconds per call on its hosts, the
    shortest time of a single operator when timed from Python, and the time of a whole call outside a program's models.
    """

    factors: dict[str, float]
    launch_s: dict[str, float]
    copy_bytes_per_s: dict[str, float]
    operator_factor: dict[str, float]
    operator_start_s: dict[str, float]
    operator_floor_s: dict[str, float]
    call_s: dict[str, float] = {}


class _File(msgspec.Struct):
    procedures: dict[str, Procedure]
    fitted: Fitted


@cache
def _file() -> _File:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "procedures.json").read_bytes(), type=_File)


def procedure_of(cells: Mapping[str, str]) -> Procedure:
    """Return how this row was measured; an unknown source is assumed to measure as timm does."""
    return _file().procedures.get(cells.get("source", ""), Procedure())


def fitted() -> Fitted:
    """Return the fitted part."""
    return _file().fitted
