"""The rules of the house that no linter knows: sizes, exports, import weight, links in the docs."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuwise
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
