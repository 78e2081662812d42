"""`.nsys-rep`, the report format of Nsight Systems: only `nsys` itself can read it, so the file is first exported if `nsys` is
installed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.trace.database import read_database
from gpuwise.trace.types import Trace, printable

__all__ = ["read_nsys_report"]

_LONGEST_S = 900.0  # a report of 2 GB takes a few minutes


def read_nsys_report(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one report, exported into a folder that is deleted afterwards."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise BadFile(
            f"'{path.name}' is an Nsight Systems report, which only `nsys` can read, and `nsys` is not installed here",
            hint=f"run `{_by_hand(path)}` on a machine that has nsys, and pass the .sqlite file",
        )
    with tempfile.TemporaryDirectory(prefix="gpuwise-") as folder:
        target = Path(folder) / "report.sqlite"
        command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target), str(path.resolve())]
        try:
            done = subprocess.run(  # noqa: S603 (a fixed command; only the file varies)
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST_S, check=False
            )
        except (subprocess.TimeoutExpired, OSError) as fault:
            why = f"it took longer than {_LONGEST_S:.0f} s" if isinstance(fault, subprocess.TimeoutExpired) else str(fault)
            raise _failed(path, why) from None
        if done.returncode != 0 or not target.exists():
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            raise _failed(path, printable(said[-1][:200]) if said else f"exit code {done.returncode}")
        return replace(read_database(target, progress), file=printable(path.name), format="nsys report")


def _by_hand(path: Path) -> str:
    return f"nsys export --type sqlite --output {shlex.quote(path.stem + '.sqlite')} {shlex.quote(path.name)}"


def _failed(path: Path, why: str) -> BadFile:
    return BadFile(
        f"`nsys export` failed on '{path.name}': {why}", hint=f"run `{_by_hand(path)}` yourself, and pass the .sqlite file"
    )
