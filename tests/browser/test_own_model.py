"""The user's own model, dropped on the page in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pages import Page

from making_gguf import header, llama
from serving import Server

pytestmark = pytest.mark.slow
CONFIG = {"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 32000}
CONFIG |= {"intermediate_size": 2816, "max_position_embeddings": 4096, "_name_or_path": "a/<b>Mine</b>"}
_ZONE = """
const done = arguments[0];
import("/js/own_model.js").then(({ dropZone, known, recall }) => {
  globalThis.own = { known, recall };
  const place = document.createElement("section");
  place.id = "tried";
  place.append(dropZone((found) => { globalThis.found = found; }));
  document.querySelector("main").replaceChildren(place);
  done(true);
});
"""


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    page = Page(browser, server)
    page.size(1440)
    page.open(view="why")
    page.driver.execute_async_script(_ZONE)
    page.complaints()
    return page


def _chosen(page: Page, path: Path) -> Any:
    page.run("globalThis.found = null")
    page.driver.find_element("css selector", "#tried input[type=file]").send_keys(str(path))
    page.until("return globalThis.found || document.querySelector('#tried [role=alert]')")
    return page.run("return globalThis.found")


def test_a_dropped_config_becomes_a_model_that_can_be_asked_about(page: Page, server: Server, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    found = _chosen(page, path)
    assert found["kind"] == "language"
    assert page.run("return own.known(found.model).title") == found["title"]
    assert "<b>" not in page.run("return document.querySelector('#tried [role=status]').innerHTML")
    answer = server.ask("predict", model=found["model"], gpu=["RTX 3090"], weights="q4_k_m")
    assert answer.json["results"][0]["tokens_per_s"] > 0
    recalled = "const done = arguments[0]; own.recall('own:0000').then(done)"
    assert page.driver.execute_async_script(recalled) is False
    assert [line for line in page.complaints() if "400" not in line] == []


def test_only_the_beginning_of_a_large_gguf_file_is_sent(page: Page, server: Server, tmp_path: Path) -> None:
    head, _ = header(*llama())
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(200 * 2**20)
    found = _chosen(page, path)
    assert found["weights"] == "q4_0"
    assert page.complaints() == []


def test_a_wrong_file_is_refused_with_a_hint(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text("[]", encoding="utf-8")
    assert _chosen(page, path) is None
    assert "config.json" in page.run("return document.querySelector('#tried [role=alert]').innerText")
    path.write_text('{"model_type": "bert"}', encoding="utf-8")
    assert _chosen(page, path) is None
    page.until("return document.querySelector('#tried details').open")
    assert "encoder" in page.run("return document.querySelector('#tried [role=alert]').innerText")
    assert "gpuwise capture config.json" in page.run("return document.querySelector('#tried pre').textContent")
