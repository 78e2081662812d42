"""What a reader decides by, in a real browser: which way is cheaper and by how much, and what is out of reach and why."""

from __future__ import annotations

import re

import pytest
from pages import Page

from serving import Server

pytestmark = pytest.mark.slow

_FACTS = (
    "return Object.fromEntries([...document.querySelectorAll('.facts > div')]"
    ".map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))"
)
_RANKING = "document.querySelector('main > .body > .card:last-child')"


def _dollars(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\$([\d,]+(?:\.\d+)?)", text)]


# ---------------------------------------------------------------- buy or rent


@pytest.mark.parametrize("gpu", ["H100 PCIe 80GB", "A100 PCIe 80GB", "RTX 3090", "RTX 4090"])
def test_a_close_call_says_which_is_cheaper_by_how_much_and_when_it_turns(page: Page, server: Server, gpu: str) -> None:
    page.open(view="rent", gpu=gpu)
    answer = server.ask("cost", gpu=gpu).json
    own, rent = answer["own"]["total_usd"], answer["rent"][0]["total_usd"]
    lines = page.run("return [...document.querySelectorAll('.verdict-card .verdict > p')].map((one) => one.textContent)")
    if answer["better"] == "either":
        lead = page.run("return document.querySelector('.verdict-card .lead').textContent")
        assert f"{'renting' if rent < own else 'owning'} costs only $" in lead
        assert _dollars(lead)[0] == pytest.approx(abs(own - rent), abs=0.51)
        assert ("cost about the same" in page.pick) == (abs(own - rent) <= 0.1 * own)
    hours = 168 * answer["break_even_utilization_fraction"]
    assert f"{hours:.0f} hours a week" in lines[0]
    assert _dollars(lines[0])[0] == pytest.approx(answer["rent"][0]["usd_per_gpu_hour"] * own / rent, abs=0.006)
    assert sum("spot" in line for line in lines) == ("spot" in lines[-1])


# ---------------------------------------------------------------- choose


def test_cheaper_renting_is_said_outside_the_fold(page: Page, server: Server) -> None:
    page.open(hours="25")
    verdict = server.ask("which", hours_per_week=25).json["verdict"]
    said = re.search(r"Renting [^.]* is cheaper", verdict)
    assert said, "the case no longer has a cheaper rent"
    text = page.run("return document.querySelector('.hero .renting').innerText")
    assert said[0] in text
    assert said[0] not in page.run("return document.querySelector('.hero .rest')?.textContent ?? ''")


def test_other_options_are_a_list(page: Page) -> None:
    page.open(hours="25")
    assert page.run("return document.querySelectorAll('.hero .rest li').length") > 1
    assert page.run("return document.querySelectorAll('.hero .rest p').length") == 0


def test_a_total_below_the_price_spells_out_its_sum(page: Page, server: Server) -> None:
    page.open(task="vision", budget="10000")
    options = server.ask("which", task="vision", budget=10000).json["options"]
    best = next(one for one in options if "the verdict" in one["reasons"])
    assert best["total_usd"] < best["upfront_usd"]
    shown = page.run(_FACTS)["3-year total"]
    total, *parts, resale = _dollars(shown)
    assert sum(parts) - resale == pytest.approx(total, abs=2)
    assert parts[0] == pytest.approx(best["upfront_usd"], abs=0.51)
    assert "electricity" in shown
    assert "resale" in shown


def test_nothing_within_reach_shows_all_and_says_so(page: Page) -> None:
    page.open(model="llama-3-70b", weights="q4_k_m", budget="200")
    count = page.run(f"return {_RANKING}.querySelectorAll('.grid tbody tr').length")
    assert count
    told = page.run(f"return {_RANKING}.querySelector('[role=status]').textContent")
    assert re.match(r"No card is within reach, so all \d+ are shown\.", told)
    pressed = "return [...document.querySelectorAll('[aria-label^=\"Show: \"][aria-pressed=true]')].map((one) => one.textContent)"
    assert page.run(pressed) == ["all"]
    page.open(model="resnet50", budget="800")
    assert page.run(pressed) == ["within reach"]


def test_what_is_rented_is_over_the_budget_by_its_rent(page: Page, server: Server) -> None:
    page.open(model="resnet50", budget="200", kind="rent", fits="0")
    rents = {
        one["gpu"]: one["total_usd"]
        for one in server.ask("which", model=["resnet50"], budget=200).json["looked_at"]
        if one["source"] == "rent" and one["gpu_count"] == 1 and one["short_of"] == "budget"
    }
    rows = page.run(
        f"return [...{_RANKING}.querySelectorAll('.grid tbody tr')]"
        ".map((row) => [row.querySelector('.num').firstChild.textContent, row.querySelector('.remark')?.textContent ?? ''])"
    )
    shown = {gpu: _dollars(said) for gpu, said in rows if gpu in rents}
    assert shown
    for gpu, (whole, over) in shown.items():
        assert whole == pytest.approx(rents[gpu], abs=0.51)
        assert over == pytest.approx(rents[gpu] - 200, abs=0.51)


@pytest.mark.parametrize("width", [1440, 390])
def test_every_column_of_all_cards_has_a_title_and_grey_options_are_named_where_they_are_drawn(page: Page, width: int) -> None:
    page.size(width)
    for state in ({"hours": "25"}, {"model": "resnet50", "budget": "200", "fits": "0"}):
        page.open(**state)
        heads = page.run(f"return [...{_RANKING}.querySelectorAll('.grid thead th')].map((one) => one.innerText.trim())")
        assert all(heads)
        page.until("return document.querySelector('.chart.tall').data?.length > 1")
        grey = page.run("return document.querySelector('.chart.tall').data.some((one) => one.name === 'out of reach')")
        assert ("Grey options" in page.run("return document.querySelector('.chart.tall + .note').textContent")) == grey


# ---------------------------------------------------------------- what is assumed


@pytest.mark.parametrize(
    ("gpu", "why"), [("H100 PCIe 80GB", "usual for a shared cluster"), ("RTX 3090", "usual for a busy desktop")]
)
def test_a_slider_rests_where_its_value_is_assumed_and_says_why(page: Page, server: Server, gpu: str, why: str) -> None:
    page.open(view="rent", gpu=gpu)
    answer = server.ask("cost", gpu=gpu).json
    place = "const input = document.querySelector('input[name=%s]'); return input.values[input.value]"
    share = answer["utilization_fraction"]
    assert page.run(place % "hours") == pytest.approx(168 * share, abs=1)
    assert page.run(place % "resale") == pytest.approx(answer["own"]["resale_usd"] / answer["own"]["gpu_usd"], abs=0.05)
    said = "return document.querySelector('input[name=hours]').parentElement.innerText"
    assert f"{share:.0%} of the time, {why}" in page.run(said)
    page.move("hours", 100)
    assert why not in page.run(said)


# ---------------------------------------------------------------- one plan, one device, one thing to do


@pytest.mark.parametrize("model", ["resnet50", "gpt2-xl"])
def test_the_speed_up_is_that_of_the_marked_plan(page: Page, server: Server, model: str) -> None:
    page.open(view="scale", model=model)
    answer = server.ask("plan", model=model, cluster="2x8xH100 SXM 80GB").json
    best = answer["plans"][answer["recommended"]]
    assert best["samples_per_s"] != answer["scaling"][-1]["samples_per_s"]
    page.until("return document.querySelector('main').innerText.includes('times as fast as')")
    faster = best["samples_per_s"] / answer["scaling"][0]["samples_per_s"]
    assert f"{faster:.1f} times as fast" in page.pick
    rows = (
        "return [...document.querySelectorAll('table')].find((one) => one.caption?.textContent === 'What more GPUs cost')?.rows"
    )
    page.until(f"{rows}?.length")
    assert page.run(f"{rows}[arguments[0]].innerText", len(answer["scaling"])).split()[2].startswith(f"{faster:.2f}")


def test_a_trace_without_a_gpu_is_not_told_of_one(page: Page) -> None:
    page.open(view="why")
    page.run("sessionStorage.clear()")  # the tab may still hold the result of another test
    page.open(view="why")
    page.run("document.getElementById('sample').click()")
    page.until("return document.querySelector('.finding')")
    assert "GPU busy" not in page.text
    assert "CPU busy" in page.text
    assert "Where the CPU is idle" in page.text
    assert "Where the GPU is idle" not in page.text
    assert re.search(r"Mean of all \d+ steady steps", page.text)
    assert "One median step" in page.text
    colour = (
        "const probe = document.body.appendChild(document.createElement('i')); probe.style.background = 'var(--warn)';"
        "const warn = getComputedStyle(probe).backgroundColor; probe.remove();"
        "const piece = [...document.querySelectorAll('.stack > span')].find((one) => one.title.startsWith('input wait'));"
        "return [getComputedStyle(piece).backgroundColor, warn]"
    )
    shown, warn = page.run(colour)
    assert shown == warn


@pytest.mark.parametrize("case", [{"model": "llama-3-70b"}, {"model": "gpt2-xl"}])
def test_where_a_model_does_not_fit_the_first_remedy_is_the_solid_button(page: Page, case: dict[str, str]) -> None:
    page.open(view="model", gpu="RTX 3090", **case)
    page.until("return document.querySelector('main [aria-label^=\"Apply: \"]')")
    page.until("return !document.querySelector('main').innerText.includes('Looking for ways')")
    solid = (
        "const probe = document.body.appendChild(document.createElement('i')); probe.style.background = 'var(--accent)';"
        "const accent = getComputedStyle(probe).backgroundColor; probe.remove();"
        "return [...document.querySelectorAll('#view .body button, #view .body .ways a')]"
        ".filter((one) => one.checkVisibility() && getComputedStyle(one).backgroundColor === accent)"
        ".map((one) => one.textContent)"
    )
    assert page.run(solid) == ["Apply"]
    assert "against now" not in page.text
    beyond = page.run(
        "const box = (one) => document.querySelector(one).getBoundingClientRect();"
        "const [bar, red, limit] = ['.stack', '.beyond', '.limit'].map(box);"
        "return [red.left - limit.left, red.width / bar.width]"
    )
    assert abs(beyond[0]) < 2
    assert beyond[1] > 0.02


def test_a_build_nobody_chose_is_an_example_and_what_fails_comes_first(page: Page) -> None:
    example = "return document.querySelector('.verdict-card .purpose').checkVisibility()"
    page.open(view="build")
    assert page.run(example)
    assert "Example: 2x RTX 3090." in page.text
    assert page.run("return document.querySelectorAll('.ask input[name=psu]').length") == 1
    assert page.run("return document.querySelector('.ask input[name=psu]').closest('.named').innerText").startswith(
        "Power supply"
    )
    page.open(view="build", parts="RTX 4090", psu="650")
    assert not page.run(example)
    marks = (
        "return [...document.querySelectorAll('.card .mark')]"
        ".filter((one) => one.checkVisibility()).map((one) => one.textContent)"
    )
    shown = page.run(marks)
    assert shown == sorted(shown, key=["fail", "tight", "unknown", "pass"].index)
    assert "fail" in shown
    assert "pass" not in shown
    page.run("[...document.querySelectorAll('details')].find((one) => /checks passed/.test(one.textContent)).open = true")
    assert "pass" in page.run(marks)


def test_a_power_limit_shows_what_was_measured_beside_what_is_predicted(page: Page, server: Server) -> None:
    page.open(view="build", parts="4x RTX 4090", psu="1200")
    limits = {f"{one['watts']:g} W": one for one in server.ask("build", gpu=["4x RTX 4090"], psu="1200").json["power_limits"]}
    table = "[...document.querySelectorAll('table')].find((one) => one.caption?.textContent === 'Speed at power limits')"
    rows = page.run(f"return [...{table}.tBodies[0].rows].map((row) => [row.cells[0].innerText, row.cells[1].innerText])")
    assert len(rows) > 3
    for limit, shown in rows:
        low, high = limits[limit]["measured_speed"]
        ends = [f"{100 * low:.0f}", f"{100 * high:.0f}"]
        assert shown == (f"{ends[0]} – {ends[1]}%" if ends[0] != ends[1] else f"{ends[1]}%")
    lowest = limits[rows[-1][0]]
    assert lowest["measured_speed"][1] < min(
        lowest["relative_speed"].values()
    )  # what was measured is shown, and the prediction is folded as an upper bound


def test_rent_beyond_the_budget_is_not_called_cheaper(page: Page) -> None:
    page.open(task="learning", budget="800")
    shown = page.run(_FACTS)["3-year rent"]
    assert _dollars(shown)[0] > 800
    assert "more than your budget" in shown
    assert "less" not in shown


def test_a_batch_that_would_be_much_faster_is_named(page: Page, server: Server) -> None:
    page.open(view="model", model="bert-large-uncased", gpu="RTX 4090")
    lead = page.run("return document.querySelector('.verdict-card .lead').textContent")
    found = re.fullmatch(r"Training with batch (\d+)\. Batch (\d+) fits too, and processes ([\d.]+) times as many .*", lead)
    assert found, lead
    asked = {"model": "bert-large-uncased", "mode": "train", "gpu": ["RTX 4090"]}
    slow, fast = (server.ask("predict", **asked, batch=found[place]).json["results"][0] for place in (1, 2))
    assert fast["fits"]
    assert fast["samples_per_s"] / slow["samples_per_s"] == pytest.approx(float(found[3]), abs=0.06)
    page.open(view="model", model="bert-large-uncased", gpu="RTX 4090", batch=found[2])
    assert "fits too" not in page.run("return document.querySelector('.verdict-card .lead').textContent")


def test_the_speed_for_several_users_is_also_given_for_each(page: Page, server: Server) -> None:
    page.open(model="llama-3-70b", users="10", weights="q4_k_m")
    best = server.ask("which", model=["llama-3-70b"], users=10, weights="q4_k_m").json["options"][0]
    assert f"for all 10 users, {best['tokens_per_s'] / 10:.3g} each" in page.run(_FACTS)["speed"]


def test_blocks_that_the_page_checkpoints_beyond_a_remedy_are_mentioned(page: Page, server: Server) -> None:
    remedies = server.ask("fit", model="gpt2-xl", gpu="RTX 3090", mode="train").json["ladder"]
    assert any("of the 48 blocks" in step["title"] for step in remedies), "the case no longer checkpoints some blocks only"
    page.open(view="model", model="gpt2-xl", gpu="RTX 3090", mode="train")
    page.until("return document.querySelector('main [aria-label=\"Apply: the combination\"]')")
    assert "The page checkpoints every block" in page.text
