"""What is published: licences of what the core needs, the version in the changelog, the marker of types, what archives hold."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import gpuwise
from check_licences import _is_free, licences
from release import ROOT, TOP, version_faults


def _installed() -> bool:
    try:
        return distribution("gpuwise") is not None
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not _installed(), reason="gpuwise is not installed, only on the path")
def test_the_core_needs_only_what_asks_for_nothing_but_its_notice() -> None:
    found = licences()
    assert {"msgspec", "numpy", "rich", "typer"} <= {entry.name for entry in found}
    assert [entry for entry in found if not entry.free] == []


@pytest.mark.parametrize(
    ("licence", "free"),
    [("MIT", True), ("APACHE-2.0 OR GPL-3.0", True), ("GPL-3.0", False), ("LGPLV3", False), ("MPL-2.0", False), ("", False)],
)
def test_copyleft_is_told_from_free(licence: str, free: bool) -> None:
    assert _is_free(licence) is free


def test_the_version_has_a_section_in_the_changelog() -> None:
    assert version_faults(f"gpuwise-{gpuwise.__version__}-py3-none-any.whl") == []
    assert version_faults("gpuwise-99.9-py3-none-any.whl") != []


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(gpuwise.__file__).parent / "py.typed").is_file()


def test_what_the_archive_is_told_to_hold_is_there() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text.partition("[tool.hatch.build.targets.sdist]")[2].partition("]")[0]
    named = {line.strip(' ",/') for line in block.splitlines() if line.strip().startswith('"')}
    assert named <= TOP
    assert {"src", "tests", "Makefile", "constraints.txt"} <= named
