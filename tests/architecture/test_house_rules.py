"""Project rules that no linter checks: sizes, exports, import weight, links in the docs."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import gpuwise
from gpuwise.questions.registry import QUESTIONS
from whole_tables import every_row

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "tools").rglob("*.py"))
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(gpuwise.__path__, "gpuwise.") if module.name != "gpuwise.__main__"
)
TABLES = {"models"}  # one entry a model of the zoo: a table in the form of a function
HEAVY = ("torch", "plotly", "fastapi", "tensorflow", "keras", "jax", "pandas", "numpy", "dask", "pynvml")


@every_row(SOURCES, lambda path: str(path.relative_to(ROOT)))
def test_file_has_at_most_400_lines_and_functions_60(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno - node.lineno >= 60
        and node.name not in TABLES
    ]
    assert not long


@every_row(["gpuwise", *MODULES])
def test_all_lists_what_the_module_defines(name: str) -> None:
    module = importlib.import_module(name)
    if module.__doc__ and not hasattr(module, "__all__"):
        assert Path(module.__file__ or "").name == "__init__.py", f"{name} has no __all__"
        return
    assert module.__doc__, f"{name} does not say what it knows"
    assert [export for export in module.__all__ if not hasattr(module, export)] == []
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name and callable(value)
    }
    assert defined <= set(module.__all__)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["gpus"], ["gpus", "RTX 3090"], ["gpus", "--json"], ["cost", "--gpu", "RTX 3090"], ["prices"]]
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, json, io, contextlib\n"
        "tried = []\n"
        "class Spy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {HEAVY!r}: tried.append(name)\n"
        "sys.meta_path.insert(0, Spy())\n"
        f"sys.argv = ['gpuwise', *{arguments!r}]\n"
        "from gpuwise.surfaces.cli.app import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app()\n"
        "print(json.dumps(tried))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    marks = ["/" + word + "/" for word in ("root", "home", "work", "Users")]
    found = []
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".csv", ""} and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}: {mark}" for mark in marks if f" {mark}" in text or f'"{mark}' in text]
    assert not found


# ---------------------------------------------------------------- the shape of the house


ROWS_OF_LIKE_THINGS = {"diagnose/checks", "kernels/ops", "trace/readers"}  # one file for each check, op and format


def test_no_folder_has_more_than_25_files() -> None:
    root = ROOT / "src" / "gpuwise"
    folders = [
        folder for folder in root.rglob("*") if folder.is_dir() and str(folder.relative_to(root)) not in ROWS_OF_LIKE_THINGS
    ]
    assert {str(folder.relative_to(root)): count for folder in folders if (count := len(list(folder.glob("*.py")))) > 25} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count too; the package itself, which only knows the version and the Python functions, does not."""
    graph = grimp.build_graph("gpuwise")
    imports = {name: graph.find_modules_directly_imported_by(name) - {"gpuwise"} for name in graph.modules - {"gpuwise"}}
    done: set[str] = set()
    while ready := [name for name, needed in imports.items() if name not in done and needed <= done]:
        done.update(ready)
    assert sorted(imports.keys() - done) == []


def test_questions_do_not_know_each_other_nor_does_what_they_share_know_them() -> None:
    graph = grimp.build_graph("gpuwise")
    asked = {question: f"gpuwise.questions.{question}" for question in QUESTIONS}
    wrong = []
    for name in (one for one in graph.modules if one.startswith("gpuwise.questions.")):
        own = name.split(".")[2]
        if own in ("registry", "face"):
            continue
        for other in graph.find_modules_directly_imported_by(name):
            whose = other.split(".")[2] if other.startswith("gpuwise.questions.") else own
            if whose != own and whose in asked:
                wrong.append(f"{name} imports {other}")
    assert wrong == []
    folders = {folder.name for folder in (ROOT / "src/gpuwise/questions").iterdir() if (folder / "__init__.py").exists()}
    assert folders == {*QUESTIONS, "common"}


def test_the_picture_of_the_house_shows_every_room() -> None:
    """The tree in docs/concepts/architecture.md against the folders there are: names and nothing else."""
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text(encoding="utf-8")
    picture = page.split("```text")[1].split("```")[0]
    drawn = set(re.findall(r"([a-z_]+)/", picture)) - {"gpuwise"}
    root = ROOT / "src" / "gpuwise"
    rooms = {folder.name for folder in root.iterdir() if (folder / "__init__.py").exists()}
    questions = {folder.name for folder in (root / "questions").iterdir() if (folder / "__init__.py").exists()}
    within = {"cli", "web", "sample", "bench", "tune", "hook", "cluster", "split", "plans", "readers", "time", "memory", "ops"}
    within |= {"model", "store", "transform", "compile", "capture", "language"}
    assert drawn == rooms | questions | within
    assert all((root / path).is_dir() for path in ("surfaces/cli", "live/hook", "scale/plans", "trace/readers", "step/memory"))
    assert all((root / "workload" / name).is_dir() for name in ("model", "store", "transform", "compile", "capture", "language"))
