"""A request to a source: the model by name, the sizes, the settings. It is sent to the capturing process as JSON."""

from __future__ import annotations

import msgspec

from gpuwise.core.errors import BadValue
from gpuwise.workload.model.types import Settings

__all__ = ["InputSpec", "Request", "parse_input"]

_INPUT_DTYPES = ("fp32", "fp16", "bf16", "int64", "int32", "bool", "uint8")


class InputSpec(msgspec.Struct, frozen=True):
    """One input given by hand: its name, shape (`batch` and `seq` are symbols) and dtype."""

    name: str
    shape: tuple[str, ...]
    dtype: str

    def sizes(self, batch: int, seq: int | None) -> tuple[int, ...]:
        """The shape at one batch and sequence."""
        known = {"batch": batch, "seq": seq if seq is not None else 0}
        return tuple(known[part] if part in known else int(part) for part in self.shape)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One model to capture. `phase` is prefill or decode for language models that generate text, otherwise empty; `variant` is
    a way of running that only its source knows (timm: fast-norm; hf: top, a classifier of which only the last block and the head
    are trained).
    """

    model: str
    batch: int | None = None
    seq: int | None = None
    image: int | None = None
    phase: str = ""
    variant: str = ""
    settings: Settings = Settings()
    inputs: tuple[InputSpec, ...] = ()
    arguments: tuple[str, ...] = ()


def parse_input(text: str) -> InputSpec:
    """`tokens=batch,seq:int64` -> an input called tokens; the dtype defaults to fp32.

    >>> parse_input("x=batch,3,224,224").shape
    ('batch', '3', '224', '224')
    """
    hint = "try `--input x=batch,3,224,224:fp32` or `--input tokens=batch,seq:int64`"
    name, equals, rest = text.partition("=")
    shape_text, _, dtype = rest.partition(":")
    shape = tuple(part.strip() for part in shape_text.split(",") if part.strip())
    if not equals or not name.strip() or not shape:
        raise BadValue(f"invalid input '{text}'", hint=hint)
    for part in shape:
        if part not in ("batch", "seq") and not (part.isascii() and part.isdigit() and len(part) <= 10 and 0 < int(part) < 2**31):
            raise BadValue(f"invalid size '{part}' in input '{name}'", hint=hint)
    if (dtype or "fp32") not in _INPUT_DTYPES:
        raise BadValue(f"unknown input dtype '{dtype}'", known=", ".join(_INPUT_DTYPES), hint=hint)
    return InputSpec(name.strip(), shape, dtype or "fp32")
