"""Fits the constants of device memory to half of the families in GPUMemNet's rows, and writes `docs/accuracy-memory.md`.

    GPUWISE_CACHE=… python -m tools.fit_memory ../shared/evidence [--dry-run]

Run it from the root of the project, with timm and transformers installed. Models are captured once (twenty minutes) and then come
from the cache. It fits the factor for the framework's bytes and the workspaces of convolutions. Ranges are quantiles of the
errors on families left out of a fit. It writes `src/gpuwise/step/data/memory.json` and the page. With `--dry-run`, it only
prints.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

import gpuwise
from gpuwise.evidence.memory import MemoryQuestion, fitted_half, memory_baselines, memory_questions, score_memory
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual
from gpuwise.step.memory.lifetimes import Constant, MemoryData, Range, memory_data
from gpuwise.step.types import Array

ROOT = Path(gpuwise.__file__).parent
DATA, PAGE = ROOT / "step" / "data" / "memory.json", ROOT.parents[1] / "docs" / "accuracy-memory.md"
WORDS = Path(__file__).with_suffix(".txt")
SHARES = np.arange(0.0, 6.1, 0.25)
FACTORS = np.arange(0.6, 1.6, 0.005)
UNFITTED = "GPUMemNet, not fitted at all"
PROBABILITIES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_SOURCE = "tools/fit_memory.py on GPUMemNet's rows (A100 40GB) of the families "


def main(folder: Path, *, dry: bool = False) -> None:
    """Read, fit each half, score it on the other, write."""
    table = read_table(folder / "memory.csv")
    asked, reasons = memory_questions(table, lambda text: None if text.startswith("capturing") else print(text))
    device = [entry for entry in asked if entry.on_device]
    halves = {flag: [entry for entry in device if fitted_half(entry.cells["family"]) == flag] for flag in (True, False)}
    print(f"{len(asked)} rows, {len(device)} on the device, {len(halves[True])} to fit; left out: {dict(reasons)}")
    plain = _changed(memory_data(), factor=1.0, share=0.0, families="none", basis="assumed")
    fits = {flag: _fit(members) for flag, members in halves.items()}
    print({flag: {name: entry.value for name, entry in data.constants.items()} for flag, data in fits.items()})
    language = score_memory([entry for entry in asked if not entry.on_device], fits[True])
    crossed = [*score_memory(halves[False], fits[True]), *score_memory(halves[True], fits[False])]
    data = msgspec.structs.replace(fits[True], ranges={"device": _range(crossed), "allocated": _range(language)})
    crossed, language = _ranged(crossed), _ranged(language)
    scored = {
        "not fitted": score_memory(device, plain),
        "fitted half": score_memory(halves[True], data),
        "other half": [row for row in crossed if not fitted_half(row.labels["family"])],
        "swapped": [row for row in crossed if fitted_half(row.labels["family"])],
        "language": language,
    }
    page = _page(scored, asked, halves, reasons, data)
    print(page)
    if not dry:
        DATA.write_text(json.dumps(msgspec.to_builtins(data), indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page, encoding="utf-8")


# ---------------------------------------------------------------- the fit


def _fit(members: Sequence[MemoryQuestion]) -> MemoryData:
    """The share and the factor with the smallest mean absolute error in ln(bytes)."""
    measured = np.array([entry.measured_bytes for entry in members])
    low, high = (_predicted(members, factor=1.0, share=share) for share in (0.0, 1.0))
    framework = _predicted(members, factor=2.0, share=0.0) - low
    best: tuple[float, float, float] | None = None
    for share in SHARES:
        for factor in FACTORS:
            found = low + share * (high - low) + (factor - 1) * framework
            loss = float(np.mean(np.abs(np.log(found / measured))))
            if best is None or loss < best[0]:
                best = (loss, float(share), float(factor))
    assert best is not None  # noqa: S101
    families = ", ".join(sorted({entry.cells["family"] for entry in members}))
    return _changed(memory_data(), factor=best[2], share=best[1], families=families, basis="fitted")


def _predicted(members: Sequence[MemoryQuestion], *, factor: float, share: float) -> Array:
    found: Array = np.array(
        [row.predicted_s for row in score_memory(members, _changed(memory_data(), factor=factor, share=share))]
    )
    return found


def _changed(
    data: MemoryData,
    *,
    factor: float,
    share: float | None = None,
    families: str = "",
    basis: str = "fitted",
) -> MemoryData:
    values = {"framework_factor": factor, "convolution_share": share}
    constants = dict(data.constants)
    for name, value in values.items():
        if value is not None:
            constants[name] = Constant(value=round(value, 4), basis=basis, source=_SOURCE + families)
    return msgspec.structs.replace(data, constants=constants)


def _range(rows: Sequence[Residual]) -> Range:
    """Quantiles of measured over predicted, in ascending order."""
    ratios = [row.measured_s / row.predicted_s for row in rows]
    rising = np.maximum.accumulate([np.quantile(ratios, at) + 1e-6 * place for place, at in enumerate(PROBABILITIES)])
    return Range(probability=PROBABILITIES, ratio=tuple(round(float(value), 6) for value in rising), basis="fitted")


def _ranged(rows: Sequence[Residual]) -> list[Residual]:
    """Each row with the range derived from the other families."""
    known = {name: _others(rows, name) for name in {row.labels["family"] for row in rows}}
    scaled = [(row, *known[row.labels["family"]]) for row in rows]
    return [replace(row, low_s=row.predicted_s * low, high_s=row.predicted_s * high) for row, low, high in scaled]


def _others(rows: Sequence[Residual], family: str) -> tuple[float, float]:
    known = _range([row for row in rows if row.labels["family"] != family])
    low, high = (float(np.interp(at, known.probability, known.ratio)) for at in (0.1, 0.9))
    return low, high


# ---------------------------------------------------------------- the page


def _page(
    scored: Mapping[str, Sequence[Residual]],
    asked: Sequence[MemoryQuestion],
    halves: Mapping[bool, Sequence[MemoryQuestion]],
    reasons: Mapping[str, int],
    data: MemoryData,
) -> str:
    both = [*scored["other half"], *scored["swapped"]]
    tables = {
        "GOALS": _table(
            {
                UNFITTED: scored["not fitted"],
                "GPUMemNet, fitted families": scored["fitted half"],
                "GPUMemNet, other families": scored["other half"],
                "GPUMemNet, swapped": scored["swapped"],
                "GPUMemNet, each family left out of the fit": both,
                "LitGPT": [row for row in scored["language"] if row.labels["source"] == "litgpt"],
                "transformers documentation": [
                    row for row in scored["language"] if row.labels["source"] == "hf_transformers_docs"
                ],
            }
        ),
        "FAMILIES": _table(_grouped(both, "family")),
        "METHODS": _table(_grouped([row for row in scored["language"] if row.labels["source"] == "litgpt"], "method")),
        "RULES": "\n".join(
            ["| rule | median | 90% |", "|---|---|---|"]
            + [
                f"| {name.replace('_', ' ')} | {_percent(entry['median_ape'])} | {_percent(entry['p90_ape'])} |"
                for name, entry in memory_baselines([entry for entry in asked if entry.on_device]).items()
            ]
        ),
        "REASONS": "\n".join(f"- {count} rows: {reason}" for reason, count in sorted(reasons.items())) or "- none",
        "FITTED": both(sorted({entry.cells["family"] for entry in halves[True]})),
        "OTHERS": both(sorted({entry.cells["family"] for entry in halves[False]})),
        "CONSTANTS": "\n".join(
            ["| constant | value | basis | source |", "|---|---|---|---|"]
            + [f"| `{name}` | {entry.value:,.10g} | {entry.basis} | {entry.source} |" for name, entry in data.constants.items()]
        ),
    }
    page = WORDS.read_text(encoding="utf-8")
    for name, text in tables.items():
        page = page.replace(f"@{name}@", text)
    return page


def _grouped(rows: Sequence[Residual], label: str) -> dict[str, list[Residual]]:
    groups: dict[str, list[Residual]] = defaultdict(list)
    for row in rows:
        groups[row.labels[label]].append(row)
    return dict(sorted(groups.items()))


def _table(groups: Mapping[str, Sequence[Residual]]) -> str:
    head = [
        "| group | rows | median | mean | 90% | bias | more than 10% too low | in range |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(head + [f"| {name} | {_line(rows, ranged=name != UNFITTED)} |" for name, rows in groups.items() if rows])


def _line(rows: Sequence[Residual], *, ranged: bool) -> str:
    relative: Array = np.array([row.predicted_s / row.measured_s - 1 for row in rows])
    size = np.abs(relative)
    inside = float(np.mean([row.low_s <= row.measured_s <= row.high_s for row in rows]))
    figures = (np.median(size), np.mean(size), np.quantile(size, 0.9), np.median(relative), np.mean(relative < -0.1))
    return " | ".join([f"{len(rows):,}", *(_percent(float(value)) for value in figures), _percent(inside) if ranged else ""])


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


if __name__ == "__main__":
    main(Path(sys.argv[1]), dry="--dry-run" in sys.argv)
