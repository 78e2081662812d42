"""Explains why the rank that the others wait for is late: what it spends more time on than a typical rank, and which check
detects it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuwise.diagnose.classes import CLASSES, kernel_class
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["Cause", "why_late"]

_FAIR_PART = 0.25  # of the others' wait; a smaller difference does not explain it; assumed
_KERNELS = tuple(name for name in CLASSES if name != "communication")
_BECAUSE = {
    "input_wait": (
        "it waits for its data loader",
        "give it the same loader workers, storage and share of the data as the others",
    ),
    "allocation": ("it allocates memory inside the step", "keep its tensor sizes the same in every step"),
    "synchronisation": ("its host waits for the GPU inside the step", "look for .item(), .cpu() or logging on this rank alone"),
    "host_launch": ("its host launches kernels late", "check the CPU load, clock and pinning of its host"),
    "host_work": ("its host does other work", "move that work out of the step, or spread it across the ranks"),
    "compiling": ("it compiles inside the step", "give it the same shapes as the others, or mark dynamic sizes"),
    "copy": ("its copies take longer", "check its PCIe link, its pinned memory and its share of the data"),
    "slower": (
        "its kernels are slower",
        "compare its tensor sizes with those of other ranks, and its clock, temperature and power (`gpuwise watch`)",
    ),
    "more": (
        "it runs more kernels",
        "spread sequence lengths, experts, embedding tables and stages evenly across the ranks",
    ),
}
_IDLE = ("its GPU is idle for longer", "record its host as well, to see what it does in the meantime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What the late rank does for longer than a typical one, in a mean step. `because` completes a sentence about it."""

    part: str
    extra_s: float
    because: str
    remedy: str
    evidence: tuple[str, ...]


def why_late(
    late: View, usual: View, lost_s: float, seen: Sequence[Finding] = (), seen_usually: Sequence[Finding] = ()
) -> Cause | None:
    """Return the largest difference that explains a fair part of the others' wait, or None. `seen` is what checks find on the
    late rank, `seen_usually` on the typical one.
    """
    extra = _extra(late, usual)
    part, seconds = max(extra.items(), key=lambda entry: entry[1])
    if seconds < _FAIR_PART * lost_s:
        return None
    because, remedy = _BECAUSE.get(part, _IDLE)
    lines = [f"{because}: {seconds * 1e3:,.2f} ms per step more than on a typical rank"]
    if part in ("slower", "more"):
        lines.append(_kernels_text(late, usual, part))
    check = _matching(seconds, seen, seen_usually)
    if check is not None:
        lines.append(f"finding on this rank: {check.title} ({check.code})")
        lines += check.evidence[:2]
        remedy = check.remedy
    return Cause(part=part, extra_s=seconds, because=because, remedy=remedy, evidence=tuple(lines))


def _extra(late: View, usual: View) -> dict[str, float]:
    """Return by how many seconds each part of a step is longer; kernels are one part, divided by whether they are slower or
    more numerous.
    """
    names = [name for name in late.parts.parts_s if name not in CLASSES]
    found = {name: late.parts.parts_s[name] - usual.parts.parts_s.get(name, 0.0) for name in names}
    in_kernels = sum(late.parts.parts_s.get(name, 0.0) - usual.parts.parts_s.get(name, 0.0) for name in _KERNELS)
    slower = sum(gap for gap, _ in _changes(late, usual).values())
    more = sum(gap for _, gap in _changes(late, usual).values())
    found["slower" if slower >= more else "more"] = in_kernels
    return found


def _changes(late: View, usual: View) -> dict[str, tuple[float, float]]:
    """For each kernel name, return the extra seconds per step: from slower kernels that both ranks have, and from additional
    kernels.
    """
    one, two = _by_name(late), _by_name(usual)
    changes = {}
    for name in {*one, *two}:
        (count, seconds), (other_count, other_seconds) = one.get(name, (0.0, 0.0)), two.get(name, (0.0, 0.0))
        mean = seconds / count if count else 0.0
        other_mean = other_seconds / other_count if other_count else 0.0
        both = min(count, other_count)
        changes[name] = both * (mean - other_mean), (count - other_count) * (mean if count > other_count else other_mean)
    return changes


def _by_name(view: View) -> dict[str, tuple[float, float]]:
    """Return the number of kernels of each name in a steady step, without collectives, and their seconds."""
    scene = view.scene
    rows = scene.kernels & scene.steady & ~scene.is_class("communication")
    names, place, counts = np.unique(scene.work.name[rows], return_inverse=True, return_counts=True)
    spent = np.bincount(place.reshape(-1), weights=scene.work.duration_ns[rows], minlength=len(names)) * 1e-9
    steps = max(scene.steps.steady_count, 1)
    return {
        scene.trace.names[name]: (count / steps, seconds / steps)
        for name, count, seconds in zip(names.tolist(), counts.tolist(), spent.tolist(), strict=True)
    }


def _kernels_text(late: View, usual: View, part: str) -> str:
    gained: defaultdict[str, float] = defaultdict(float)
    for name, (slower, more) in _changes(late, usual).items():
        gained[kernel_class(name)] += slower if part == "slower" else more
    worst = max(gained, key=gained.__getitem__)
    counts = [view.count(view.scene.is_class(*_KERNELS)) for view in (late, usual)]
    if part == "more":
        return f"it runs {counts[0]:,.0f} kernels {late.per} instead of {counts[1]:,.0f}; most extra time is in {worst} kernels"
    spent = [
        view.work_s(view.scene.is_class(worst)) / max(view.count(view.scene.is_class(worst)), 1e-12) for view in (late, usual)
    ]
    return f"its {worst} kernels take {spent[0] / max(spent[1], 1e-12):.2f} times as long as on a typical rank"


def _matching(extra_s: float, seen: Sequence[Finding], seen_usually: Sequence[Finding]) -> Finding | None:
    """Return the finding with the largest extra time compared with a typical rank, if that is a fair part of the difference."""
    usual = {finding.code: finding.seconds_per_step for finding in seen_usually}
    more = [(finding.seconds_per_step - usual.get(finding.code, 0.0), finding) for finding in seen]
    fair = [entry for entry in more if 0.5 * extra_s <= entry[0] <= 2.0 * extra_s]
    return max(fair, key=lambda entry: entry[0])[1] if fair else None
