"""A guard process around a user's script: when gpuwise ends, however that happens, it ends the script and everything it
started.
"""

from __future__ import annotations

import os
import subprocess

from gpuwise.core.processes import adopt_orphans, end_descendants, end_with_parent

__all__ = ["run"]


def run(*command: str) -> None:
    """Run the command to its end and pass on its exit code, as a shell would."""
    end_with_parent()
    adopt_orphans()
    code = subprocess.Popen(command).wait()  # noqa: S603 - the script that the user named
    end_descendants()
    os._exit(code if code >= 0 else 128 - code)
