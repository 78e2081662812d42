"""Two places of the page never contradict each other, every dead end has a way on, and whoever waits is told for what."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pages import Page

import gpuwise
from serving import Server

pytestmark = pytest.mark.slow
_FACTS = """
return Object.fromEntries([...document.querySelectorAll('main .facts > div')].map((one) =>
  [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))
"""
_SAMPLE = Path(gpuwise.__file__).parent / "surfaces/web/static/samples/slow_loader.json.gz"


def _drop(page: Page, name: str, content: bytes) -> None:
    """A file from elsewhere, dropped on the heading of the page."""
    page.run(
        "const bytes = Uint8Array.from(atob(arguments[1]), (one) => one.charCodeAt(0));"
        "const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File([bytes], arguments[0]));"
        "const on = document.querySelector('h1');"
        "for (const type of ['dragover', 'drop'])"
        " on.dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}))",
        name,
        base64.b64encode(content).decode(),
    )


# ---------------------------------------------------------------- one answer in two places


def test_a_build_is_checked_as_the_recommendation_assumed_it(page: Page, server: Server) -> None:
    page.open(model="llama-3-70b", users="10", weights="q4_k_m")
    best = server.ask("which", model=["llama-3-70b"], users=10, weights="q4_k_m").json["options"][0]
    assert best["gpu_count"] > 1
    assert all(line["verdict"] != "fail" or "limit each GPU to" in line["remedy"] for line in best["build"])
    page.click("Check the build")
    assert f"{best['gpu_count']}x {best['gpu']}: works" in page.pick
    assert "psu" not in page.state


def test_cards_that_need_a_server_are_not_called_a_failure(page: Page) -> None:
    page.open(task="llm-finetune", budget="50000", most="8")
    assert "for a server" in page.run(_FACTS)["upfront"]
    page.click("Check the build")
    page.until("return document.querySelector('main').innerText.includes('belong in a server')")
    assert page.pick.endswith("build a server")
    assert "fail" not in page.text.lower()


def test_the_price_says_what_it_is_for(page: Page, server: Server) -> None:
    page.open(task="learning", budget="800")
    best = server.ask("which", task="learning", budget=800).json["options"][0]
    facts = page.run(_FACTS)
    assert "card only" in facts["upfront"]
    assert f"${best['machine_usd']:,.0f} machine and electricity" in facts["3-year total"]
    whole = best["upfront_usd"] + best["machine_usd"]
    assert f"${whole:,.0f}, which is ${whole - 800:,.0f} over your budget" in page.text
    twice = (
        "return [...document.querySelectorAll('main button')]"
        ".filter((one) => one.checkVisibility() && one.textContent === 'I have a desktop').length"
    )
    assert page.run(twice) == 1
    page.click("Include it in my budget")
    assert page.run(twice) == 1
    assert page.state["machine"] == "700"
    within = server.ask("which", task="learning", budget=800, machine=700).json
    assert not within["options"] or within["options"][0]["gpu"] in page.pick
    page.click("I have a desktop")
    assert "over your budget" not in page.text
    assert "rest of the machine" not in page.run(_FACTS)["3-year total"]


@pytest.mark.parametrize("case", [{"task": "learning", "budget": "800"}, {"task": "vision", "budget": "10000"}])
def test_renting_is_compared_with_cards_that_are_as_fast(page: Page, server: Server, case: dict[str, str]) -> None:
    page.open(**case)
    answer = server.ask("which", **{**case, "budget": float(case["budget"])}).json
    best = next(one for one in answer["options"] if "the verdict" in one["reasons"])
    shown = page.run(_FACTS).get("3-year rent", "")
    rents = [one for one in answer["looked_at"] if one["source"] == "rent" and one["total_usd"] and one["short_of"] != "memory"]
    equal = [one for one in rents if one["run_s"] <= 1.1 * best["run_s"]]
    if equal:
        least = min(equal, key=lambda one: one["usd_per_run"])
        same_work = (
            best["total_usd"] * least["usd_per_run"] / best["usd_per_run"]
        )  # not the same hours: a faster card needs fewer
        assert shown.startswith(f"${same_work:,.0f}")
        assert "as fast" in shown
    else:
        assert "times as long" in shown


def test_the_default_purpose_is_outlined_and_the_recommended_row_is_first(page: Page) -> None:
    page.open()
    assumed = "return [...document.querySelectorAll('.question .assumed')].map((one) => one.textContent)"
    assert page.run(assumed) == ["Compete on Kaggle", "no limit", "nothing"]
    assert page.run("return document.querySelectorAll('.question [aria-pressed=true]').length") == 0
    look = "const style = getComputedStyle(document.querySelector('.assumed')); return [style.borderStyle, style.backgroundColor]"
    other = "return getComputedStyle(document.querySelector('.chip-button:not(.assumed)')).backgroundColor"
    assert page.run(look) == ["dashed", page.run(other)]
    purpose = page.run("return document.querySelector('.purpose').textContent")
    assert purpose.startswith("Example: ")
    assert purpose.endswith("Answer the questions for your own case.")
    first = page.run(
        "const row = document.querySelector('.options table tbody tr'); return row.className + row.cells[0].innerText"
    )
    assert first.startswith("best")
    assert first.removeprefix("best").splitlines()[0] in page.pick


def test_the_weights_are_named_and_four_bits_are_one_click_away(page: Page, server: Server) -> None:
    page.open(model="llama-3-70b", users="10")
    other = server.ask("which", model=["llama-3-70b"], users=10, weights="q4_k_m").json["options"][0]
    page.until("return document.querySelector('.offer b')")
    told = page.run("return document.querySelector('.offer').innerText")
    mine = server.ask("which", model=["llama-3-70b"], users=10).json["options"][0]["weights"]
    assert f"This is for {mine} weights" in told
    assert f"{other['gpu_count']}x {other['gpu']}" in told
    page.click("Use 4-bit weights")
    assert other["gpu"] in page.pick
    assert page.state["weights"] == "q4_k_m"


# ---------------------------------------------------------------- waiting


def test_a_slow_answer_is_announced_in_place_of_the_old_one(page: Page) -> None:
    page.open(task="learning")
    old = page.pick
    page.run(
        "const real = window.fetch;"
        "window.fetch = async (...all) => { await new Promise((go) => setTimeout(go, 2500)); return real(...all); }"
    )
    before = int(page.run("return Number(document.body.dataset.settled)"))
    page.run("[...document.querySelectorAll('.chip-button')].find((one) => one.textContent === 'Train vision models').click()")
    page.until("return document.getElementById('computing')")
    assert "cards for “" in page.run("return document.getElementById('computing').textContent")
    hidden = "return getComputedStyle(document.querySelector('.hero .pick')).visibility"
    assert page.run(hidden) == "hidden"
    assert page.run("return getComputedStyle(document.querySelector('.start')).opacity") == "1"
    page.wait(before + 1)
    assert page.run(hidden) == "visible"
    assert page.run("return document.getElementById('computing')") is None
    assert old
    assert "vision" in page.run("return document.querySelector('.purpose').textContent").lower()


# ---------------------------------------------------------------- tables


def test_a_budget_shows_what_it_can_buy_and_counts_the_rest(page: Page) -> None:
    page.open(task="learning", budget="800")
    assert page.run("return document.querySelectorAll('.grid tbody tr.off').length") == 0
    assert page.run("return document.querySelectorAll('.grid tbody tr').length") > 5
    more = page.run("return document.getElementById('show-out-of-reach').textContent")
    assert int(more.split()[0]) > 0
    page.click(more)
    assert page.run("return document.querySelectorAll('.grid tbody tr.off').length") > 0


def test_every_column_of_all_cards_is_in_sight_on_a_phone(page: Page) -> None:
    page.size(390)
    page.open(task="learning", budget="800", fits="0")
    cells = page.run(
        "return [...document.querySelectorAll('.grid tbody tr')].flatMap((row) => [...row.cells])"
        ".filter((cell) => cell.checkVisibility()).map((cell) => cell.getBoundingClientRect())"
        ".map((box) => [box.left, box.right])"
    )
    assert cells
    assert min(left for left, _ in cells) >= 0
    assert max(right for _, right in cells) <= 390
    rows = page.run("return [...document.querySelectorAll('.grid tbody th')].map((cell) => cell.innerText)")
    assert len(set(rows)) == len(rows)  # a card sold and rented is told apart


# ---------------------------------------------------------------- what is wrong, and what to do


def test_a_build_that_fails_says_so_first_and_offers_the_fix(page: Page) -> None:
    page.open(view="build", parts="2x RTX 3090", psu="1000")
    assert page.pick == "2x RTX 3090: power spikes exceed the power supply"
    assert "Fix: Use an ATX 3 power supply" in page.verdict
    page.click("Apply: use a large enough power supply")
    assert page.pick.startswith("2x RTX 3090: works")
    page.open(view="build", parts="2x RTX 3090", psu="1000")
    page.click("Apply: limit each GPU to 325 W")
    assert page.pick.startswith("2x RTX 3090: works")
    assert page.state["limit"] == "325"


def test_an_unknown_name_is_corrected_or_cleared_with_a_click(page: Page) -> None:
    page.open(view="rent", gpu="RTX 40900")
    assert page.run("return document.querySelector('[role=alert]').innerText").startswith("Unknown GPU 'RTX 40900'")
    page.click("RTX 4090")
    assert "RTX 4090" in page.pick
    page.open(view="build", parts="2x RTX 9999")
    page.click("RTX 5090")
    assert "2x RTX 5090" in page.text
    page.open(view="compare", model="my-fancy-net")
    assert "command line" not in page.text
    page.click("Clear “my-fancy-net”")
    assert page.run("return document.querySelector('[role=alert]')") is None
    assert "model" not in page.state


def test_cards_on_which_nothing_fits_lead_to_what_would_help(page: Page) -> None:
    page.open(view="compare", model="gpt2-xl", cards="RTX 3090,RTX 4090")
    page.click("What would make it fit on the RTX 4090")
    page.until("return document.querySelector('main').innerText.includes('What would make it fit')")
    assert {**page.state, "view": ""} == {"view": "", "model": "gpt2-xl", "gpu": "RTX 4090"} | (
        {"cards": page.state["cards"]} if "cards" in page.state else {}
    )


def test_a_diagnosis_begins_with_the_fix_and_the_causes(page: Page) -> None:
    page.open(view="why")
    page.run("document.getElementById('sample').click()")
    page.until("return document.querySelector('.finding')")
    assert page.run("return document.getElementById('fix').textContent").startswith("Fix: ")
    titles = page.run("return [...document.querySelectorAll('main .card > h2')].map((one) => one.textContent)")
    assert titles.index("Causes, largest minimum gain first") < titles.index("Timeline of one step")


# ---------------------------------------------------------------- files dropped anywhere


def test_a_trace_dropped_on_any_view_is_diagnosed(page: Page) -> None:
    page.open(task="learning")
    _drop(page, "slow_loader.json.gz", _SAMPLE.read_bytes())
    page.until("return document.querySelector('.finding')")
    assert page.state["view"] == "why"
    assert page.complaints() == []


def test_a_model_dropped_on_any_view_becomes_the_model(page: Page) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632}
    config |= {
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    }
    page.open(view="gpus")
    _drop(page, "config.json", json.dumps(config).encode())
    page.until("return new URLSearchParams(location.search).get('model')?.startsWith('own:')")
    assert page.state["view"] == "model"
    _drop(page, "notes.json", b'{"nothing": 1}')
    page.until("return document.querySelector('[role=alert]')")
    page.until("return !document.querySelector('.waiting')")
    assert page.run("return Boolean(document.querySelector('[role=alert]'))"), "an answer on its way removed the message"
    assert page.state["view"] == "model"
