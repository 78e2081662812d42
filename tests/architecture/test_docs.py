"""The docs say what the code does."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise.cli.app import app
from gpuwise.hardware import tables
from making_traces import Run, training

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_command_reference_is_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import build_reference
    finally:
        sys.path.pop(0)
    assert build_reference.PAGE.read_text(encoding="utf-8") == build_reference.page(), "run python tools/build_reference.py"


def test_pages_of_the_checks_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import build_check_docs
    finally:
        sys.path.pop(0)
    written = {page.name: page.read_text(encoding="utf-8") for page in build_check_docs.FOLDER.glob("*.md")}
    assert written == build_check_docs.pages(), "run python tools/build_check_docs.py"


def _commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:console|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.splitlines():
                command = line.removeprefix("$ ")
                if command.startswith("gpuwise "):
                    found.append((page.name, command))
    return found


@pytest.mark.parametrize(("page", "command"), _commands())
def test_every_command_in_the_docs_runs(page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.search(
        r"```toml\n(\[\[gpu\]\].*?)```", (ROOT / "docs/guides/your-own-gpu.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert example
    (tmp_path / "my.toml").write_text(example[1], encoding="utf-8")
    own_prices = re.search(r"```toml\n(.*?)```", (ROOT / "docs/guides/cost.md").read_text(encoding="utf-8"), re.DOTALL)
    assert own_prices
    (tmp_path / "prices.toml").write_text(own_prices[1], encoding="utf-8")
    if " why " in command:
        _write_traces(tmp_path)
    listed = re.search(r"```text\n(# models.txt.*?)```", (ROOT / "docs/guides/sweep.md").read_text(encoding="utf-8"), re.DOTALL)
    assert listed
    (tmp_path / "models.txt").write_text(listed[1], encoding="utf-8")
    (tmp_path / "train.py").write_text("print('trained')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command.split(" | ")[0], comments=True)[1:]
    arguments = [sys.executable if word == "python" else word for word in arguments]
    if arguments[0] == "serve":  # runs until it is stopped: tests/unit/web starts it; here its options are parsed
        arguments.append("--help")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{page}: {command}: {result.exception}"


def _write_traces(folder: Path) -> None:
    for name in ("trace.json.gz", "before.json.gz", "after.json.gz"):
        training(load_us=500.0).write(folder / name)
    (folder / "traces").mkdir()
    for rank in range(2):
        training(Run(rank=rank, world_size=2), reduce_us=100.0).write(folder / "traces" / f"{rank}.json")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_readme_shows_what_the_demo_prints() -> None:
    result = CliRunner().invoke(app, ["predict", "resnet50", "--gpu", "RTX 3090", "--gpu", "RTX 4090", "--gpu", "H100 SXM 80GB"])
    assert result.output.strip() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_column_of_the_table_is_documented() -> None:
    text = (ROOT / "docs/reference/catalogue.md").read_text(encoding="utf-8")
    assert [column for column in tables.COLUMNS if f"`{column}`" not in text] == []
