"""The view of traces: a sample to try, how to record one, two runs beside each other, a step to zoom into, a file to save."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pages import SCREENSHOTS, Page, plain

from making_traces import training
from serving import Server

pytestmark = pytest.mark.slow
SAMPLES = Path(str(files("gpuwise.surfaces.web") / "static" / "samples"))
_READ = "return document.querySelector('main .verdict') && !document.querySelector('.waiting')"


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    page = Page(browser, server)
    page.size(1440)
    page.open(view="why")
    page.run("sessionStorage.clear()")
    page.open(view="why")
    page.complaints()
    return page


def ticks(page: Page) -> list[str]:
    return list(page.run("return [...document.querySelectorAll('.timeline .tick')].map((tick) => tick.textContent)"))


def saved(page: Page, button: str) -> str:
    """What the button would write to disk."""
    script = """
      const done = arguments[1];
      const before = URL.createObjectURL;
      URL.createObjectURL = (blob) => { blob.text().then(done); URL.createObjectURL = before; return before.call(URL, blob); };
      document.getElementById(arguments[0]).click();
    """
    return str(page.driver.execute_async_script(script, button))


def test_a_sample_can_be_tried_and_stays_after_a_reload(page: Page, server: Server) -> None:
    page.run("document.getElementById('sample').click()")
    page.until(_READ)
    answer = server.why(SAMPLES / "slow_loader.json.gz").json
    assert plain(page.verdict) == plain(answer["verdict"])
    assert "input pipeline" in answer["verdict"]
    page.driver.refresh()
    page.wait(1)
    assert plain(page.verdict) == plain(answer["verdict"])
    assert page.run("return document.querySelectorAll('.timeline .span').length") > 5
    page.run("document.getElementById('forget').click()")
    page.driver.refresh()
    page.wait(1)
    assert page.run("return document.querySelector('main .verdict')") is None
    assert page.complaints() == []


def test_a_diagnosis_comes_before_the_place_for_the_next_file(page: Page) -> None:
    place = "return [...document.querySelectorAll('main .verdict-card, main .drop')].map((node) => node.classList[0])"
    assert page.run(place) == ["drop"]
    assert page.run("return document.querySelector('main details').open")  # how to record one
    page.run("const one = document.getElementById('sample'); one.focus(); one.click()")
    page.until(_READ)
    assert page.run(place) == ["card", "drop"]
    assert page.run("return document.activeElement.id") == "sample"
    page.run("document.getElementById('forget').click()")
    assert page.run(place) == ["drop"]


def test_a_slow_run_is_explained_in_two_clicks_from_the_first_page(page: Page) -> None:
    page.open()
    page.click("Why is my training slow?")
    page.run("document.getElementById('sample').click()")
    page.until(_READ)
    assert "input pipeline" in page.pick
    assert "num_workers" in page.run("return document.getElementById('fix').textContent")


def test_the_timeline_zooms_with_buttons_and_keys_and_its_axis_follows(page: Page) -> None:
    page.run("document.getElementById('sample').click()")
    page.until(_READ)
    whole = ticks(page)
    assert whole[0] == "0 ms"
    lanes = page.run("return [...document.querySelectorAll('.timeline .lane-name')].map((name) => name.textContent)")
    assert {"CPU: kernels", "CPU: idle", "host: loading data"} <= set(lanes)
    causes = page.run("return [...document.querySelectorAll('.timeline .span title')].map((one) => one.textContent)")
    assert any("input wait" in cause for cause in causes)
    for _ in range(3):
        page.run("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    near = ticks(page)
    assert near != whole
    page.driver.find_element("css selector", ".timeline").send_keys("\ue014")  # right
    assert ticks(page) != near
    page.driver.find_element("css selector", ".timeline").send_keys("0")
    assert ticks(page) == whole
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_two_runs_are_compared_as_the_command_compares_them(page: Page, server: Server) -> None:
    page.run("document.getElementById('sample').click()")
    page.until(_READ)
    page.driver.find_element("id", "second").send_keys(str(SAMPLES / "fast_loader.json.gz"))
    page.until("return document.getElementById('compared')")
    both = [SAMPLES / "slow_loader.json.gz", SAMPLES / "fast_loader.json.gz"]
    sizes = "&".join(f"name={file.name}&size={file.stat().st_size}" for file in both)
    body = b"".join(file.read_bytes() for file in both)
    answer = server.send("POST", f"/api/why?{sizes}&compare=true", body).json
    assert answer["files"] == ["slow_loader.json.gz"]
    said = page.run("return document.getElementById('compared').textContent")
    assert said.lower().rstrip(".") == answer["compare"]["verdict"].lower().rstrip(".")
    assert answer["compare"]["speed_up"] > 1.5
    rows = page.run(
        "return [...document.querySelectorAll('table')].find((one) => one.caption?.textContent.startsWith('Parts'))"
        ".tBodies[0].rows.length"
    )
    assert rows == len(answer["compare"]["parts"])
    assert page.complaints() == []


def test_a_diagnosis_can_be_saved(page: Page, server: Server, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>|`"
    trace = training(name=evil, load_us=9000.0, workers=False, kernel_us=200.0).write(tmp_path / "mine.json.gz")
    page.driver.find_element("id", "files").send_keys(str(trace))
    page.until(_READ)
    answer = server.why(trace).json
    assert json.loads(saved(page, "save-json")) == answer
    text = saved(page, "save-markdown")
    assert answer["findings"][0]["title"] in text
    assert "<img" not in text
    assert page.complaints() == []


def test_one_file_is_not_compared_with_itself(server: Server) -> None:
    refused = server.send("POST", "/api/why?name=a.json&compare=true", b"{}")
    assert refused.status == 400
    assert "both runs" in refused.json["hint"]


def test_every_profiler_has_lines_to_copy(page: Page) -> None:
    page.run("document.querySelector('details.fold summary').click()")
    names = page.run("return [...document.querySelectorAll('.tabs button')].map((button) => button.textContent)")
    assert {"PyTorch", "Keras", "JAX", "Nsight Systems"} <= set(names)
    seen = set()
    for place in range(len(names)):
        page.run("document.querySelectorAll('.tabs button')[arguments[0]].click()", place)
        seen.add(page.run("return document.querySelector('.record pre').textContent"))
        assert page.run("return document.querySelector('.tabs [aria-pressed=true]').textContent") == names[place]
    assert len(seen) == len(names)
    python = [text for text in seen if "import" in text]
    for text in python:
        compile(text, "snippet", "exec")


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False), (390, True)])
def test_two_runs_have_a_picture(page: Page, width: int, dark: bool) -> None:
    page.size(width, dark=dark)
    page.run("document.getElementById('sample-pair').click()")
    page.until("return document.getElementById('compared') && !document.querySelector('.waiting')")
    assert page.run("return document.documentElement.scrollWidth") <= width
    page.keep(SCREENSHOTS / f"why-two-runs-{width}-{'dark' if dark else 'light'}.png")
