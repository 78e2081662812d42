"""The HTML report of `why` in a real Chromium, from a file and without a network: its timeline zooms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpuwise
from gpuwise.questions.why.text import render_html
from making_traces import training


def width(browser: Any) -> float:
    return float(browser.execute_script("return document.querySelector('.pan svg').getBoundingClientRect().width"))


def ticks(browser: Any) -> list[str]:
    found: list[str] = browser.execute_script("return [...document.querySelectorAll('.axis text')].map((one) => one.textContent)")
    return found


def test_the_timeline_of_a_report_zooms_and_its_axis_follows(browser: Any, tmp_path: Path) -> None:
    answer = gpuwise.why([str(training(load_us=6000.0, gap_us=20.0).write(tmp_path / "made.json"))])
    page = tmp_path / "report.html"
    page.write_text(render_html(answer), encoding="utf-8")
    browser.get(page.as_uri())
    whole, first = width(browser), ticks(browser)
    assert first[0].startswith("0")
    lanes = browser.execute_script("return [...document.querySelectorAll('.timeline p')].map((one) => one.textContent)")
    assert {"GPU: kernels", "GPU: idle", "host: loading data"} <= set(lanes)
    causes = browser.execute_script("return [...document.querySelectorAll('.pan rect title')].map((one) => one.textContent)")
    assert any("input wait" in text for text in causes)
    for _ in range(3):
        browser.execute_script("document.querySelector('.zoom button[value=\"+\"]').click()")
    assert abs(width(browser) / whole - 8.0) < 0.05
    assert ticks(browser) != first
    assert browser.execute_script("return document.querySelector('.pan').scrollLeft") > 0
    browser.execute_script("document.querySelector('.zoom button[value=\"0\"]').click()")
    assert abs(width(browser) / whole - 1.0) < 0.01
    assert ticks(browser) == first
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
