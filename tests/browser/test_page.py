"""Every view in a real browser: it opens, a control changes its numbers to what the API says, and there are no errors."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pages import SCREENSHOTS, Page, plain

from making_traces import Run, training
from serving import Server

pytestmark = pytest.mark.slow
_ORDER = ["fail", "tight", "unknown", "pass"]  # of checks
_FACTS = (
    "return Object.fromEntries([...document.querySelectorAll('main .facts > div')]"
    ".map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))"
)
VIEWS = ["choose", "model", "compare", "rent", "build", "scale", "why", "gpus", "pinned"]


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    page = Page(browser, server)
    page.size(1440)
    browser.get("about:blank")  # what the last test left unanswered is its own
    page.complaints()
    return page


def _shown(number: float) -> str:
    """As the page writes a number of three digits."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{float(f'{number:.3g}'):g}"


def _plain(verdict: str) -> str:
    """As the page says it: without the options of a command, with months and models by name and memory in GiB."""
    months = re.sub(r"\b20\d\d-\d\d\b", lambda found: date.fromisoformat(f"{found[0]}-01").strftime("%b %Y"), verdict)
    return re.sub(r"(\d) GB\b", r"\1 GiB", re.sub(r" \(`--[^`]*`\)", "", months)).replace("resnet50", "ResNet-50")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_view_opens_without_a_complaint_and_fits_its_window(page: Page, view: str, width: int, dark: bool) -> None:
    page.size(width, dark=dark)
    page.open(view=view)
    if view not in ("why", "gpus", "pinned"):
        assert len(page.verdict) > 20
    assert page.run("return document.documentElement.scrollWidth") <= width
    page.keep(SCREENSHOTS / f"{view}-{width}-{'dark' if dark else 'light'}.png")
    assert page.complaints() == []


def _says(page: Page, answer: dict[str, Any]) -> None:
    """The page names the recommended card and says every other part of the verdict, the reason and the rent in sight."""
    parts = {said["about"]: _plain(said["text"]) for said in answer["said"]}
    best = next(option for option in answer["options"] if option["recommended"])
    assert best["gpu"] in page.pick
    assert page.verdict == " ".join(parts[about] for about in ("why", "rent") if about in parts)
    folded = " ".join(page.run("return [...document.querySelectorAll('.hero .rest li')].map((one) => one.textContent)"))
    assert all(text in folded for about, text in parts.items() if about not in ("pick", "why", "rent"))


def test_choosing_follows_the_budget_and_the_hours(page: Page, server: Server) -> None:
    page.open(view="choose", model="resnet50", budget="800")
    _says(page, server.ask("which", model=["resnet50"], budget=800).json)
    page.move("hours", 60)
    answer = server.ask("which", model=["resnet50"], budget=800, hours_per_week=60).json
    _says(page, answer)
    assert f"${answer['options'][0]['total_usd']:,.0f}" in page.text
    assert page.complaints() == []


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_options_are_shown_whole_with_their_remarks(page: Page, width: int) -> None:
    page.size(width)
    page.open(view="choose")
    box = "document.querySelector('table.cards').parentElement"
    assert page.run(f"return {box}.scrollWidth - {box}.clientWidth") <= 0
    remark = page.run(f"return {box}.querySelector('th .remark').getBoundingClientRect().toJSON()")
    assert remark["height"] > 0
    assert remark["right"] <= width


def test_cards_out_of_reach_are_grey_and_say_why(page: Page) -> None:
    page.open(view="choose", model="llama-2-7b", mode="train", budget="1500", find="rtx 5050")
    rows = page.run("return [...document.querySelectorAll('tr.off')].map((row) => row.innerText)")
    assert rows
    assert all("does not fit: it needs" in row for row in rows)


def test_search_and_filters_narrow_the_cards(page: Page) -> None:
    page.open(view="choose", find="4090")
    names = page.run("return [...document.querySelectorAll('table')].at(-1).innerText")
    assert "4090" in names
    assert "5090" not in names
    page.open(view="choose", memory="48")
    found = page.run(
        "return [...[...document.querySelectorAll('table')].at(-1).tBodies[0].rows].map((row) => row.cells[2].innerText)"
    )
    assert found
    assert all(float(memory.split()[0]) >= 46 for memory in found)


