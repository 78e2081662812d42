"""Answers that never change are computed once, found again by the next server, and dropped with the next version."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuwise.surfaces.web import commands
from gpuwise.surfaces.web.commands import Done, Once


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that were run, each answering how many there were."""
    seen: list[Sequence[str]] = []

    async def run(arguments: Sequence[str], **_: Any) -> Done:
        seen.append(arguments)
        return Done(code=0, out=b'{"run": %d}' % len(seen))

    monkeypatch.setattr(commands, "run", run)
    return seen


def _ask(folder: Path | None) -> bytes:
    return asyncio.run(Once("validate", "--json", folder=folder).ask())[1]


def test_another_server_finds_what_one_worked_out(tmp_path: Path, runs: list[Sequence[str]]) -> None:
    assert [_ask(tmp_path / "page") for _ in range(3)] == [b'{"run": 1}'] * 3
    assert len(runs) == 1
    assert [_ask(None) for _ in range(2)] == [b'{"run": 2}', b'{"run": 3}']


def test_a_damaged_file_is_worked_out_again(tmp_path: Path, runs: list[Sequence[str]]) -> None:
    _ask(tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-2])
    assert _ask(tmp_path) == _ask(tmp_path) == b'{"run": 2}'


def test_a_new_edition_replaces_the_old_one(tmp_path: Path, runs: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    _ask(tmp_path)
    monkeypatch.setattr(commands, "_edition", lambda: "another")
    assert _ask(tmp_path) == b'{"run": 2}'
    assert [path.name for path in tmp_path.iterdir()] == ["validate---json.another.json"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path, runs: list[Sequence[str]]) -> None:
    (tmp_path / "file").write_text("")
    assert _ask(tmp_path / "file" / "page") == b'{"run": 1}'


def test_a_complaint_that_the_command_line_wrapped_is_one_sentence_again() -> None:
    complaint = (
        "error: the file is cut off in the middle:\n    it contains no event\n  looked in: x\n\nhint: copy it\n    again\n"
    )
    status, body = Done(code=2, complaint=complaint).answer
    assert status == 400
    assert b"the file is cut off in the middle: it contains no event" in body
    assert b"copy it again" in body
