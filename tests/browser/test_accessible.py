"""No serious accessibility fault: axe-core where npm has brought it, and checks of our own everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, Page

from serving import Server

pytestmark = pytest.mark.slow
AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"  # `make axe`
VIEWS = ["choose", "model", "compare", "rent", "build", "scale", "why", "gpus", "pinned"]
_AXE = """
const done = arguments[0];
axe.run(document).then((found) => done(found.violations.map((fault) =>
  `${fault.impact} ${fault.id}: ${fault.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`)));
"""
_STILL = "return document.querySelector('.waiting') ? null : document.body.dataset.settled"
_UNNAMED = """
const named = (node) => node.ariaLabel || node.labels?.length || node.textContent.trim() || node.title;
return [...document.querySelectorAll('a, button, input, select, [role=img], [role=region]')]
  .filter((node) => node.offsetParent && !named(node)).map((node) => node.outerHTML.slice(0, 120));
"""
_CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const under = (node) => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour[3] !== 0) return colour;
  }
  return [255, 255, 255];
};
const ratio = (node) => {
  const [one, other] = [light(parse(getComputedStyle(node).color)), light(under(node))];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
};
const text = (child) => child.nodeType === 3 && child.textContent.trim();
const says = (node) => node.offsetParent && [...node.childNodes].some(text);
return [...document.querySelectorAll('main *, nav *, aside *, footer *')].filter((node) => says(node) && !node.closest('svg'))
  .map((node) => [ratio(node), node.outerHTML.slice(0, 100)]).filter(([found]) => found < 4.5);
"""


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    return Page(browser, server)


def _serious_faults(page: Page) -> list[str]:
    """What axe finds in an answer that stays: while the page computes the next answer, it dims the old one."""
    page.run(AXE.read_text("utf-8"))
    for _ in range(3):
        page.until(_STILL)
        before = page.run(_STILL)
        faults: list[str] = page.driver.execute_async_script(_AXE)
        if page.run(_STILL) == before:
            return [fault for fault in faults if not fault.startswith("minor")]
    raise AssertionError(f"the page keeps asking by itself: {page.state}")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)], ids=["wide-light", "phone-dark"])
def test_axe_finds_no_serious_fault(page: Page, view: str, width: int, dark: bool) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: `make axe` fetches it with npm")
    page.size(width, dark=dark)
    page.open(view=view)
    assert _serious_faults(page) == []


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)], ids=["wide-light", "phone-dark"])
def test_a_diagnosis_has_no_serious_fault_either(page: Page, width: int, dark: bool) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: `make axe` fetches it with npm")
    page.size(width, dark=dark)
    page.open(view="why")
    page.run("document.getElementById('sample-pair').click()")
    # The tab may still show what an earlier test compared, so the page must say that it has read these files.
    read = "[...document.querySelectorAll('[role=status]')].some((node) => node.textContent.startsWith('Read '))"
    page.until(f"return {read} && document.getElementById('compared') && !document.querySelector('.waiting')")
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert _serious_faults(page) == []
    assert page.run(_CONTRAST) == []


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_has_a_name_a_place_and_contrast(page: Page, view: str, dark: bool) -> None:
    page.size(1440, dark=dark)
    page.open(view=view)
    assert page.run(_UNNAMED) == []
    assert page.run(_CONTRAST) == []
    assert page.run("return document.querySelectorAll('main').length") == 1
    assert page.run("return document.querySelectorAll('nav[aria-label], aside[aria-label]').length") == 2
    assert page.run("return [...document.querySelectorAll('h1, h2')].map((head) => head.tagName)")[0] == "H1"
    assert page.run("return document.documentElement.lang") == "en"


def test_the_page_can_be_walked_with_the_tab_key(page: Page) -> None:
    page.size(1440)
    page.open(view="choose")
    body = page.driver.find_element("tag name", "body")
    seen = []
    for _ in range(50):
        body.send_keys("\ue004")
        seen.append(page.run("const node = document.activeElement; return node.name || node.id || node.textContent"))
        if seen[-1].startswith("Money and time"):
            page.driver.switch_to.active_element.send_keys("\ue007")
    assert seen[0] == "Skip to the results"
    assert {"nav-choose", "model", "budget", "have", "hours", "kwh"} <= set(seen)


def test_stylesheets_ask_for_nothing_from_elsewhere() -> None:
    for path in (Path(ROOT) / "src/gpuwise/surfaces/web/static").rglob("*.*"):
        if path.suffix in (".css", ".js", ".html"):
            assert "http" + "://" not in path.read_text("utf-8"), path
            assert "https" + "://" not in path.read_text("utf-8"), path