def test_my_model_shows_the_step_of_the_batch_that_was_chosen(page: Page, server: Server) -> None:
    page.open(view="model", gpu="RTX 4090")
    page.move("batch", 48)
    page.run("document.querySelector('details:has(.roofline)').open = true")  # it is drawn where it is looked at
    page.until("return document.querySelector('.chart.roofline').data?.length === 2")
    answer = server.ask("predict", model="resnet50", gpu=["RTX 4090"], batch="48").json["results"][0]
    fit = server.ask("fit", model="resnet50", gpu=["RTX 4090"], batch="48", remedies=False).json
    assert f"{_shown(answer['samples_per_s'])} samples per second" in page.verdict
    assert f"the largest batch that fits is {fit['max_batch']}" in page.verdict
    traces = "return [...document.querySelector(arguments[0]).data].map((trace) => [...(trace.x ?? [])])"
    waterfall, roofline, growth = (page.run(traces, f".chart.{kind}") for kind in ("waterfall", "roofline", "growth"))
    assert waterfall[0][-1] == pytest.approx(answer["step_s"] * 1e3)
    lasting = [op for op in answer["by_op"] if op["moved_bytes"] > 0 and op["seconds"] > answer["step_s"] / 2000]
    assert len(roofline[1]) == len(lasting)  # what takes next to no time would only stretch the axis
    assert [48] in growth
    assert page.complaints() == []


def test_comparing_says_the_ratio_of_the_api(page: Page, server: Server) -> None:
    page.open(view="compare", cards="RTX 2070 Max-Q,RTX 3060 12GB,RTX 4070 Ti", model="bert-base")
    names = ["RTX 2070 Max-Q", "RTX 3060 12GB", "RTX 4070 Ti"]
    for pair in server.ask("compare", names=names, model=["bert-base"]).json["pairs"]:
        assert f"{pair['gpu']} is {pair['ratio']:.2f} times as fast" in page.verdict
    page.until("return document.querySelector('.chart').data?.length === 2")
    assert page.complaints() == []


def test_owning_and_renting_cross_where_the_api_says(page: Page, server: Server) -> None:
    page.open(view="rent", gpu="RTX 4090")
    page.move("kwh", 0.3)
    page.move("hours", 100)
    answer = server.ask("cost", gpu="RTX 4090", kwh_price=0.3, hours_per_week=100).json
    gap = abs(answer["own"]["total_usd"] - answer["rent"][0]["total_usd"])
    assert page.pick.startswith(("Buy", "Rent")) or f"costs ${gap:,.{2 if gap < 10 else 0}f} less over 3 years" in page.pick
    here = next(row for row in answer["break_even"] if row["utilization_fraction"] == answer["utilization_fraction"])
    dot = page.run("return document.querySelector('.chart').data.find((trace) => trace.name === 'break-even')?.x[0]")
    assert dot == pytest.approx(here["days_with_resale"] / 365.25)
    assert page.complaints() == []


def test_more_machines_are_planned_as_the_api_says(page: Page, server: Server) -> None:
    page.open(view="scale", model="bert-base", node="A100 SXM 80GB")
    page.move("nodes", 4)
    answer = server.ask("plan", model="bert-base", cluster="4x8xA100 SXM 80GB").json
    facts = page.run(_FACTS)
    assert facts["samples per second"].startswith(_shown(answer["plans"][answer["recommended"]]["samples_per_s"]))
    page.until("return document.querySelector('.chart').data?.length > 2")
    first, last = answer["scaling"][0], answer["scaling"][-1]
    assert f"{last['samples_per_s'] / first['samples_per_s']:.1f} times as fast as" in page.verdict
    assert "for a million samples when rented" in page.verdict
    drawn = page.run("const [first] = document.querySelector('.chart').data; return [[...first.x], [...first.y]]")
    assert drawn[0] == [point["gpu_count"] for point in answer["scaling"]]
    assert drawn[1] == pytest.approx([point["samples_per_s"] for point in answer["scaling"]])
    assert page.complaints() == []


def test_a_machine_is_built_with_keys_and_by_dragging(page: Page, server: Server) -> None:
    page.open(view="build", parts="RTX 5090", psu="850")
    page.run("document.querySelector('[aria-label=\"One more RTX 5090\"]').click()")
    page.wait(2)
    answer = server.ask("build", gpu=["2x RTX 5090"], psu="850").json
    marks = page.run("return [...document.querySelectorAll('td .mark')].map((mark) => mark.textContent)")
    assert marks == sorted((line["verdict"] for line in answer["lines"]), key=_ORDER.index)
    assert "fail" in marks
    page.run(
        "const data = new DataTransfer(); data.setData('text/plain', 'psu|1600');"
        "const drop = new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});"
        "document.querySelector('.drop').dispatchEvent(drop)"
    )
    page.wait(3)
    assert "supply 1,600 W" in page.text
    assert page.complaints() == []


