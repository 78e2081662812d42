"""The formats in which weights and caches of language models are stored: the names people type, and how each packs values.

Bits per weight are those of the matrices in the blocks, scales included (`kernels.types.DTYPE_BYTES`):

- GGUF k-quants mix types. Q4_K_M stores half of the value and down projections as Q6_K (6.5625 bits) and the rest as Q4_K (4.5):
  4.80 bits in a Llama block; the last layer is Q6_K, the embedding table Q4_K. llama.cpp, `src/llama-quant.cpp`.
- AWQ and GPTQ with groups of 128: 4 bits, a 16-bit scale and a 4-bit zero point for each group.
- NF4 with double quantisation: 4.127 bits (Dettmers et al. 2023, section 3); what is outside the blocks stays in 16 bits.
- MXFP4: an 8-bit scale for each 32 weights (OCP MX 1.0); NVFP4: an fp8 scale for each 16.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.errors import BadValue
from gpuwise.kernels.types import DTYPE_BYTES
from gpuwise.workload.capture.huggingface.configs import read_config
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["CACHES", "FORMATS", "MXFP4_IN_GGUF", "Format", "find_cache", "find_format", "published_format"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`name` is the format of the matrices in the blocks, `table` and `head` those of the embedding table and the last layer
    ("" is the type that the pass computes in). `compute` is the type in which products run, if the GPU has it. `family`
    groups formats with similar kernels. With `experts_only`, the matrices outside the experts are in `rest` (16 bits by default).
    """

    name: str
    family: str
    table: str = ""
    head: str = ""
    experts_only: bool = False
    rest: str = ""
    compute: str = ""

    @property
    def bytes_a_weight(self) -> float:
        return DTYPE_BYTES[self.name]


FORMATS: Mapping[str, Format] = {
    "fp32": Format(name="fp32", family="plain"),
    "fp16": Format(name="fp16", family="plain"),
    "bf16": Format(name="bf16", family="plain"),
    "fp8": Format(name="fp8", family="fp8", compute="fp8"),
    "int8": Format(name="int8", family="int8"),
    "int4": Format(name="int4", family="int4"),
    "awq": Format(name="int4", family="int4"),
    "gptq": Format(name="int4", family="int4"),
    "nf4": Format(name="nf4", family="nf4"),
    "nvfp4": Format(name="nvfp4", family="fp4", compute="fp4"),
    "mxfp4": Format(name="mxfp4", family="fp4", experts_only=True),
    "q8_0": Format(name="q8_0", family="gguf8", table="q8_0", head="q8_0"),
    "q6_k": Format(name="q6_k", family="gguf", table="q6_k", head="q6_k"),
    "q5_k_m": Format(name="q5_k_m", family="gguf", table="q5_k_m", head="q6_k"),
    "q4_k_m": Format(name="q4_k_m", family="gguf", table="q4_k", head="q6_k"),
    "q4_0": Format(name="q4_0", family="gguf", table="q4_0", head="q6_k"),
    "q3_k_m": Format(name="q3_k_m", family="gguf", table="q3_k_m", head="q6_k"),
    "q2_k": Format(name="q2_k", family="gguf", table="q2_k", head="q6_k"),
}
# As GGUF files have it. Those of gpt-oss hold 1.09 bytes for each weight outside the experts (11.27 GiB in total for 20B).
MXFP4_IN_GGUF = Format(name="mxfp4", family="fp4", experts_only=True, rest="q8_0", table="q8_0", head="q8_0")
CACHES: Mapping[str, str] = {"fp16": "fp16", "bf16": "bf16", "fp8": "fp8", "int8": "int8", "q8_0": "q8_0", "q4_0": "q4_0"}


def find_format(text: str) -> Format:
    """Return the format for `Q4_K_M`, `awq` or `gptq-int4`."""
    name = text.strip().lower().replace("-", "_").replace(" ", "_")
    aliases = {
        "float16": "fp16",
        "half": "fp16",
        "bfloat16": "bf16",
        "8bit": "int8",
        "4bit": "int4",
        "q4": "q4_k_m",
        "q8": "q8_0",
    }
    name = aliases.get(name, name)
    if name not in FORMATS:
        raise BadValue(f"unknown weight format '{text}'", known=", ".join(FORMATS), hint="try `--weights q4_k_m`")
    return FORMATS[name]


def find_cache(text: str) -> str:
    """Return the type of the key-value cache for this text."""
    name = text.strip().lower()
    if name not in CACHES:
        raise BadValue(f"unknown key-value cache type '{text}'", known=", ".join(CACHES), hint="try `--kv fp8`")
    return CACHES[name]


# ---------------------------------------------------------------- what a model is published in

_PUBLISHED = {"gpt-oss": "mxfp4", "deepseek-v3": "fp8", "deepseek-r1": "fp8"}  # below 16 bits, according to their model cards
_METHODS = ("awq", "gptq", "fp8", "mxfp4")  # values of `quantization_config` that are formats here


def published_format(name: str, shape: LanguageShape) -> str:
    """Return the weight format that a file states, or in which a model is published if that is not 16 bits; otherwise nothing."""
    path = Path(name)
    if path.suffix == ".gguf" and path.is_file():
        from gpuwise.workload.language.gguf import read_gguf  # few questions name a file

        known = read_gguf(path, allow_header_only=True).format.lower()
        alike = (known, re.sub(r"_[sl]$", "_m", known), re.sub(r"_[slm]$", "", known))
        return next((held for held in alike if held in FORMATS), "")
    if path.suffix == ".json" and path.is_file():
        said = read_config(path).get("quantization_config")
        method = str(said.get("quant_method", "")).lower() if isinstance(said, dict) else ""
        return method if method in _METHODS else ""
    title = shape.name.lower()
    return next((held for known, held in _PUBLISHED.items() if known in title and "distill" not in title), "")
