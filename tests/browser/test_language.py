"""A language model that generates text, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from pages import SCREENSHOTS, Page

from serving import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    page = Page(browser, server)
    page.size(1440)
    browser.get("about:blank")  # what the last test left unanswered is its own
    page.complaints()
    return page


WORDS = "document.querySelector('#inputs [name=weights]').checkVisibility()"


@pytest.mark.parametrize("width", [1440, 390])
def test_tokens_come_first_for_a_language_model(page: Page, server: Server, width: int) -> None:
    page.size(width)
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090", weights="q4_k_m", users="8")
    told = server.ask("predict", model="llama-3-8b", gpu=["RTX 4090"], weights="q4_k_m", users=8).json["results"][0]["generation"]
    assert f"generates {told['tokens_per_s']:.0f} tokens per second" in page.verdict
    assert page.run("return document.querySelector('.facts dt').textContent") == "tokens per second"
    assert page.run("return document.querySelector('#inputs [name=weights]').value") == "q4_k_m"
    assert page.run("return document.documentElement.scrollWidth") <= width
    page.keep(SCREENSHOTS / f"text-{width}.png")
    assert page.complaints() == []


def test_a_model_that_is_known_by_its_sizes_alone_can_be_asked_for(page: Page) -> None:
    page.open(view="model", model="Qwen/Qwen3-14B", gpu="RTX 4090", weights="q4_k_m")
    assert "tokens per second with Qwen/Qwen3-14B" in page.verdict
    assert page.complaints() == []


def test_a_language_model_trains_where_that_is_chosen(page: Page) -> None:
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090")
    assert "tokens per second with Llama-3-8B" in page.verdict
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090", mode="train", method="qlora", seq="512")
    assert "samples per second" in page.verdict
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090", method="qlora", seq="512")
    assert "samples per second" in page.verdict
    assert page.complaints() == []


def test_a_model_without_words_is_not_offered_any(page: Page) -> None:
    page.open(view="model", model="resnet50", gpu="RTX 4090")
    assert not page.run(f"return {WORDS}")
    assert "samples per second" in page.verdict


def test_an_engine_asks_for_text(page: Page) -> None:
    page.open(view="model", model="gpt2-xl", gpu="A100 SXM 80GB")
    assert "samples per second" in page.verdict
    page.run(
        "const field = document.querySelector('[name=engine]'); field.value = 'vllm'; field.dispatchEvent(new Event('change'))"
    )
    page.wait(2)
    assert "tokens per second" in page.verdict
    assert page.run("return location.search").count("engine=vllm") == 1
    assert page.complaints() == []


def test_the_curve_ends_where_the_last_request_fits(page: Page, server: Server) -> None:
    page.size(1440)
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090", users="8")
    told = server.ask("predict", model="llama-3-8b", gpu=["RTX 4090"], users=8).json["results"][0]["generation"]
    page.until("return document.querySelector('.chart.growth')?.data?.length > 2")
    labels = page.run("return document.querySelector('.chart.growth').layout.annotations.map((one) => one.text)")
    assert labels == ["your 8 users", f"at most {told['users_fit']} fit"]
    fits, beyond = page.run(
        "const { data } = document.querySelector('.chart.growth');"
        "const lines = ['fits', 'does not fit'].map((name) => data.find((one) => one.name === name));"
        "return lines.map((one) => [[...one.x], [...one.y]])"
    )
    assert [fits[0][-1], fits[1][-1]] == [beyond[0][0], beyond[1][0]]
    assert fits[0] == sorted(fits[0])
    assert fits[1][-1] > told["tokens_per_s"]
