"""Builds a release and checks it as a new user would see it: `make release`. Uploads nothing.

    python tools/release.py --tools .venv-release/bin/python

Builds the source archive and, from it, the wheel, and checks both for their contents and with twine. Installs the wheel into a
clean environment for every available Python (3.10 to 3.13), asks it questions in difficult environments (`everywhere.py`), runs
fast tests and a user's type check there, and writes the bill of materials of such an environment. Then tries 20,000 broken inputs
(`fuzz.py`). Prints one line per check. The steps are in docs/releasing.md.
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

from everywhere import Answers, differences

__all__ = ["archive_faults", "main", "version_faults", "wheel_faults"]

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# What a source archive contains, which is only what `make test` needs.
TOP = set(
    "CHANGELOG.md CONTRIBUTING.md LICENSE Makefile PKG-INFO README.md benchmarks constraints.txt docs examples pyproject.toml "
    "src tests tools .gitignore mkdocs.yml".split()
)
LIGHT = ["tests/unit/hardware", *(f"tests/unit/test_{name}.py" for name in ("cli", "units", "errors", "hardships", "predict"))]
FUZZ_EACH = 320  # inputs for each of more than 60 parsers
USER = """
import gpuwise
answer = gpuwise.predict("resnet50", gpu="RTX 3090")
reveal_type(answer.results[0].step_s)
reveal_type(gpuwise.why)
"""


def main() -> int:
    """Build, inspect and test the release. Returns 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Make a release and check it.")
    parser.add_argument("--tools", default=sys.executable, help="a Python with build, twine and cyclonedx-bom")
    parser.add_argument(
        "--dev", default="", help="a Python that the tests run with, for broken inputs; none are asked without it"
    )
    parser.add_argument("--python", action="append", default=[], help="a Python to install into; all at hand if left out")
    options = parser.parse_args()
    options.tools = str(Path(options.tools).absolute())  # commands run in other folders
    dist, told = ROOT / "dist", Told()
    shutil.rmtree(dist, ignore_errors=True)
    told("build", _faults([options.tools, "-m", "build", "--outdir", str(dist), str(ROOT)], ROOT))
    if told.failed:  # nothing else can be checked
        return 1
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    told("version", version_faults(wheel.name))
    told("contents of the wheel", wheel_faults(wheel))
    told("contents of the archive", archive_faults(archive))
    told("twine", _faults([options.tools, "-m", "twine", "check", "--strict", str(wheel), str(archive)], ROOT))
    known: Answers = {}
    for version in PYTHONS:
        if not options.python and not _python(version):
            print(f"none  Python {version}: not on this machine", flush=True)
    for python in options.python or [found for version in PYTHONS if (found := _python(version))]:
        with tempfile.TemporaryDirectory() as folder:
            _try(python, wheel, Path(folder), dist, options.tools, known, told)
    if options.dev:
        fuzz = [options.dev, str(ROOT / "tools" / "fuzz.py"), "--each", str(FUZZ_EACH)]
        told(f"{FUZZ_EACH} broken inputs for every parser", _faults(fuzz, ROOT))
    print(
        f"{told.failed} of {told.count} checks failed" if told.failed else f"{wheel.name} and {archive.name} are ready in dist/"
    )
    return 1 if told.failed else 0


class Told:
    """Prints one line per check, and counts failures."""

    def __init__(self) -> None:
        self.count = self.failed = 0

    def __call__(self, check: str, faults: list[str]) -> None:
        self.count += 1
        self.failed += bool(faults)
        print(f"FAIL  {check}: {'; '.join(faults)}" if faults else f"ok    {check}", flush=True)


def version_faults(wheel: str) -> list[str]:
    """Check that the version has its own section in the changelog."""
    version = wheel.split("-")[1]
    if re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        return []
    return [f"CHANGELOG.md has no section '## {version}'"]


def wheel_faults(wheel: Path) -> list[str]:
    """Check that the wheel contains every file of the package, including data and the type marker, and nothing else."""
    source = ROOT / "src"
    ours = {str(path.relative_to(source).as_posix()) for path in (source / "gpuwise").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    missing, strange = sorted(ours - held), sorted(held - ours)
    return [f"the wheel lacks {name}" for name in missing] + [f"the wheel holds {name}" for name in strange]


def archive_faults(archive: Path) -> list[str]:
    """Check that the source archive contains what `make test` needs, and nothing else."""
    with tarfile.open(archive) as held:
        names = {Path(name).parts[1] for name in held.getnames() if len(Path(name).parts) > 1}
    needed = {"LICENSE", "Makefile", "README.md", "constraints.txt", "pyproject.toml", "src", "tests"}
    return [f"the archive holds {name}" for name in sorted(names - TOP)] + [
        f"the archive lacks {name}" for name in needed - names
    ]


def _python(version: str) -> str:
    """A Python of this version, found by name or among pyenv's versions."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for found in [*map(str, kept), shutil.which(f"python{version}") or ""]:
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:  # noqa: S603
            return found
    return ""


def _try(python: str, wheel: Path, folder: Path, dist: Path, tools: str, known: Answers, told: Told) -> None:
    """Test the wheel in a clean environment with questions, the bill of materials, fast tests and a user's type check."""
    inside = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    made = _faults([python, "-m", "venv", str(folder / "venv")], folder) or _faults([*install, str(wheel)], folder)
    told(f"{version}: the wheel is installed", made)
    if made:
        return
    bill = dist / "sbom.cdx.json"
    if not bill.exists():
        asked = ["--pyproject", str(ROOT / "pyproject.toml"), "--of", "JSON", "-o", str(bill)]
        told("bill of materials", _faults([tools, "-m", "cyclonedx_py", "environment", str(inside), *asked], folder))
    for surrounding, fault in differences(str(inside), known):
        told(f"{version}: {surrounding}", [fault] if fault else [])
    tests = [str(inside), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *LIGHT]
    told(f"{version}: light tests", _faults([*install, "pytest", "hypothesis", "mypy"], folder) or _faults(tests, ROOT))
    told(f"{version}: types of a user's code", _type_faults(inside, folder))


def _type_faults(python: Path, folder: Path) -> list[str]:
    """What a user's mypy reports for code that uses gpuwise."""
    (folder / "user.py").write_text(USER, encoding="utf-8")
    said = subprocess.run([python, "-m", "mypy", "--strict", "user.py"], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    wanted = (r'Revealed type is "(builtins\.)?float"', "WhyAnswer")
    seen = said.returncode == 0 and all(re.search(words, said.stdout) for words in wanted)
    return [] if seen else [f"types are not seen: {said.stdout}"]


def _faults(command: list[str], folder: Path) -> list[str]:
    """What went wrong with this command. The end of its output is printed first."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if not done.returncode:
        return []
    print((done.stdout + done.stderr)[-3000:], flush=True)
    return [f"`{' '.join(command)[:200]}` exits with {done.returncode}"]


if __name__ == "__main__":
    sys.exit(main())
