"""A real Chromium on a real server. If one of them is missing, the tests are skipped with a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pages import CHROMIUM, DRIVER, Page, chromium

from serving import Server, served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("fastapi", reason="the page needs gpuwise[web]")
    with served(tmp_path_factory.mktemp("uploads")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("selenium", reason="needs selenium")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    with chromium() as driver:
        yield driver


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    """A wide window without a page."""
    page = Page(browser, server)
    page.size(1440)
    browser.get("about:blank")
    page.complaints()
    return page
