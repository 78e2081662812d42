"""Limits how many modules an answer passes through, so that following `which` does not mean opening half the code."""

from __future__ import annotations

import subprocess
import sys

_MOST = 60
# Counts the modules of gpuwise whose functions run. What runs while a module is imported does not count, nor does what
# `dataclass` writes: nobody has to read it.
_COUNT = """
import sys
from gpuwise.surfaces.cli.main import main

seen = set()

def watch(frame, event, argument):
    if event != "call" or (name := frame.f_globals.get("__name__", "")) in seen or not name.startswith("gpuwise."):
        return
    if frame.f_code.co_filename == "<string>" or frame.f_code.co_name == "<module>":
        return
    outer = frame.f_back
    while outer is not None:
        if outer.f_code.co_name == "<module>" and outer.f_globals.get("__name__", "").startswith("gpuwise."):
            return
        outer = outer.f_back
    seen.add(name)

sys.setprofile(watch)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print("modules:", *sorted(seen), file=sys.stderr)
"""


def test_which_passes_through_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, "which", "--budget", "800"], capture_output=True, text=True, check=True, timeout=120
    )
    assert "RTX" in done.stdout
    modules = done.stderr.rpartition("modules:")[2].split()
    assert 20 < len(modules) <= _MOST, modules
