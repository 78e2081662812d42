"""What holds for every test: captures and profiles are kept in a folder of the test run, never in the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(_session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_CACHE", str(_session_cache))
    monkeypatch.setenv("GPUWISE_DATA", str(_session_cache / "data"))
