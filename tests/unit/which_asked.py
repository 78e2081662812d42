"""Questions of `gpuwise which`, asked by its command."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from gpuwise.surfaces.cli.app import app


def asked(*arguments: str) -> dict[str, Any]:
    """The answer as JSON."""
    result = CliRunner().invoke(app, ["which", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def told(*arguments: str) -> str:
    """The whole answer as text, on one line."""
    result = CliRunner().invoke(app, ["which", *arguments, "-v"], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.output.split())
