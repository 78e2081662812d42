"""The page as a person uses it: open a view, wait for its answer, move a slider, look."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from serving import Server

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
DRIVER = shutil.which("chromedriver")
_SETTLED = "return document.querySelector('.waiting') ? 0 : Number(document.body.dataset.settled || 0)"
# its sentences, whether in one paragraph or in several
VERDICT = (
    "[...document.querySelectorAll('.verdict')].map((node) => [...node.querySelectorAll('h2, p, li')]"
    ".map((part) => part.textContent).filter(Boolean).join(' ') || node.textContent).join(' ')"
)
_WAIT_S = 240.0  # on a busy machine, what "How accurate" shows takes more than a minute to compute


def plain(verdict: str) -> str:
    """Without what changes where a verdict becomes sentences: capitals, full stops and semicolons."""
    return re.sub(r"[.;]?(\s+|$)", " ", verdict).strip().lower()


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window, with a profile of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_script_timeout(60)
        yield driver
    finally:
        driver.quit()


@dataclass(frozen=True)
class Page:
    driver: Any
    server: Server

    def size(self, width: int, *, dark: bool = False) -> None:
        """A window of this width, in light or dark, without motion: a test must not see a fade half done."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, **state: str) -> None:
        """A link, as somebody sent it."""
        self.driver.get(f"{self.server.address}/?{urlencode(state)}")
        self.wait(1)

    def wait(self, answers: int) -> None:
        """Until so many answers have been shown since the page was opened."""
        self.until(f"return ({_SETTLED.removeprefix('return ')}) >= {answers}")

    def until(self, script: str) -> None:
        end = time.monotonic() + _WAIT_S
        while not self.run(script):
            assert time.monotonic() < end, f"waited for {script}"
            time.sleep(0.02)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def verdict(self) -> str:
        return str(self.run(f"return {VERDICT}"))

    @property
    def text(self) -> str:
        return str(self.run("return document.querySelector('main').innerText"))

    def move(self, name: str, value: float) -> float:
        """Move the slider of this name to the place where it shows the value; returns the milliseconds to the new answer."""
        before = int(self.run(_SETTLED))
        self.run(
            "const input = document.querySelector(`input[type=range][name=${arguments[0]}]`);"
            "input.value = input.values.indexOf(arguments[1]); input.dispatchEvent(new Event('input', {bubbles: true}))",
            name,
            value,
        )
        self.wait(before + 1)
        return float(self.run("return Number(document.body.dataset.ms)"))

    def keep(self, path: Path) -> None:
        """A picture of the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = self.run("return [innerWidth, Math.min(6000, document.documentElement.scrollHeight)]")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.save_screenshot(str(path))

    def complaints(self) -> list[str]:
        """What the console complains of since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def click(self, text: str, within: str = "main") -> None:
        """One click on the button or link with this text, and its answer."""
        before = int(self.run(_SETTLED))
        found = self.run(
            f"const all = [...document.querySelectorAll('{within} button, {within} a')];"
            "const one = all.find((node) => node.textContent.trim() === arguments[0] && node.checkVisibility());"
            "one?.click(); return Boolean(one)",
            text,
        )
        assert found, f"no button or link says {text!r}"
        self.wait(before + 1)

    @property
    def state(self) -> dict[str, str]:
        """What the address says."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.driver.current_url).query).items()}

    @property
    def pick(self) -> str:
        """What the page recommends."""
        return str(self.run("return document.querySelector('.pick').textContent"))
