"""Lists all scenarios and reads their table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scenarios import box, compare, host, links, memory, money
from scenarios.types import Asked, Judged, judge

__all__ = ["ASKED", "judged", "read"]

ASKED: dict[str, Asked] = {entry.id: entry for module in (compare, money, memory, links, host, box) for entry in module.ENTRIES}


def read(path: Path) -> list[dict[str, Any]]:
    """The numeric scenarios in a file with one JSON object per line."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in rows if row["numeric"]]


def judged(path: Path) -> list[Judged]:
    """Every numeric scenario with our answer. A scenario without an entry is an error."""
    return [judge(ASKED[row["id"]], row) for row in read(path)]
