"""How long the page takes from a moved slider to the new answer on the screen, view by view, in a real Chromium.

    python benchmarks/page.py

Each slider moves to 12 new positions. The time runs from the first change to the last chart drawn. On a shared machine, it
includes waiting for other programs, so the load is printed first.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

SLIDERS = (
    ("choose", "hours", range(31, 43)),
    ("choose", "years", (1, 1.5, 2, 2.5, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7)),
    ("model", "batch", (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96)),
    ("rent", "kwh", [round(0.30 + 0.01 * place, 2) for place in range(12)]),
)


def main() -> None:
    """Open each view, move its slider and print the times."""
    from pages import Page, chromium

    from serving import served

    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server, chromium() as driver:
        page = Page(driver, server)
        page.size(1440)
        print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for view, slider, places in SLIDERS:
            page.open(view=view)
            times = sorted(page.move(slider, place) for place in places)
            print(f"{view:8} {slider:6} median {statistics.median(times):4.0f} ms, slowest {times[-1]:4.0f} ms")


if __name__ == "__main__":
    main()
