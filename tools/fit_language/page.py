"""Writes the errors of all engines as a docs page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gpuwise.evidence.generation import GenerationRow

from .solve import FOLDS

Array = NDArray[np.float64]
_TIE = 0.03  # as a logarithm, the difference between repeated measurements on one GPU


def statistics(errors: Array) -> str:
    """The median error, the 90th percentile and the bias for these errors, given as logarithms."""
    off = np.abs(np.exp(errors) - 1.0)
    return f"{np.median(off):.1%} | {np.quantile(off, 0.9):.1%} | {np.median(np.exp(errors) - 1):+.1%}"


@dataclass(frozen=True)
class Tested:
    """A row, and its errors as logarithms: in sample, and for each of `FOLDS`."""

    row: GenerationRow
    errors: tuple[float, ...]


def kendall(tested: Sequence[Tested], fold: int) -> float:
    """Agreement in the order of GPUs that ran the same thing, as pairs in the right order minus pairs in the wrong order. Pairs
    that repeated measurements could reverse are left out."""
    groups = defaultdict(list)
    for one in tested:
        row = one.row
        same = (
            row.engine.name,
            row.version,
            row.shape.name,
            row.format_name,
            row.cells["mode"],
            row.passes,
            row.gpu_count,
            row.unit,
        )
        groups[same].append((row.value, row.value * math.exp(one.errors[fold]), row.gpu.name))
    right = wrong = 0
    for members in groups.values():
        for (value, guess, gpu), (other, its_guess, its_gpu) in combinations(members, 2):
            if gpu == its_gpu or abs(math.log(value / other)) < _TIE:
                continue
            if (value - other) * (guess - its_guess) > 0:
                right += 1
            else:
                wrong += 1
    return (right - wrong) / max(1, right + wrong)


def page(tested: Sequence[Tested]) -> str:
    """The errors as a docs page."""
    head = list(enumerate(("in sample", *FOLDS)))[::-1]  # the hardest test first
    lines = [_WORDS.strip(), ""]
    for phase in ("decode", "prefill"):
        chosen = [one for one in tested if one.row.cells["mode"] == phase]
        lines += [
            "",
            f"## {_TITLES[phase]}",
            "",
            f"These tables are based on {len(chosen):,} rows.",
            "",
            _header("test", ""),
            _rule(7),
        ]
        single = [one for one in chosen if one.row.gpu_count == 1]
        for fold, name in head:
            errors = np.array([one.errors[fold] for one in chosen])
            lines.append(f"| {name} | {statistics(errors)} | {kendall(chosen, fold):.2f} | {kendall(single, fold):.2f} |")
        for title, key in _GROUPS.items():
            lines += ["", f"By {title}, when the GPU was left out of the fit:", "", _header(title, "rows | "), _rule(6)]
            groups = defaultdict(list)
            for one in chosen:
                groups[key(one.row)].append(one)
            for name, members in sorted(groups.items()):
                errors = np.array([one.errors[1] for one in members])
                lines.append(f"| {name} | {len(members)} | {statistics(errors)} |")
    return "\n".join(lines) + "\n"


def _header(first: str, more: str) -> str:
    return f"| {first} | {more}median | 90% | bias |" + (" tau | tau, single GPUs |" if not more else "")


def _rule(columns: int) -> str:
    return "|" + "---|" * (columns - 1)


_TITLES = {"decode": "Generating tokens", "prefill": "Reading prompts"}
_GROUPS: dict[str, Callable[[GenerationRow], str]] = {
    "engine": lambda row: f"{row.engine.title} {row.version}".strip(),
    "GPU": lambda row: row.gpu.name,
    "source": lambda row: row.cells["source"],
}
_WORDS = """
# How accurate are predictions for language models?

`python -m tools.fit_language` writes this page. It compares predicted speeds for text-generation engines with published
measurements. The error of a prediction is |predicted / measured - 1|, and *bias* is the median of the signed errors.

Each engine (such as vLLM or llama.cpp) has only a few constants. The kernel models for GPUs were fitted to training
steps, without any of the rows on this page. For vLLM and TensorRT-LLM, the fit also uses kernels that were timed
separately on four GPUs. Predictions for those kernels are not scored here.

*GPU unseen* leaves out every row and every kernel for one GPU, and *model unseen* leaves out every row for one model.
*GPU and source unseen* leaves out every row that shares a GPU or a source with the tested rows. Most engines were
measured by a single source, so this test shows what to expect for an engine without measurements. Several engines were
measured only on the A100. When the A100 is left out, the constants for these engines come from the priors and the
kernel timings alone. *In sample* is not a test: it shows how closely the shipped constants reproduce the rows to which
they were fitted. The formulas and the priors are the same in all tests and were chosen by people who had seen these
rows. Rows that exceed a physical limit, or that count something other than generated tokens, are left out ([decision
37](decisions/0037-fine-tuning-by-the-type-of-its-products.md)).

To compute the rank correlation (*tau*), we compare pairs of GPUs (or of sets with the same number of GPUs) that ran the
same model in the same format with the same engine. Pairs whose measurements differ by less than 3% are left out,
because repeated measurements can differ by that much. The last column compares single GPUs only.

Most tables of measurements are from 2023 and 2024. The file `tools/fit_language/reports.csv` adds single measurements
that users published with versions from November 2024 on, on Macs and on GPUs that the tables lack. Each row names the
discussion that it comes from. Where a user did not state the number of cores of a Mac, the largest is assumed. Reports
whose repeated runs differ by more than 15% were not collected ([decision
39](decisions/0039-versions-of-an-engine-share-constants.md)).

On a single NVIDIA GPU, the versions of llama.cpp from 2024 ran every pass as one CUDA graph. When the layers were split
over several GPUs, [the graph changed with every pass](https://github.com/ggml-org/llama.cpp/pull/13814) until May 2025,
so kernels were started one by one. The fit treats rows measured in this way as a separate version. Without the graph, a
layer took up to 30 µs longer on most sets of GPUs and up to 48 µs longer on four H100s, but 85 to 124 µs longer on four
A100s. No known property of the A100 explains this, so it is not modelled. Many of the pairs that we predict in the
wrong order include the machine with these four A100s.
"""
