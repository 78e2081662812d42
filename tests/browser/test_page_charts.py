"""What charts promise: labels that do not lie on each other, no op above its roof, the price at which the order changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pages import SCREENSHOTS, Page

from serving import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    page = Page(browser, server)
    page.size(1440)
    browser.get("about:blank")
    page.complaints()
    return page


def _boxes(page: Page, chart: int) -> list[list[float]]:
    """Left, top, right and bottom of the labels of a chart, from top to bottom."""
    script = (
        "return [...document.querySelectorAll('.chart')[arguments[0]].querySelectorAll('.annotation-text')]"
        ".map((label) => label.getBoundingClientRect()).map((box) => [box.left, box.top, box.right, box.bottom])"
    )
    return sorted(page.run(script, chart), key=lambda box: float(box[1]))


def test_labels_at_the_ends_of_lines_do_not_lie_on_each_other(page: Page) -> None:
    page.open(view="scale", model="bert-base", node="RTX 4090", per="4", nodes="2")
    page.until("return document.querySelector('.chart').data?.length > 2")
    page.until("return document.querySelectorAll('.chart .annotation-text').length > 2")
    boxes = _boxes(page, 0)
    assert all(below[1] >= above[3] - 4 for above, below in pairwise(boxes)), boxes
    names = page.run("return document.querySelector('.chart').data.map((trace) => trace.name)")
    assert "perfect scaling" in names
    assert page.run("return document.querySelector('.chart').layout.hovermode") == "x unified"
    page.keep(SCREENSHOTS / "scale-labels-1440-light.png")
    assert page.complaints() == []


def test_more_labels_than_room_are_still_apart(page: Page) -> None:
    page.open(view="why")
    script = """
      const done = arguments[1];
      import("/js/charts.js").then(({ apart, uncrowded }) => done(arguments[0] === "apart"
        ? apart([10, 11, 12, 90, 91, 50], 200) : uncrowded(["one", "two", "three"], [[0, 0], [5, 3], [0, 40]])));
    """
    places = sorted(page.driver.execute_async_script(script, "apart"))
    assert all(higher - lower > 16 for lower, higher in pairwise(places)), places
    assert places[0] >= 0
    assert places[-1] <= 200
    assert page.driver.execute_async_script(script, "texts") == ["one", "", "three"]


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_no_op_is_drawn_above_the_roof(page: Page, server: Server, model: str) -> None:
    page.open(view="model", model=model, gpu="RTX 4090")
    page.until("return document.querySelectorAll('.chart')[1]?.data?.length === 2")
    roof, ops = page.run("return document.querySelectorAll('.chart')[1].data.map((trace) => [[...trace.x], [...trace.y]])")
    peak, bandwidth = roof[1][-1], roof[1][0] / roof[0][0]
    gpu = server.ask("gpus", names=["RTX 4090"]).json["gpus"][0]
    assert bandwidth == pytest.approx(gpu["memory_bytes_per_s"])
    assert len(ops[0]) > 3
    assert all(rate <= 1.001 * min(peak, across * bandwidth) for across, rate in zip(*ops, strict=True))


def test_the_largest_batch_is_where_the_api_says(page: Page, server: Server) -> None:
    page.open(view="model", model="resnet50", gpu="RTX 3090")
    page.until("return document.querySelectorAll('.chart')[2]?.data?.length > 2")
    most = server.ask("fit", model="resnet50", gpu=["RTX 3090"], remedies=False).json["max_batch"]
    fits = page.run("return [...document.querySelectorAll('.chart')[2].data.find((trace) => trace.name === 'fits').x]")
    beyond = page.run("return [...document.querySelectorAll('.chart')[2].data.find((one) => one.name === 'does not fit').x]")
    assert fits[-1] == beyond[0] == most


def test_the_price_at_which_the_order_changes_is_the_answers_own(page: Page, server: Server) -> None:
    cards = ["RTX 3090", "RTX 4090", "RTX 5070 Ti"]
    page.open(view="compare", cards=",".join(cards), model="resnet50")
    page.until("return document.querySelector('.chart.short').data")
    deals = server.ask("compare", names=cards, model=["resnet50"]).json["deals"]
    drawn = page.run(
        "const trace = document.querySelector('.chart.short').data[2];"
        "return Object.fromEntries(trace.y.map((name, place) => [name, trace.x[place]]))"
    )
    assert drawn == {deal["gpu"]: pytest.approx(deal["even_usd"]) if deal["even_usd"] else None for deal in deals}
    assert all(deal["price_low_usd"] <= deal["price_usd"] <= deal["price_high_usd"] for deal in deals)
    assert page.complaints() == []
