"""One test for a whole table, because a test per row would spend more time on running tests than on testing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import TypeVar

import pytest

Row = TypeVar("Row")


def every_row(rows: Iterable[Row], name: Callable[[Row], str] = str) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    """Makes a test of what must hold for one row: every row is asked, and each that fails is told by its name and its reason."""
    table = list(rows)

    def test_of(body: Callable[[Row], None]) -> Callable[[], None]:
        def test() -> None:
            assert table, "the table has no rows"
            faults = [f"{name(row)}: {fault}" for row in table if (fault := _fault(body, row))]
            if faults:
                pytest.fail(f"{len(faults)} of {len(table)} rows\n" + "\n".join(faults), pytrace=False)

        update_wrapper(test, body)
        del test.__wrapped__  # type: ignore[attr-defined]  # pytest would take the row for a fixture
        return test

    return test_of


def _fault(body: Callable[[Row], None], row: Row) -> str:
    try:
        body(row)
    except AssertionError as fault:
        return str(fault) or "AssertionError"
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""
