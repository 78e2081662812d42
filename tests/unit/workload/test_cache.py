"""Captures of named models kept on disk: found again at any size, never in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwise.workload import find
from gpuwise.workload.capture import process as capture
from gpuwise.workload.capture.request import Request
from gpuwise.workload.store import cache
from unit.workload.test_files import tiny


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and packages of known versions."""
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "version", lambda package: "1.0")
    return tmp_path / "cache"


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests for which a capture was started; each gives the tiny workload at the size asked for."""
    asked: list[Request] = []

    def instead(request: Request, **_: Any) -> Any:
        asked.append(request)
        return tiny(model=request.model, batch=request.batch or 32)

    monkeypatch.setattr(capture, "capture", instead)
    return asked


def test_the_second_question_needs_no_capture(captured: list[Request], place: Path) -> None:
    request = Request(model="timm:convnext_base", batch=8)
    first, second = find.workload(request), find.workload(request)
    assert len(captured) == 1
    assert first.ops == second.ops
    assert [path.parent for path in place.rglob("timm-convnext_base-*.json.gz")] == [place / "captures"]


def test_one_capture_serves_other_sizes(captured: list[Request]) -> None:
    assert find.workload(Request(model="timm:a", batch=8)).batch == 8
    assert find.workload(Request(model="timm:a", batch=64)).batch == 64
    assert len(captured) == 1


def test_what_is_usual_does_not_depend_on_what_was_asked_before(captured: list[Request]) -> None:
    find.workload(Request(model="timm:a", batch=8))
    assert find.workload(Request(model="timm:a")).batch == 32


def test_a_batch_of_one_is_verified_when_asked_for(captured: list[Request]) -> None:
    for batch in (8, 1, 1):
        find.workload(Request(model="timm:a", batch=batch))
    assert [request.batch for request in captured] == [8, 1]


def test_sizes_decide_what_is_captured_of_hugging_face_models(captured: list[Request]) -> None:
    for batch in (8, 64, 64):
        find.workload(Request(model="hf:gpt2", batch=batch))
    assert [request.batch for request in captured] == [8, 64]


def test_a_capture_of_one_size_answers_no_other(captured: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(Request(model="timm:a"), tiny(symbols=(), batch=32))
    assert cache.find(Request(model="timm:a")) is not None
    cache.keep(Request(model="timm:a", batch=8), tiny(symbols=(), batch=8))
    assert cache.find(Request(model="timm:a", batch=9)) is None


def test_other_versions_are_another_question(captured: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    find.workload(Request(model="timm:a"))
    monkeypatch.setattr(cache, "version", lambda package: "2.0")
    find.workload(Request(model="timm:a"))
    assert len(captured) == 2


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b" + b"\xff" * 40, b"{}"])
def test_a_damaged_entry_is_captured_again(captured: list[Request], place: Path, damage: bytes) -> None:
    request = Request(model="timm:a")
    find.workload(request)
    (entry,) = place.rglob("*.json.gz")
    entry.write_bytes(damage)
    assert find.workload(request).model == "timm:a"
    assert len(captured) == 2
    assert cache.find(request) is not None  # and whole again


def test_a_folder_that_cannot_be_written_is_no_error(captured: list[Request], place: Path) -> None:
    place.write_text("a file where the folder should be", encoding="utf-8")
    for _ in range(2):
        assert find.workload(Request(model="timm:a")).batch == 32
    assert len(captured) == 2


@pytest.mark.parametrize("model", ["net.py:Net", "package.module:build", "train.py"])
def test_code_of_the_user_is_not_kept_where_nobody_saw_what_it_read(captured: list[Request], place: Path, model: str) -> None:
    for _ in range(2):
        find.workload(Request(model=model))
    assert len(captured) == 2
    assert not place.exists()
