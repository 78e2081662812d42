"""What charts promise: labels that do not lie on each other, no op above its roof, the price at which the order changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pages import SCREENSHOTS, Page

from serving import Server

pytestmark = pytest.mark.slow


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
    page.run("document.querySelector('details:has(.roofline)').open = true")
    page.until("return document.querySelector('.chart.roofline').data?.length === 2")
    roof, ops = page.run("return document.querySelector('.chart.roofline').data.map((trace) => [[...trace.x], [...trace.y]])")
    peak, bandwidth = roof[1][-1], roof[1][0] / roof[0][0]
    gpu = server.ask("gpus", names=["RTX 4090"]).json["gpus"][0]
    assert bandwidth == pytest.approx(gpu["memory_bytes_per_s"])
    assert len(ops[0]) > 3
    assert all(rate <= 1.001 * min(peak, across * bandwidth) for across, rate in zip(*ops, strict=True))


@pytest.mark.parametrize("case", [{}, {"model": "llama-3-70b", "users": "10", "weights": "q4_k_m"}])
def test_options_and_the_best_for_their_cost_are_named_where_there_is_room(
    page: Page, server: Server, case: dict[str, str]
) -> None:
    page.open(**case)
    page.until("return document.querySelector('.chart').data?.some((trace) => trace.mode === 'text')")
    trace = "document.querySelector('.chart').data.find((one) => one.mode === 'text')"
    drawn = {text.strip() for text in page.run(f"return [...{trace}.text]") if text}
    options = page.run("return [...document.querySelectorAll('.options table tbody th button')].map((one) => one.textContent)")
    asked = {**case, "model": [case["model"]], "users": 10} if case else {}
    front = [one for one in server.ask("which", **asked).json["looked_at"] if one["front"]]
    best = {f"{one['gpu_count']}x {one['gpu']}" if one["gpu_count"] > 1 else one["gpu"] for one in front}
    assert drawn & best
    assert drawn <= set(options[1:]) | best
    assert options[0] not in drawn  # the recommended one has a label of its own
    left = "return [...document.querySelectorAll('.chart')[0].querySelectorAll('.textpoint')].map((one) => {"
    place = "const box = one.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom] })"
    boxes = [box for box in page.run(left + place) if box[2] - box[0] > 15]
    assert len(boxes) == len([text for text in page.run(f"return [...{trace}.text]") if text])
    for number, one in enumerate(boxes):
        assert all(
            one[2] <= other[0] + 8 or other[2] <= one[0] + 8 or one[3] <= other[1] + 6 or other[3] <= one[1] + 6
            for other in boxes[:number]
        )


def test_the_largest_batch_is_where_the_api_says(page: Page, server: Server) -> None:
    page.open(view="model", model="resnet50", gpu="RTX 3090")
    page.until("return document.querySelector('.chart.growth')?.data?.length > 2")
    most = server.ask("fit", model="resnet50", gpu=["RTX 3090"], remedies=False).json["max_batch"]
    fits = page.run("return [...document.querySelector('.chart.growth').data.find((trace) => trace.name === 'fits').x]")
    beyond = page.run("return [...document.querySelector('.chart.growth').data.find((one) => one.name === 'does not fit').x]")
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


_PHONE = [
    ({"view": "rent", "gpu": "H100 PCIe 80GB"}, 1),
    ({"view": "model", "model": "resnet50"}, 2),
    ({"view": "compare", "cards": "RTX 3090,RTX 4090,RTX 5090"}, 2),
    ({"task": "learning", "budget": "800"}, 1),
    ({"view": "scale", "model": "bert-base"}, 1),
]


@pytest.mark.parametrize(("state", "count"), _PHONE, ids=lambda value: str(value))
def test_a_chart_has_room_on_a_phone(page: Page, state: dict[str, str], count: int) -> None:
    page.size(390)
    page.open(**state)
    page.until(f"return [...document.querySelectorAll('.chart')].filter((one) => one.querySelector('.xtick')).length >= {count}")
    charts = page.run(
        "const box = (node) => node?.getBoundingClientRect().toJSON();"
        "const turned = (text) => /rotate\\((?!0[,)])/.test(text.getAttribute('transform') ?? '');"
        "const told = (one, { _size: size, yaxis }) => ({ legend: box(one.querySelector('.legend')),"
        "  wide: size.w, high: size.h, top: box(one).top + size.t, rows: yaxis.type === 'category' && yaxis.showticklabels,"
        "  ticks: [...one.querySelectorAll('.xtick text')].map((text) => ({ ...box(text), turned: turned(text) })),"
        "  titles: one.querySelectorAll('.xtitle, .ytitle').length, caption: one.previousElementSibling?.textContent ?? '' });"
        "return [...document.querySelectorAll('.chart')].filter((one) => one.checkVisibility() && one.querySelector('.xtick'))"
        ".map((one) => told(one, one._fullLayout))"
    )
    assert len(charts) >= count
    for chart in charts:
        assert chart["wide"] >= 200
        assert chart["high"] >= 130
        assert 1 < len(chart["ticks"]) <= 5
        assert not any(tick["turned"] for tick in chart["ticks"])
        assert all(left["right"] < right["left"] for left, right in pairwise(sorted(chart["ticks"], key=lambda one: one["left"])))
        assert all(tick["right"] <= 390 for tick in chart["ticks"])
        assert chart["legend"] is None or chart["legend"]["bottom"] <= chart["top"] + 1
        assert not chart["rows"]
        assert chart["titles"] == 0
        assert chart["caption"].startswith(("Up: ", "Across: "))
