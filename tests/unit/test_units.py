"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.core.errors import BadValue
from gpuwise.core.units import GIB, MIB, format_si, parse, parse_memory


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.7 GHz", "clock", 1.7e9),
        ("1695MHz", "clock", 1695e6),
        ("936 GB/s", "bandwidth", 936e9),
        ("936GBps", "bandwidth", 936e9),
        ("2.04 TB/s", "bandwidth", 2.04e12),
        ("100 Gbit/s", "bandwidth", 12.5e9),
        ("100Gbps", "bandwidth", 12.5e9),
        ("100 Gb/s", "bandwidth", 12.5e9),
        ("16 GiB/s", "bandwidth", 16 * GIB),
        ("350 W", "power", 350),
        ("1.2 kW", "power", 1200),
        ("412ms", "time", 0.412),
        ("11 µs", "time", 11e-6),
        ("11 us", "time", 11e-6),
        ("71 TFLOP/s", "flops", 71e12),
        ("71 TFLOPS", "flops", 71e12),
        (".5 GHz", "clock", 0.5e9),
        ("1e9 Hz", "clock", 1e9),
        ("700 USD", "money", 700),
    ],
)
def test_parse(text: str, kind: str, value: float) -> None:
    assert parse(text, kind) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("text", "value"), [("24GB", 24 * GIB), ("24 GiB", 24 * GIB), ("512 MB", 512 * MIB), ("0.5gb", GIB / 2)])
def test_memory_sizes_are_binary(text: str, value: float) -> None:
    assert parse_memory(text) == value


@pytest.mark.parametrize("text", ["", "GHz", "1.7", "1,7 GHz", "1.7 parsec", "--3 GHz", "inf GHz", "1e999 GHz", "1.7 GHz GHz"])
def test_what_is_not_a_clock_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse(text, "clock")
    assert "1.7 GHz" in caught.value.hint


@pytest.mark.parametrize("text", ["16Gb", "16 Gb", "512 Mb"])
def test_bits_are_not_taken_for_bytes_of_memory(text: str) -> None:
    with pytest.raises(BadValue):
        parse_memory(text)


@given(st.floats(1e-6, 1e16))
def test_format_and_parse_are_inverse_to_three_digits(value: float) -> None:
    assert parse(
        format_si(value, "Hz").replace("mHz", "e-3 Hz").replace("µHz", "e-6 Hz").replace(" e", "e"), "clock"
    ) == pytest.approx(value, rel=0.006)


def test_format() -> None:
    assert format_si(936.2e9, "B/s") == "936 GB/s"
    assert format_si(999.9e9, "B/s") == "1 TB/s"
    assert format_si(0, "W") == "0 W"
    assert [format_si(value, "s") for value in (1.5e-3, 119.0, 1030.0, 9000.0, 2e6)] == [
        "1.5 ms",
        "119 s",
        "17.2 min",
        "2.5 h",
        "23.1 days",
    ]
    assert format_si(71.19e12, "FLOP/s") == "71.2 TFLOP/s"
