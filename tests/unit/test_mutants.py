"""The list of introduced faults matches the source, and the runner reports what it should."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import mutants
from mutants import Fault, Stale, folders_of, load_faults, path_of, planted

SOURCE = Path(__file__).parents[2] / "src"
FAULTS = load_faults()
PACKAGES = {"kernels", "step", "scale", "diagnose", "money", "hardware", "trace"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_and_changes_what_the_module_does(fault: Fault) -> None:
    """Its text stands once, what comes out is Python, and not only a comment or a docstring differs."""
    text = path_of(fault.module, SOURCE).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(planted(fault, SOURCE))) != ast.dump(ast.parse(text))
    own = "box" if fault.package == "money" and ".box." in fault.module else fault.package  # tested together
    assert own in fault.module.split("."), "its own package's tests are run, no others"
    assert fault.harm.endswith(".")
    assert all((SOURCE.parent / folder).is_dir() for folder in folders_of(fault.package))


def test_every_package_that_users_rely_on_has_faults() -> None:
    assert {fault.package for fault in FAULTS} == PACKAGES
    assert len(FAULTS) >= 45
    assert len({(fault.module, fault.find, fault.replace) for fault in FAULTS}) == len(FAULTS)


def test_a_text_that_is_gone_or_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gpuwise").mkdir()
    (tmp_path / "gpuwise" / "one.py").write_text("A = 1\nB = 1\n", encoding="utf-8")
    fault = replace(FAULTS[0], module="gpuwise.one", find="A = 1", replace="A = 2")
    assert planted(fault, tmp_path) == "A = 2\nB = 1\n"
    for wrong, says in (({"find": "C = 1"}, "0 times"), ({"find": " = 1"}, "2 times"), ({"module": "gpuwise.two"}, "no module")):
        with pytest.raises(Stale, match=says):
            planted(replace(fault, **wrong), tmp_path)


def test_a_package_is_found_by_its_name_too(tmp_path: Path) -> None:
    (tmp_path / "gpuwise" / "step").mkdir(parents=True)
    assert path_of("gpuwise.step", tmp_path) == tmp_path / "gpuwise" / "step" / "__init__.py"
    assert path_of("gpuwise.step.memory", tmp_path) == tmp_path / "gpuwise" / "step" / "memory.py"


@pytest.mark.parametrize(("survivors", "code"), [(0, 0), (1, 0), (2, 1), (10, 1)])
def test_fewer_than_nine_in_ten_caught_is_a_failure(
    survivors: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [fault for fault in FAULTS if fault.package == "money"][:10]
    missed = {fault.name for fault in asked[:survivors]}
    monkeypatch.setattr(mutants, "_check_unharmed", lambda package, folder: None)
    seen: list[str] = []

    def judged(package: str, folder: Path, first: Sequence[str]) -> tuple[bool, str]:
        """Which fault lies in the copy is told by its text."""
        (here,) = [
            fault.name
            for fault in asked
            if path_of(fault.module, folder / "src").read_text(encoding="utf-8") == planted(fault, SOURCE)
        ]
        seen.append(here)
        return here not in missed, ""

    monkeypatch.setattr(mutants, "_judged", judged)
    assert mutants.main([part for fault in asked for part in ("--only", fault.name)]) == code
    assert seen == [fault.name for fault in asked]
    told = capsys.readouterr().out
    assert all((fault.harm in told) == (fault.name in missed) for fault in asked)


def test_the_tests_that_name_a_module_run_first_and_then_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(one for one in FAULTS if one.module == "gpuwise.trace.readers.chrome")
    near = mutants.near_tests(fault)
    assert "tests/unit/trace/test_chrome.py" in near
    assert all((SOURCE.parent / name).is_file() and name.startswith("tests/unit/trace/") for name in near)
    asked: list[list[str]] = []

    def failed(chosen: Sequence[str], package: str, folder: Path) -> tuple[bool, str]:
        asked.append(list(chosen))
        return fails[len(asked) - 1], "a test"

    monkeypatch.setattr(mutants, "_failed", failed)
    for fails in ([True], [False, True], [False, False]):
        asked.clear()
        caught, _ = mutants._judged("trace", Path(), near)
        assert asked == [near, ["tests/unit/trace"]][: len(fails)]
        assert caught == any(fails)


def test_a_name_that_is_not_in_the_list_is_refused() -> None:
    for option in ("--only", "--package"):
        with pytest.raises(SystemExit):
            mutants.main([option, "no_such_thing"])
