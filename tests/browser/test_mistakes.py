"""How the page handles invalid links, cases without an answer, and keyboard-only use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pages import Page

from making_traces import Run, training
from serving import Server

pytestmark = pytest.mark.slow
ENTER = "\ue007"
_VISIBLE = "return [...document.querySelectorAll('main .card > *')].filter((e) => e.checkVisibility() && e.innerText).length"


def _alert(page: Page) -> str:
    return str(page.run("return document.querySelector('[role=alert]')?.innerText ?? ''"))


@pytest.mark.parametrize(
    ("view", "key", "name"),
    [
        ("choose", "hours", "Hours per week"),
        ("choose", "budget", "Budget"),
        ("choose", "memory", "Memory"),
        ("rent", "machine", "Rest of the machine"),
        ("build", "slots", "Case slots"),
        ("scale", "nodes", "Machines"),
    ],
)
def test_a_value_of_a_link_that_is_no_number_is_refused_by_name(page: Page, view: str, key: str, name: str) -> None:
    page.open(view=view, **{key: "abc"})
    assert _alert(page).startswith(f"{name}: 'abc' is not a number")
    shown = page.run(f"return document.querySelector('input[type=range][name={key}]')?.closest('.field').innerText ?? '?'")
    assert "?" in shown
    assert "NaN" not in page.run("return document.body.innerText")
    assert page.complaints() == []


@pytest.mark.parametrize("view", ["model", "compare", "scale"])
def test_a_task_is_answered_for_one_of_its_models_which_is_named(page: Page, server: Server, view: str) -> None:
    page.open(view=view, model="", task="nlp")
    choices = server.send("GET", "/api/choices").json
    titles = {model["name"]: model["title"] for model in choices["models"]}
    models = [titles[name] for task in choices["tasks"] if task["name"] == "nlp" for name in task["models"]]
    assert "These results are for BERT-base-SQuAD" in page.text
    answered = "return (document.querySelector('.how') ?? document.querySelector('.verdict')).textContent"
    assert models[0] in page.run(answered)
    offered = page.run("return [...document.querySelectorAll('.stand-in button')].map((button) => button.textContent)")
    assert len(offered) == len(models) - 1
    page.run("document.querySelector('.stand-in button').click()")
    page.wait(2)
    assert "These results are for" not in page.text
    assert models[1] in page.run(answered)
    assert _alert(page) == ""


def test_a_task_hides_what_does_not_count_for_it(page: Page) -> None:
    page.open(view="choose", model="", task="nlp")
    hidden = "return ['mode', 'seq'].filter((name) => document.querySelector(`#inputs [name=${name}]`).checkVisibility())"
    assert page.run(hidden) == []
    assert _alert(page) == ""


def test_an_old_answer_does_not_stay_under_an_error(page: Page) -> None:
    page.open(view="model", gpu="RTX 3090")
    assert page.run(_VISIBLE) > 3
    for key in ("RTX 9999" + ENTER, "RTX 4090" + ENTER):
        field = page.driver.find_element("css selector", "input[name=gpu]")
        field.clear()
        field.send_keys(key)
        wanted = "Unknown GPU" if "9999" in key else "RTX 4090 trains"
        page.until(f"return document.querySelector('main').innerText.includes('{wanted}') && !document.querySelector('.waiting')")
        assert (page.run(_VISIBLE) <= 1) == ("9999" in key)


def test_a_machine_without_a_card_shows_no_checks(page: Page) -> None:
    page.open(view="build", parts="RTX 3090")
    assert "Watts" in page.text
    page.driver.find_element("css selector", "[aria-label='One fewer RTX 3090']").send_keys(ENTER)
    page.until("return document.querySelector('[role=alert]')?.innerText.includes('no card')")
    assert "Watts" not in page.text
    assert page.run("return document.querySelector('.ask input[name=psu]').checkVisibility()")
    assert page.complaints() == []


def test_owning_without_a_price_is_unknown_and_not_never(page: Page, server: Server) -> None:
    assert server.ask("cost", gpu="GH200 96GB").json["own"] is None
    page.open(view="rent", gpu="GH200 96GB")
    assert "price" in page.verdict
    assert "never" not in page.text


def test_the_focus_stays_where_a_card_was_added(page: Page) -> None:
    focus = "return document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.textContent"
    page.open(view="build", parts="RTX 3090")
    page.driver.find_element("css selector", "[aria-label='One more RTX 3090']").send_keys(ENTER)
    page.until("return document.querySelector('.chip').innerText.startsWith('2x') && !document.querySelector('.waiting')")
    assert page.run(focus) == "One more RTX 3090"
    pressed = page.driver.find_element("css selector", "[aria-label='Cards to add'] button")
    label = pressed.text
    pressed.send_keys(ENTER)
    page.until(f"return document.querySelector('.drop').innerText.includes('{label}') && !document.querySelector('.waiting')")
    assert page.run(focus) == label
    page.open(view="compare", cards="RTX 3090,RTX 4090")
    page.driver.find_element("id", "card-2").send_keys("RTX 3080 10GB" + ENTER)
    page.until("return document.getElementById('card-3') && !document.querySelector('.waiting')")
    assert page.run(focus) == "card-2"


def test_typed_gpus_keep_their_commas(page: Page) -> None:
    typed = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W"
    page.open(view="compare", cards=f"RTX 3090,{typed},{typed.replace('Foo', 'Bar')}")
    assert "Foo is" in page.verdict
    assert "Bar is" in page.verdict
    page.open(view="build", parts=f"2x {typed}")
    assert "2x name=Foo" in page.text
    assert _alert(page) == ""


def test_an_unknown_card_is_complained_of_once_and_caught(page: Page) -> None:
    page.open(view="compare", cards="RTX 3090,RTX 9999")
    assert "RTX 9999" in _alert(page)
    assert [line for line in page.complaints() if "Uncaught" in line] == []


def test_controls_of_views_that_were_left_are_let_go(page: Page) -> None:
    count = "const done = arguments[0]; import('/js/state.js').then((state) => done(state.watching()))"

    def walk() -> int:
        for view in ("rent", "build", "choose"):
            page.run(f"document.getElementById('nav-{view}').click()")
            page.until(
                f"return new URLSearchParams(location.search).get('view') === {'null' if view == 'choose' else repr(view)}"
            )
            page.until("return !document.querySelector('.waiting') && document.querySelector('main .verdict').textContent")
        return settled()

    def settled() -> int:
        """A view that was left is taken down a moment after the next is shown."""
        seen = [-1, -2]
        while seen[-1] != seen[-2] and len(seen) < 40:
            time.sleep(0.2)
            seen.append(int(page.driver.execute_async_script(count)))
        return seen[-1]

    page.open(view="choose")
    walk()
    assert walk() == walk()


def test_an_unnamed_gpu_of_a_trace_is_unknown_until_it_is_named(page: Page, tmp_path: Path) -> None:
    trace = training(Run(gpu={"id": 0, "name": ""}), kernels=30, kernel_us=200.0).write(tmp_path / "plain.json")
    page.open(view="why")
    page.run("sessionStorage.clear()")  # the last diagnosis outlives its test
    page.open(view="why")
    page.driver.find_element("id", "files").send_keys(str(trace))
    page.until("return document.querySelector('.facts')")
    assert "the work ran on the CPU" not in page.text
    assert "unknown" in page.run("return document.querySelector('.facts').innerText")
    page.driver.find_element("id", "traced").send_keys("RTX 3090" + ENTER)
    page.until("return document.querySelector('.facts').innerText.includes('RTX 3090')")
