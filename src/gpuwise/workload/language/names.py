"""Normalises the names of language models, so that the many ways to write one become a single key."""

from __future__ import annotations

import re

__all__ = ["key_of", "shorter", "without_sizes"]

_LONGEST = 200
# The number format says nothing about the model's sizes: Q4_K - Medium, IQ2_XXS - 2.0625 bpw, MXFP4, w4a16, 4-bit.
_FORMATS = re.compile(
    r"(?<![a-z0-9])(?:"
    r"[it]?q\d+(?:_[a-z0-9]+)*(?:\s*-\s*(?:small|medium|large))?|(?:int|mxfp|nvfp|fp|bf|f)\d+|w\d+a\d+|\d+-?bit|\d+(?:\.\d+)?\s?bpw"
    r")(?![a-z0-9.])"
)
_TOKEN = re.compile(
    r"\d+x\d+(?:\.\d+)?[be]|a\d+(?:\.\d+)?b(?![a-z])|v\d+(?:\.\d+)*(?![a-z0-9])|\d+(?:\.\d+)?[bmke](?![a-z])|\d+(?:\.\d+)*|[a-z]+"
)
_NOISE = frozenset(
    "instruct chat it hf base gguf awq gptq gptqmodel mlx meta moe ud imatrix interactive thinking onnx exl pt".split()
)
# Versions, months, context lengths, and the accuracy that MLPerf appends to a name: dropped if the full name is unknown.
_MINOR = re.compile(r"v\d+\.\d+|v0\d|\d{4}|\d+k|99(?:\.9)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([bm])")


def key_of(name: str) -> tuple[str, ...]:
    """Return the words and numbers of a name that identify its model, with adjacent letters as one word.

    >>> key_of("Llama-3-8B-Instruct-Q4_K_M.gguf") == key_of("meta-llama/Meta Llama 3 8b")
    True
    >>> key_of("GPT-J 6B") == key_of("gptj-6b")
    True
    """
    text = name[:_LONGEST].lower().strip().rpartition("/")[2].removesuffix(".gguf")
    text = _FORMATS.sub(" ", text.replace("c4ai", " ").replace("+", " plus "))
    text = re.sub(r"(?<=\d)_(?=\d)", ".", text)
    found: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _NOISE:
            continue
        if found and token.isalpha() and found[-1].isalpha():
            found[-1] += token
        else:
            found.append(token)
    return tuple(found)


def shorter(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key without the parts that only distinguish releases."""
    return tuple(token for token in key if not _MINOR.fullmatch(token))


def without_sizes(key: tuple[str, ...]) -> tuple[tuple[str, ...], float]:
    """Return the key without its parameter count, and that count; 0 if there is none, or more than one."""
    sizes = [match for token in key if (match := _SIZE.fullmatch(token))]
    if len(sizes) != 1:
        return key, 0.0
    count = float(sizes[0][1]) * (1e9 if sizes[0][2] == "b" else 1e6)
    return tuple(token for token in key if token != sizes[0][0]), count
