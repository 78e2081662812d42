"""Tables in a real browser: sorted by any column, narrowed by words and facets, with the fact sheet of every GPU."""

from __future__ import annotations

import pytest
from pages import Page

from serving import Server

pytestmark = pytest.mark.slow


def _column(page: Page, place: int) -> list[str]:
    found = page.run(f"return [...document.querySelectorAll('.grid tbody tr')].map((row) => row.cells[{place}].innerText.trim())")
    return [text.partition("\n")[0] for text in found]  # without a remark below


def test_a_column_sorts_both_ways_and_stays_in_the_link(page: Page) -> None:
    page.open(view="gpus", maker="nvidia", memory="48")
    for sign in (-1, 1):
        page.run("[...document.querySelectorAll('.sorter')].find((one) => one.textContent.startsWith('memory')).click()")
        page.wait(2 if sign == -1 else 3)
        sizes = [float(text.split()[0]) for text in _column(page, 2)]
        assert sizes == sorted(sizes, key=lambda size: sign * size)
        assert page.run("return document.querySelectorAll('[aria-sort]').length") == 1
    assert "sort=memory" in page.driver.current_url


@pytest.mark.parametrize(
    ("find", "name", "never"),
    [("24 gb", "RTX 4090", "RTX 4080"), ("amd 24gb", "RX 7900 XTX", "RTX 4090"), ("1080", "GTX 1080 Ti", "RTX 4090")],
)
def test_words_find_memory_vendor_and_name(page: Page, find: str, name: str, never: str) -> None:
    page.open(view="gpus", find=find)
    names = _column(page, 0)
    assert name in names
    assert never not in names
    page.open(view="choose", model="resnet50", find=find)
    chips = "return [...document.querySelectorAll('main .card:last-child .chip-button')].map((chip) => chip.textContent)"
    names = _column(page, 0) + page.run(chips)  # without a price a card has a sheet only
    assert name in names
    assert never not in names


def test_every_gpu_of_the_catalogue_is_reachable_with_its_sheet(page: Page, server: Server) -> None:
    page.open(view="gpus")
    gpus = server.ask("gpus").json["gpus"]
    assert f"{len(gpus):,} of {len(gpus):,} GPUs match" in page.text
    page.run("[...document.querySelectorAll('.grid > button')].at(-1).click()")
    assert len(_column(page, 0)) == len(gpus)
    page.run("[...document.querySelectorAll('.grid th button.num')].find((one) => one.textContent === 'GTX 970').click()")
    page.until("return document.querySelector('dialog').innerText.includes('bandwidth')")
    sheet = page.run("return document.querySelector('dialog').innerText")
    assert "GTX 970" in sheet
    assert "Data from 20" in sheet
    assert "Speed and memory" in sheet
    page.run("document.querySelector('dialog .ways a').click()")
    page.until("return document.querySelector('.pick')?.textContent.includes('GTX 970')")
    assert not page.run("return document.querySelector('dialog').open")
    assert page.complaints() == []


def test_options_on_a_phone_are_laid_out_as_all_cards_are(page: Page, server: Server) -> None:
    page.size(390)
    page.open(model="llama-3-70b", users="10", weights="q4_k_m")
    options = server.ask("which", model=["llama-3-70b"], users=10, weights="q4_k_m").json["options"]
    heads = (
        "return [...document.querySelectorAll('{0} thead th')].filter((one) => one.checkVisibility()).map((one) => one.innerText)"
    )
    assert page.run(heads.format(".options")) == ["card", "speed", "price"]
    rows = page.run(
        "return [...document.querySelectorAll('.options tbody tr')].map((row) => [row.cells[0].innerText,"
        " [...row.cells].filter((cell) => cell.checkVisibility()).map((cell) => cell.getBoundingClientRect().right)])"
    )
    assert sorted(text.splitlines()[1].split(",")[0] for text, _ in rows) == sorted(one["source"] for one in options)
    told = page.run("return document.querySelector('.options').parentElement.innerText")
    assert "each GPU holds part of the model" in told  # what to know about the memory
    assert len({tuple(round(right) for right in ends) for _, ends in rows}) == 1
    inset = page.run(
        "const cell = document.querySelector('.options tr.best th');"
        "return cell.querySelector('button').getBoundingClientRect().left - cell.getBoundingClientRect().left"
    )
    assert inset >= 6  # the bar of three pixels does not run through the name
