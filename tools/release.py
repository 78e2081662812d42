"""Builds a release and checks it as a new user would see it: `make release`. Uploads nothing.

    python tools/release.py --tools .venv-release/bin/python

Builds the source archive and from it the wheel, inspects their contents, checks them with twine, installs the wheel into a clean
environment for every available Python (3.10 to 3.13), asks it questions, runs light tests and a user's type check there, and
writes the bill of materials of such an environment. The steps are in docs/releasing.md.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

__all__ = ["archive_faults", "main", "version_faults", "wheel_faults"]

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# What a source archive holds, and nothing else: all that `make test` needs.
TOP = set(
    "CHANGELOG.md CONTRIBUTING.md LICENSE Makefile PKG-INFO README.md benchmarks constraints.txt docs examples pyproject.toml "
    "src tests tools .gitignore mkdocs.yml".split()
)
LIGHT = ["tests/unit/hardware", *(f"tests/unit/test_{name}.py" for name in ("cli", "units", "errors", "hardships", "predict"))]
QUESTIONS = (
    ["--version"],
    ["gpus", "RTX 3090"],
    ["predict", "resnet50", "--gpu", "RTX 3090", "--json"],
    ["which", "--budget", "800"],
)
USER = """
import gpuwise
answer = gpuwise.predict("resnet50", gpu="RTX 3090")
reveal_type(answer.results[0].step_s)
reveal_type(gpuwise.why)
"""


def main() -> int:
    """Build, look, try; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description="Make a release and check it.")
    parser.add_argument("--tools", default=sys.executable, help="a Python with build, twine and cyclonedx-bom")
    parser.add_argument("--python", action="append", default=[], help="a Python to install into; all at hand if left out")
    options = parser.parse_args()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    _run([options.tools, "-m", "build", "--outdir", str(dist), str(ROOT)])
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    faults = version_faults(wheel.name) + wheel_faults(wheel) + archive_faults(archive)
    _run([options.tools, "-m", "twine", "check", "--strict", str(wheel), str(archive)])
    pythons = options.python or [found for version in PYTHONS if (found := _python(version))]
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            faults += [f"{python}: {fault}" for fault in _tried(python, wheel, Path(folder), dist, options.tools)]
    print("\n".join(faults) or f"{wheel.name} and {archive.name} are ready in dist/; tried with {', '.join(pythons)}")
    return 1 if faults else 0


def version_faults(wheel: str) -> list[str]:
    """The version has a section of its own in the changelog."""
    version = wheel.split("-")[1]
    if re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        return []
    return [f"CHANGELOG.md has no section '## {version}'"]


def wheel_faults(wheel: Path) -> list[str]:
    """Every file of the package is in the wheel, data and marker of types included, and nothing else is."""
    source = ROOT / "src"
    ours = {str(path.relative_to(source).as_posix()) for path in (source / "gpuwise").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    missing, strange = sorted(ours - held), sorted(held - ours)
    return [f"the wheel lacks {name}" for name in missing] + [f"the wheel holds {name}" for name in strange]


def archive_faults(archive: Path) -> list[str]:
    """The source archive holds what `make test` needs, and nothing else."""
    with tarfile.open(archive) as held:
        names = {Path(name).parts[1] for name in held.getnames() if len(Path(name).parts) > 1}
    needed = {"LICENSE", "Makefile", "README.md", "constraints.txt", "pyproject.toml", "src", "tests"}
    return [f"the archive holds {name}" for name in sorted(names - TOP)] + [
        f"the archive lacks {name}" for name in needed - names
    ]


def _python(version: str) -> str:
    """A Python of this version: by its name, or where pyenv keeps it."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for found in [*map(str, kept), shutil.which(f"python{version}") or ""]:
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:  # noqa: S603
            return found
    return ""


def _tried(python: str, wheel: Path, folder: Path, dist: Path, tools: str) -> list[str]:
    """The wheel in a clean environment: questions, the bill of materials, then light tests and a user's type check."""
    _run([python, "-m", "venv", str(folder / "venv")])
    inside = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    _run([*install, str(wheel)])
    bill = dist / "sbom.cdx.json"
    if not bill.exists():
        pyproject = str(ROOT / "pyproject.toml")
        _run([tools, "-m", "cyclonedx_py", "environment", str(inside), "--pyproject", pyproject, "--of", "JSON", "-o", str(bill)])
    faults = [
        f"gpuwise {' '.join(question)} failed" for question in QUESTIONS if _code([inside, "-m", "gpuwise", *question], folder)
    ]
    _run([*install, "pytest", "hypothesis", "mypy"])
    if _code([inside, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *LIGHT], ROOT):
        faults.append("light tests failed")
    return faults + _type_faults(inside, folder)


def _type_faults(python: Path, folder: Path) -> list[str]:
    """What a user's mypy says of code that asks gpuwise."""
    (folder / "user.py").write_text(USER, encoding="utf-8")
    said = subprocess.run([python, "-m", "mypy", "--strict", "user.py"], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    wanted = (r'Revealed type is "(builtins\.)?float"', "WhyAnswer")
    seen = said.returncode == 0 and all(re.search(words, said.stdout) for words in wanted)
    return [] if seen else [f"types are not seen: {said.stdout}"]


def _code(command: list[str | Path], folder: Path) -> int:
    """The exit code; what it said at its end is told where it failed."""
    print("$", *command, flush=True)
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        print((done.stdout + done.stderr)[-3000:], flush=True)
    return done.returncode


def _run(command: list[str]) -> None:
    print("$", *command, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
