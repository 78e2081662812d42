"""The process that answers golden questions from frozen tables: one for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freezing import Frozen


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frozen]:
    process = Frozen(tmp_path_factory.mktemp("frozen"))
    yield process
    process.close()
