"""The complete program with all commands."""

from __future__ import annotations

from gpuwise.surfaces.cli.commands import COMMANDS, app_of

__all__ = ["app"]

app = app_of(COMMANDS)
