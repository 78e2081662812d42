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
