"""Parses quantities that people write and formats quantities for display. Internally, everything is a plain SI float.

The parser accepts what datasheets print (`1.7 GHz`, `936 GB/s`, `24GB`, `350 W`, `412ms`). GB usually means
2^30 bytes only in memory sizes; `parse_memory` follows that convention, and `parse` does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gpuwise.core.errors import BadValue

__all__ = ["GIB", "KIB", "MIB", "format_si", "format_span", "parse", "parse_memory"]

KIB = 1024.0
MIB = 1024.0**2
GIB = 1024.0**3

_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"ki": KIB, "mi": MIB, "gi": GIB, "ti": 1024.0**4}


def _scaled(unit: str, prefixes: Mapping[str, float] = _DECIMAL) -> dict[str, float]:
    return {prefix + unit: factor for prefix, factor in prefixes.items()}


# Spelling (lower case) -> factor to SI, by kind of quantity. Bits and bytes differ only in case, so `_unit_key` separates them
# before lower-casing.
_FACTORS: dict[str, dict[str, float]] = {
    "clock": _scaled("hz"),
    "bytes": _scaled("byte") | _scaled("byte", _BINARY),
    "bandwidth": _scaled("byte/s")
    | _scaled("byte/s", _BINARY)
    | {spelling: factor / 8 for spelling, factor in _scaled("bit/s").items()},
    "power": _scaled("w"),
    "time": {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    "flops": _scaled("flop/s") | _scaled("flops") | _scaled("op/s") | _scaled("ops"),
    "money": {"usd": 1.0, "$": 1.0},
}
_EXAMPLES = {
    "clock": "1.7 GHz",
    "bytes": "24 GB",
    "bandwidth": "936 GB/s",
    "power": "350 W",
    "time": "412 ms",
    "flops": "71 TFLOP/s",
    "money": "700 USD",
}
_NOUNS = {
    "clock": "a clock speed",
    "bytes": "a memory size",
    "bandwidth": "a bandwidth",
    "power": "a power in watts",
    "time": "a time",
    "flops": "a compute rate",
    "money": "an amount of money",
}
_UNITS_OF = {"clock": "clock speed", "bytes": "memory", "flops": "compute rate"}  # other kinds go by their own name
_LONGEST = 80  # the longest text accepted for a number with its unit
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\D.*?)?\s*")


def _unit_key(unit: str) -> str:
    """Return one spelling for each unit: `GB/s`, `GBps` and `GByte/s` are the same, while `Gb/s` and `Gbps` are bits."""
    unit = unit.replace(" ", "").replace("μ", "µ")
    unit = re.sub(r"(?i)(?<=[bt])ps$", "/s", unit)
    unit = re.sub(r"(?i)bits?(?=/s|$)", "bit", unit)
    unit = re.sub(r"(?i)bytes?(?=/s|$)", "byte", unit)
    unit = re.sub(r"^([kKMGTPmgtp]?i?)B(?=/s|$)", r"\1byte", unit)
    unit = re.sub(r"^([kKMGTPmgtp]?)b(?=/s|$)", r"\1bit", unit)
    return unit.lower()


def parse(text: str, kind: str) -> float:
    """Return the value of this text in SI units. `kind` is clock, bytes, bandwidth, power, time, flops or money.

    >>> parse("1.7 GHz", "clock")
    1700000000.0
    >>> parse("100 Gbit/s", "bandwidth")
    12500000000.0
    """
    factors, example, noun = _FACTORS[kind], _EXAMPLES[kind], _NOUNS[kind]
    _check_length(text, example)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise BadValue(f"'{text}' cannot be read as {noun}", hint=f"write a number with a unit, such as `{example}`")
    number, unit = match.groups()
    factor = factors.get(_unit_key(unit or ""))
    if factor is None:
        problem = f"'{unit}' is not a unit of {_UNITS_OF.get(kind, kind)}" if unit else f"'{text}' has no unit"
        raise BadValue(problem, hint=f"write a number with a unit, such as `{example}`")
    value = float(number) * factor
    if not math.isfinite(value):
        raise BadValue(f"'{text}' is too large for {noun}", hint=f"try `{example}`")
    return value


def _check_length(text: str, example: str) -> None:
    if len(text) > _LONGEST:
        raise BadValue(f"the value '{text[:40]}…' is too long ({len(text):,} characters)", hint=f"try `{example}`")


def parse_memory(text: str) -> float:
    """Return the number of bytes in a memory of this printed size. GB and MB mean 2^30 and 2^20 here.

    >>> parse_memory("24GB") == 24 * GIB
    True
    """
    _check_length(text, _EXAMPLES["bytes"])
    if re.search(r"\d\s*[KMGT]b\s*$", text):
        raise BadValue(f"'{text}' is in bits, not bytes", hint=f"write bytes with a capital B, such as `{_EXAMPLES['bytes']}`")
    return parse(re.sub(r"(?i)([kmgt])i?b(ytes?)?\s*$", r"\1iB", text), "bytes")


_LONG_TIMES = ((172_800.0, 86_400.0, "days"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))  # people do not use kiloseconds


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """Format the value with the SI prefix that a person would choose.

    >>> format_si(936.2e9, "B/s")
    '936 GB/s'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    factor, name = _scale(value, unit)
    return f"{_round(value / factor, digits)} {name}"


def format_span(low: float, high: float, unit: str, like: float | None = None) -> str:
    """Format a range, with both ends in the unit that suits the value `like` next to it, or else the upper end.

    >>> format_span(6_780.0, 11_520.0, "s"), format_span(4_680.0, 9_400.0, "s", like=6_300.0)
    ('1.88 h to 3.2 h', '78 min to 157 min')
    """
    if not (low > 0 and high > 0 and math.isfinite(high)):
        return f"{format_si(low, unit)} to {format_si(high, unit)}"
    factor, name = _scale(high if like is None else like, unit)
    return f"{_round(low / factor, 3)} {name} to {_round(high / factor, 3)} {name}"


def _scale(value: float, unit: str) -> tuple[float, str]:
    """Return the size in SI units of the unit that a person would choose, and its name."""
    for least, factor, name in _LONG_TIMES if unit == "s" else ():
        if abs(value) >= least:
            return factor, name
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if abs(value) >= factor * 0.9995:
            return factor, f"{prefix}{unit}"
    return 1e-9, f"n{unit}"


def _round(value: float, digits: int) -> str:
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
