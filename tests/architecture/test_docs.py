"""The docs say what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import build_check_docs
import build_examples
import build_json_reference
import build_reference
from gpuwise.money import prices as money_prices
from gpuwise.surfaces.cli.app import app
from making_traces import Run, training
from whole_tables import every_row

ROOT = Path(__file__).parents[2]
PAGES = build_examples.pages()


def test_reference_of_commands_and_columns_is_up_to_date() -> None:
    for place, page in ((build_reference.PAGE, build_reference.page), (build_reference.CATALOGUE, build_reference.catalogue)):
        assert place.read_text(encoding="utf-8") == page(), "run python tools/build_reference.py"


def test_reference_of_json_is_up_to_date() -> None:
    assert build_json_reference.PAGE.read_text(encoding="utf-8") == build_json_reference.page(), (
        "run python tools/build_json_reference.py"
    )


def test_every_command_that_answers_by_itself_is_in_the_reference_of_json() -> None:
    shown = {question.split()[0] for question in build_json_reference.QUESTIONS}
    assert {command.name or command.callback.__name__ for command in app.registered_commands if command.callback} - shown == {
        "bench",
        "doctor",
        "serve",
        "validate",
        "watch",
    }


def test_reference_of_checks_is_up_to_date() -> None:
    assert build_check_docs.PAGE.read_text(encoding="utf-8") == build_check_docs.page(), "run python tools/build_check_docs.py"


def _commands() -> list[Any]:
    """Every command with its page. Those that capture a model of their own take seconds."""
    return [
        pytest.param(
            page,
            example,
            id=f"{page.name}: {example.command[:80]}",
            marks=[pytest.mark.slow] if "examples/cases/" in example.command else [],
        )
        for page in PAGES
        for example in build_examples.examples(page)
    ]


@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize(("page", "example"), _commands())
def test_every_command_in_the_docs_runs_and_answers_what_is_shown(
    page: Path, example: build_examples.Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_files(tmp_path, example.command)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(money_prices, "today", lambda: build_examples.DAY)
    arguments = example.arguments
    if arguments[0] == "serve" or "--prometheus" in arguments:  # need a server: tests/unit has one; here the options are parsed
        arguments.append("--help")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{page.name}: {example.command}: {result.exception}"
    if example.shown:
        shown = build_examples.as_shown(example, result.stdout.strip("\n").split("\n"))
        assert shown == example.shown, "run python tools/build_examples.py"
    if kept := build_examples.kept_figure(example, page):
        assert (tmp_path / example.figure).read_text(encoding="utf-8") == kept.read_text(encoding="utf-8"), (
            "run python tools/build_examples.py"
        )


def test_every_figure_is_drawn_by_a_command_of_its_page() -> None:
    for page in PAGES:
        shown = set(re.findall(r"images/([\w.-]+\.svg)\)", page.read_text(encoding="utf-8")))
        drawn = {example.figure for example in build_examples.examples(page)}
        assert shown <= drawn, page


def _write_files(folder: Path, command: str) -> None:
    """What the commands of the guides read."""
    for page, name, pattern in (
        ("your-own-gpu.md", "my.toml", r"```toml\n(\[\[gpu\]\].*?)```"),
        ("cost.md", "prices.toml", r"```toml\n(.*?)```"),
        ("sweep.md", "models.txt", r"```text\n(# models.txt.*?)```"),
    ):
        found = re.search(pattern, (ROOT / "docs/guides" / page).read_text(encoding="utf-8"), re.DOTALL)
        assert found
        (folder / name).write_text(found[1], encoding="utf-8")
    if " why " in command:
        _write_traces(folder)
    (folder / "train.py").write_text("print('trained')", encoding="utf-8")
    if " tune " in command:  # the code blocks of its guide begin with the name of their file
        text = (ROOT / "docs/guides/tune.md").read_text(encoding="utf-8")
        for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
            (folder / name).write_text(code, encoding="utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")


def _write_traces(folder: Path) -> None:
    for name in ("trace.json.gz", "before.json.gz", "after.json.gz"):
        training(load_us=500.0).write(folder / name)
    (folder / "traces").mkdir()
    for rank in range(2):
        training(Run(rank=rank, world_size=2), reduce_us=100.0).write(folder / "traces" / f"{rank}.json")


@every_row(PAGES, lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_place_named_for_a_change_exists() -> None:
    text = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:src|tests|tools|docs|examples|benchmarks)/[\w./-]*)`", text)
    assert len(places) > 30
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/cases").glob("*.md")), ids=lambda page: page.stem)
def test_every_case_says_at_its_top_what_to_install(page: Path) -> None:
    top, _, rest = page.read_text(encoding="utf-8").partition("\n## ")
    (named,) = re.findall(r'^pip install -e "\.\[([\w,]+)\]"', top, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = {"keras" if "keras_cnn.py" in rest else "torch", *(["nvidia"] if "$ gpuwise watch" in rest else [])}
    assert set(named.split(",")) == wanted
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in wanted)


def test_readme_shows_what_the_demo_asks() -> None:
    demo = re.search(r"^demo:.*\n\t\$\(BIN\)/(gpuwise .*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert demo
    asked = [example for example in build_examples.examples(ROOT / "README.md") if example.shown]
    assert [shlex.split(example.command) for example in asked] == [shlex.split(demo[1])]