def test_board_cpu_and_room_count_as_the_api_says_and_stay_in_the_link(page: Page, server: Server) -> None:
    machine = {"psu": "1600", "lanes": "X299", "board": "ATX", "cpu": "Core i7-8700K", "ram": "64", "room": "15"}
    page.open(view="build", parts="2x RTX 3090", **machine)
    asked = {"gpu": ["2x RTX 3090"], **machine}
    answer = server.ask("build", **asked).json
    found = page.run("return [...document.querySelectorAll('td .mark')].map((mark) => mark.closest('tr').textContent)")
    assert len(found) == len(answer["lines"])
    lines = sorted(answer["lines"], key=lambda line: _ORDER.index(line["verdict"]))
    for line, shown in zip(lines, found, strict=True):
        assert line["text"][1:40] in shown
    page.run(
        "const input = document.querySelector('input[name=slots]'); input.value = '3';"
        "input.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    page.wait(2)
    assert "slots=3" in page.driver.current_url
    assert "lanes=X299" in page.driver.current_url
    lines = server.ask("build", **asked, case_slots=3).json["lines"]
    slots = next(line for line in lines if line["check"] == "slots")
    assert slots["text"] in page.text


@pytest.mark.parametrize("view", [*VIEWS[:6], "gpus", "accuracy"])
def test_every_number_of_a_table_can_be_opened(page: Page, view: str) -> None:
    page.open(view=view, model="bert-base")
    told = {"rows", "calls", "GPUs", "ZeRO", "micro-batch", "range", "of all hours", ""}  # counts, and words
    bare = page.run(
        "return [...document.querySelectorAll('main table')].filter((table) => !table.closest('details')).flatMap((table) => {"
        "const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);"
        "return [...table.tBodies[0].rows].flatMap((row) => [...row.cells].slice(1)"
        ".filter((cell) => !cell.matches('.left, .wide-text') && /[0-9]/.test(cell.textContent) && !cell.querySelector('.num'))"
        ".map((cell) => [row.cells[0].textContent, heads[cell.cellIndex], cell.textContent]))})"
    )
    assert [cell for cell in bare if cell[1] not in told and cell[0] not in ("architecture", "launched")] == []
    facts = page.run("return [...document.querySelectorAll('.facts dd')].filter((dd) => !dd.querySelector('.num')).length")
    assert facts == 0
    opened = page.run(
        "return [...document.querySelectorAll('main .num')].slice(0, 40).map((button) => { button.click();"
        "const dialog = document.querySelector('dialog[open]'); const text = dialog.innerText; dialog.close(); return text })"
    )
    assert opened
    assert [text for text in opened if any(word in text for word in ("NaN", "undefined", "Infinity", "[object"))] == []
    assert [text for text in opened if "Data from 20" not in text] == []


def test_a_view_offers_only_what_its_answer_depends_on(page: Page) -> None:
    def offered() -> list[str]:
        found = page.run(
            "return [...document.querySelectorAll('#inputs [name]')].filter((e) => e.checkVisibility()).map((e) => e.name)"
        )
        return list(found)

    money = ["hours", "years", "kwh", "region"]
    page.open(view="model", model="resnet50")
    assert offered() == ["model", "gpu", "count", "mode", "batch", "precision", "optimizer", "samples"]
    page.open(view="model", model="bert-base")
    assert offered() == ["model", "gpu", "count", "mode", "batch", "seq", "precision", "optimizer", "samples"]
    page.open(view="model", model="llama-3-8b")
    assert offered() == ["model", "gpu", "count", "mode", "weights", "engine", "users", "prompt", "output"]
    page.open(view="choose", model="resnet50", seq="512")  # a link of another model: resnet50 has no sequence
    asked = ["machine", "resale", "prices", "source", "vendor", "most"]
    page.run("for (const one of document.querySelectorAll('#inputs details')) one.open = true")
    assert offered() == ["mode", "batch", "precision", "samples", *money, *asked]
    assert page.run("return document.querySelector('[role=alert]')") is None
    page.open(view="rent")
    assert offered() == ["gpu", "count", *money, "price", "machine", "resale", "commit"]
    page.open(view="build")
    assert offered() == []


def test_a_trace_is_dropped_and_diagnosed_and_its_names_stay_text(page: Page, server: Server, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>sgemm"
    trace = training(Run(), name=evil, load_us=9000.0, workers=False, kernel_us=200.0).write(tmp_path / "evil<b>.json.gz")
    page.open(view="why")
    page.driver.find_element("id", "files").send_keys(str(trace))
    page.until("return document.querySelector('.finding')")
    answer = server.why(trace).json
    assert plain(page.verdict) == plain(answer["verdict"])
    titles = page.run("return [...document.querySelectorAll('.finding h3')].map((title) => title.textContent)")
    assert titles == [
        f"{place}. {finding['title'][:1].upper()}{finding['title'][1:]}"
        for place, finding in enumerate(answer["findings"], start=1)
    ]
    tips = page.run("return [...document.querySelectorAll('.timeline .span title')].map((span) => span.textContent)")
    assert any(evil[:100] in tip for tip in tips)
    assert page.run("return document.querySelectorAll('main script, main img, main b').length") == 0
    assert "hacked" not in page.driver.title
    page.keep(SCREENSHOTS / "why-diagnosed-1440-light.png")
    assert page.complaints() == []


def test_several_ranks_are_shown_beside_each_other(page: Page, tmp_path: Path) -> None:
    files = [
        training(Run(rank=rank, world_size=2), reduce_us=500.0, kernels=20 + 10 * rank).write(tmp_path / f"rank{rank}.json")
        for rank in range(2)
    ]
    page.open(view="why")
    page.driver.find_element("id", "files").send_keys("\n".join(map(str, files)))
    page.until("return document.querySelector('.finding, .notice, .verdict')")
    assert "rank0.json" in page.text
    assert "rank1.json" in page.text


def test_a_link_shows_the_same_again(page: Page) -> None:
    page.open(view="model", gpu="RTX 3060 12GB", model="bert-base")
    page.move("batch", 24)
    page.move("seq", 256)
    seen, link = page.verdict, page.driver.current_url
    page.open(view="choose")
    page.driver.get(link)
    page.wait(1)
    assert page.verdict == seen
    assert "batch=24" in link
    page.run("document.getElementById('nav-rent').click()")
    page.until("return document.querySelector('h1').textContent.includes('rent')")
    page.driver.back()
    page.until("return document.querySelector('h1').textContent.includes('model')")
    page.until(f"return document.querySelector('.verdict').textContent === {json.dumps(seen)}")


def test_a_number_can_be_opened_with_the_keyboard(page: Page) -> None:
    page.open(view="model", gpu="RTX 3090")
    page.run("document.querySelector('.facts button.num').focus()")
    page.run("document.activeElement.click()")
    opened = page.run("return document.querySelector('dialog[open]')?.innerText")
    assert "the longest lane determines the step time" in opened
    assert "Assumptions" in opened
    assert "Data from 20" in opened
    page.driver.find_element("tag name", "body").send_keys("\ue00c")
    page.until("return !document.querySelector('dialog[open]')")
    assert page.run("return document.activeElement.className") == "num"


def test_a_mistake_is_said_with_its_hint(page: Page) -> None:
    page.open(view="model", gpu="RTX 9999")
    said = page.run("return document.querySelector('[role=alert]').innerText")
    assert "Unknown GPU" in said
    assert [line for line in page.complaints() if "400" not in line] == []


def test_stale_answers_are_dropped_while_a_slider_moves(page: Page, server: Server) -> None:
    page.open(view="model", gpu="RTX 3090")
    for batch in (8, 96, 12, 64):
        page.run(
            "const input = document.querySelector('input[name=batch]'); input.value = arguments[0];"
            "input.dispatchEvent(new Event('input', {bubbles: true}))",
            [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96].index(batch),
        )
    page.until("return document.querySelector('main').innerText.includes('batch 64,')")
    answer = server.ask("predict", model="resnet50", gpu=["RTX 3090"], batch="64").json["results"][0]
    page.until(f"return document.querySelector('.verdict').textContent.includes('{_shown(answer['samples_per_s'])}')")
    assert page.complaints() == []


def test_how_accurate_shows_every_row(page: Page, server: Server) -> None:
    page.open(view="accuracy")
    answer = json.loads(server.send("GET", "/api/accuracy").body)
    assert page.run(_FACTS)["median error"].startswith(f"{100 * answer['median_ape']:.1f}%")
    assert f"{answer['predicted']:,} published steps" in page.verdict
    drawn = page.run(
        "return document.querySelector('.chart').data.filter((trace) => trace.mode === 'markers')"
        ".reduce((sum, trace) => sum + trace.x.length, 0)"
    )
    assert drawn == answer["predicted"]
    page.keep(SCREENSHOTS / "accuracy-1440-light.png")
    assert page.complaints() == []
