"""Builds the stand-in for NVIDIA's driver library that the real nvidia-ml-py loads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["build_nvml"]


def build_nvml(folder: Path) -> Path:
    """A folder with `libnvidia-ml.so.1`, for LD_LIBRARY_PATH; the test is skipped where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVML")
    source = Path(__file__).parent / "stand_in_nvml.c"
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(source)], check=True)
    return folder
