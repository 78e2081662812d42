"""Asks gpuwise questions from real buyers and compares its answers with those they got.

    python tools/check_scenarios.py ../shared/evidence/scenarios.jsonl [--page docs/scenarios.md]

Prints one line per figure and the share answered; `--page` writes the report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuwise.core.files import write_whole
from scenarios.registry import judged
from scenarios.report import page, table


def main() -> None:
    parser = argparse.ArgumentParser(description="Buyers' questions, and what gpuwise answers.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    found = judged(given.file)
    if given.page:
        write_whole(given.page, page(found).encode())
    print(table(found))


if __name__ == "__main__":
    main()
