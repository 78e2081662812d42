"""Pinned answers, in a real browser: kept, named, beside each other, taken along; and what damaged storage does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pages import SCREENSHOTS, VERDICT, Page

from serving import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    page = Page(browser, server)
    page.size(1440)
    page.open(view="pinned")
    page.run("localStorage.clear()")
    page.complaints()
    yield page
    page.run("localStorage.clear()")


def _pin(page: Page, **state: str) -> str:
    page.open(**state)
    page.run("document.getElementById('pin').click()")
    return page.verdict


def test_answers_are_pinned_named_and_laid_side_by_side(page: Page) -> None:
    verdicts = [_pin(page, model="resnet50", budget=budget) for budget in ("300", "800")]
    assert page.run("return document.getElementById('nav-pinned').textContent") == "Pinned (2)"
    page.open(view="pinned")
    rows = page.run(
        "return [...document.querySelectorAll('table tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    assert rows[-1][1:] == verdicts
    assert [row[0] for row in rows][2:6] == ["upfront", "3-year total", "time per run", "memory"]
    page.run(
        "const field = document.querySelector('.pin input[type=text]'); field.value = 'cheap <b>one</b>';"
        "field.dispatchEvent(new Event('change'))"
    )
    page.open(view="pinned")
    assert "cheap <b>one</b>" in page.text
    page.keep(SCREENSHOTS / "pinned-1440-light.png")
    page.run("document.querySelector('.pin-tools a').click()")
    page.until(f"return document.querySelector('.verdict') && {VERDICT} === {verdicts[0]!r}")
    page.open(view="pinned")
    page.run("document.querySelector('[aria-label^=\"Remove\"]').click()")
    assert page.run("return document.querySelectorAll('.pin').length") == 1
    assert page.complaints() == []


def test_what_only_one_answer_says_is_folded_and_the_least_price_is_marked(page: Page) -> None:
    for state in ({"task": "learning", "budget": "300"}, {"task": "learning", "budget": "800"}, {"view": "rent"}):
        _pin(page, **state)
    page.open(view="pinned")
    names = page.run("return [...document.querySelectorAll('table tbody tr')].map((row) => row.cells[0].innerText)")
    assert names[0] == "for"
    assert names[-1] == "verdict"
    assert "3-year total" in names
    assert "break-even after" not in names
    assert "break-even after" in page.run("return document.querySelector('.beside .fold').textContent")
    row = "[...document.querySelectorAll('table tbody tr')].find((one) => one.cells[0].innerText === '3-year total')"
    cells = page.run(f"return [...{row}.querySelectorAll('strong')].map((one) => [one.innerText, one.classList.contains('yes')])")
    prices = [float(text.replace("$", "").replace(",", "")) for text, _ in cells]
    assert [marked for _, marked in cells] == [price == min(prices) for price in prices]


def test_what_both_answers_hold_is_side_by_side_and_whole(page: Page) -> None:
    _pin(page, task="learning", budget="800")
    _pin(page, task="learning", budget="300")
    page.open(view="pinned")
    assert page.run("return document.getElementById('mixed')") is None
    _pin(page, view="rent", gpu="RTX 3090")
    page.open(view="pinned")
    rows = page.run(
        "return Object.fromEntries([...document.querySelectorAll('.beside tbody tr')]"
        ".map((row) => [row.cells[0].innerText, [...row.cells].slice(1).map((cell) => cell.innerText)]))"
    )
    for figure in ("upfront", "3-year total", "3-year rent"):
        assert all(value.startswith("$") for value in rows[figure]), (figure, rows[figure])
    assert "different questions" in page.run("return document.getElementById('mixed').textContent")
    assert rows["for"][-1].startswith("Should I buy it or rent it?")
    cut = (
        "return [...document.querySelectorAll('.beside td div')].filter((one) => one.scrollHeight > one.clientHeight + 1).length"
    )
    assert page.run(cut) == 0


def test_nothing_pinned_says_where_to_begin(page: Page) -> None:
    page.open(view="pinned")
    page.click("Find a GPU")
    assert page.run("return document.querySelector('h1').textContent") == "Which GPU should I get?"


def test_pinned_answers_become_files(page: Page) -> None:
    _pin(page, model="resnet50", budget="800")
    _pin(page, view="rent", gpu="RTX 4090")
    page.open(view="pinned")
    page.run(
        "globalThis.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return 'about:blank#' };"
        "HTMLAnchorElement.prototype.click = function () { saved.at(-1).called = this.download };"
    )
    for kind in ("CSV", "Markdown", "PNG"):
        page.run("[...document.querySelectorAll('main button')].find((one) => one.textContent === arguments[0]).click()", kind)
    page.until("return saved.length === 3")
    kinds = page.run("return saved.map((blob) => [blob.called, blob.type, blob.size > 500])")
    assert sorted(kinds) == [
        ["gpuwise.csv", "text/csv", True],
        ["gpuwise.md", "text/markdown", True],
        ["gpuwise.png", "image/png", True],
    ]
    text = page.driver.execute_async_script("const done = arguments[0]; saved[0].text().then(done)")
    assert '"$' in text
    assert "RTX 4090" in text
    code = "import('/js/export.js').then(({ toCsv, toMarkdown }) => done([toCsv([['=1+1', 'a,b']]), toMarkdown([['a|b', 'c']])]))"
    csv, markdown = page.driver.execute_async_script(f"const done = arguments[0]; {code}")
    assert csv == '\'=1+1,"a,b"\r\n'
    assert markdown.startswith("| a\\|b | c |\n|---|---|")
    assert page.complaints() == []


@pytest.mark.parametrize(
    "stored", ["{", "null", "7", '[{"id": 1}]', '[{"id":"a","name":"b","link":"?","verdict":"","figures":[[1]]}]']
)
def test_damaged_storage_is_no_fault(page: Page, stored: str) -> None:
    page.run("localStorage.setItem('gpuwise.pinned', arguments[0])", stored)
    page.open(view="pinned")
    assert "Nothing is pinned yet" in page.text
    _pin(page, model="resnet50", budget="800")
    assert page.run("return document.getElementById('nav-pinned').textContent") == "Pinned (1)"
    assert page.complaints() == []


def test_storage_that_is_full_is_said(page: Page) -> None:
    page.open(model="resnet50", budget="800")
    page.run("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }")
    page.run("document.getElementById('pin').click()")
    assert "does not let the page store" in page.run("return document.querySelector('.pin-bar').innerText")


def test_a_pinned_answer_says_for_what_without_the_models_of_a_task(page: Page) -> None:
    _pin(page, task="learning", budget="800")
    page.open(view="pinned")
    said = page.run("return document.querySelector('.pin > .note').textContent")
    assert "up to $800" in said
    assert "DistilBERT" not in said
