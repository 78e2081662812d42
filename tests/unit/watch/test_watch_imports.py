"""Frameworks are hooked when they are imported, whoever looked for them before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from gpuwise.live.hook.gpuwise_steps import Marks, mark_imports


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package of our own, waiting to be imported, and what has been hooked."""
    (tmp_path / "made_up_framework.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "made_up_framework", raising=False)
    seen: list[str] = []
    mark_imports(Marks(tmp_path), {"made_up_framework": lambda module, marks: seen.append(module.__name__)})
    return seen


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_module_that_was_looked_for_first_is_hooked_once_all_the_same(hooked: list[str], looks: int) -> None:
    for _ in range(looks):
        assert importlib.util.find_spec("made_up_framework") is not None
    assert hooked == []
    assert importlib.import_module("made_up_framework").VALUE == 1
    assert hooked == ["made_up_framework"]
    importlib.reload(sys.modules["made_up_framework"])
    assert hooked == ["made_up_framework"]
