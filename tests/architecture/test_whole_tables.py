"""A test of a whole table names every failing row and the reason."""

from __future__ import annotations

import pytest

from whole_tables import every_row


def test_every_row_that_fails_is_named_with_its_reason() -> None:
    seen = []

    @every_row([1, 2, 3, 0], name=lambda row: f"row {row}")
    def small(row: int) -> None:
        seen.append(row)
        assert 6 // row < 4, f"{row} is too small"

    with pytest.raises(pytest.fail.Exception) as failed:
        small()
    told = str(failed.value).splitlines()
    assert seen == [1, 2, 3, 0]
    assert told[0] == "2 of 4 rows"
    assert told[1].startswith("row 1: 1 is too small")
    assert told[-1] == "row 0: ZeroDivisionError: integer division or modulo by zero"


def test_a_table_where_all_holds_passes_and_one_without_rows_does_not() -> None:
    every_row([1, 2])(lambda row: None)()
    with pytest.raises(AssertionError, match="no rows"):
        every_row([])(lambda row: None)()
