"""The formats of ggml: how many numbers a block holds in how many bytes, and the names of whole-file formats.

From `ggml_type` in ggml.h, the blocks in ggml-common.h and `llama_ftype` in llama.h of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["FILE_FORMATS", "FORMATS", "Format", "file_format"]

_GUESSED = 1024  # a flag in the file's format that says it was guessed


class Format(NamedTuple):
    """A number format: `numbers` of them share a block of `bytes`."""

    name: str
    numbers: int
    bytes: int


_TABLE = """
0 F32 1 4        1 F16 1 2         2 Q4_0 32 18      3 Q4_1 32 20      6 Q5_0 32 22      7 Q5_1 32 24
8 Q8_0 32 34     9 Q8_1 32 36      10 Q2_K 256 84    11 Q3_K 256 110   12 Q4_K 256 144   13 Q5_K 256 176
14 Q6_K 256 210  15 Q8_K 256 292   16 IQ2_XXS 256 66 17 IQ2_XS 256 74  18 IQ3_XXS 256 98 19 IQ1_S 256 50
20 IQ4_NL 32 18  21 IQ3_S 256 110  22 IQ2_S 256 82   23 IQ4_XS 256 136 24 I8 1 1         25 I16 1 2
26 I32 1 4       27 I64 1 8        28 F64 1 8        29 IQ1_M 256 56   30 BF16 1 2       31 Q4_0_4_4 32 18
32 Q4_0_4_8 32 18 33 Q4_0_8_8 32 18 34 TQ1_0 256 54  35 TQ2_0 256 66   36 IQ4_NL_4_4 32 18 37 IQ4_NL_4_8 32 18
38 IQ4_NL_8_8 32 18 39 MXFP4 32 17 40 NVFP4 64 36    41 Q1_0 128 18    42 Q2_0 64 18
""".split()

FORMATS: Mapping[int, Format] = {
    int(number): Format(name, int(numbers), int(size))
    for number, name, numbers, size in zip(_TABLE[::4], _TABLE[1::4], _TABLE[2::4], _TABLE[3::4], strict=True)
}

FILE_FORMATS: Mapping[int, str] = dict(
    enumerate(
        "F32 F16 Q4_0 Q4_1 Q4_1 - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS "
        "Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 "
        "MXFP4_MOE NVFP4 Q1_0".split()
    )
)


def file_format(number: object) -> str:
    """Return the name of the file format with this number, or an empty string if it is unknown.

    >>> file_format(15)
    'Q4_K_M'
    """
    if isinstance(number, bool) or not isinstance(number, int):
        return ""
    name = FILE_FORMATS.get(number & ~_GUESSED, "")
    return "" if name == "-" else name
