"""Judges the diagnosis of synthetic runs with a known cause: what must be said about each, and everything wrong with an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gpuwise
from making_fleets import exported
from making_hosts import Host, lost_s, mean_step_s, median_step_s

__all__ = ["Case", "Made", "complaints", "examine"]

Made = Host | Sequence[Host]
_STEP = 0.02  # how far a step may be off
_LOST = 0.10
_GAIN = 0.05  # a few steps have edges
_LEAST_GAIN = 1.02
_WIDE = 3.0
_AFTER_ALL = "slower_than_expected"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run and the truth about it. `build(True)` makes the same run without the cause, so that its gain is known.

    `first` are the codes of which one must come first; without any, the run is healthy; None where the case is about something
    else. `absent` may be no serious finding. `where` are texts of which one must be in the first finding's `where`; an empty one
    means that it must not have any. `lost_s` is what the cause takes of a step where that is not idle time.
    """

    name: str
    build: Callable[[bool], Made]
    first: tuple[str, ...] | None = ()
    absent: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    confidence: str = ""
    says: tuple[str, ...] = ()
    gain: bool = True
    lost: bool = True
    lost_s: float | None = None
    steps: bool = True
    step_counts: tuple[int, ...] = ()
    step_s: float | None = None
    mean: bool = False
    warm_up: int = 0
    by: str = ""
    nsys: bool = False


def examine(case: Case, folder: Path) -> None:
    """Fail with everything that is wrong at once, so that one run of the tests tells the whole story."""
    made = case.build(False)
    hosts = [made] if isinstance(made, Host) else list(made)
    if case.nsys:
        paths = [str(exported(host, folder / f"rank{place}.sqlite")) for place, host in enumerate(hosts)]
    else:
        paths = [str(host.write(folder / f"rank{place}.json")) for place, host in enumerate(hosts)]
    answer = gpuwise.why(paths)
    found = complaints(case, hosts, answer.to_dict(), " ".join(str(answer).split()))
    assert not found, f"{case.name}: " + "; ".join(found)


def complaints(case: Case, hosts: Sequence[Host], answer: dict[str, Any], text: str) -> list[str]:
    """What is wrong with an answer."""
    return [
        *_about_codes(case, answer),
        *(_about_steps(case, hosts[0], answer) if case.steps else ()),
        *(_about_where(case, answer) if case.first else ()),
        *(_about_amounts(case, hosts[0], answer) if case.first else ()),
        *_about_order(answer, text),
    ]


def _serious(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in answer["findings"] if finding["severity"] != "minor"]


def _place(finding: dict[str, Any]) -> str:
    return f"{finding['code']} at {finding['where']}" if finding.get("where") else str(finding["code"])


def _about_codes(case: Case, answer: dict[str, Any]) -> list[str]:
    serious = _serious(answer)
    first = serious[0] if serious else None
    found = []
    if case.first and (first is None or first["code"] not in case.first):
        wanted = " or ".join(case.first) + (f" at {' or '.join(filter(None, case.where))}" if any(case.where) else "")
        got = _place(first) if first else f"nothing ({answer['verdict']})"
        found.append(f"first verdict {got}, expected {wanted}")
    if case.first == () and first is not None:
        found.append(f"first verdict {_place(first)}, expected a healthy run")
    wrong = [finding["code"] for finding in serious if finding["code"] in case.absent]
    return found + ([f"{', '.join(wrong)} did not cause it"] if wrong else [])


def _about_steps(case: Case, host: Host, answer: dict[str, Any]) -> list[str]:
    found = []
    true_s, said_s = median_step_s(host) if case.step_s is None else case.step_s, answer["step_s"]
    if abs(said_s - true_s) > _STEP * true_s:
        found.append(f"median step {said_s * 1e3:.3f} ms, expected {true_s * 1e3:.3f}")
    counts = case.step_counts or (len(host.steps),)
    if answer["steps"]["count"] not in counts:
        expected = " or ".join(map(str, counts))
        found.append(f"{answer['steps']['count']} steps by {answer['steps']['by']}, expected {expected}")
    if case.mean:
        true_s = (host.steps[-1][1] - host.steps[case.warm_up][0]) * 1e-6 / (len(host.steps) - case.warm_up)
        said_s = answer.get("step_mean_s", answer["mean_step_s"])
        if abs(said_s - true_s) > _STEP * true_s:
            found.append(f"mean step {said_s * 1e3:.3f} ms, expected {true_s * 1e3:.3f}")
    if case.by and case.by not in answer["steps"]["by"]:
        found.append(f"steps by {answer['steps']['by']}, expected {case.by}")
    return found


def _about_where(case: Case, answer: dict[str, Any]) -> list[str]:
    first = next((finding for finding in answer["findings"] if finding["code"] in (case.first or ())), None)
    if first is None:
        return []
    found = []
    said = first.get("where") or ""
    if case.where and not any(part in said if part else not said for part in case.where):
        found.append(f"where is {said or 'not said'}, expected {' or '.join(case.where) or 'nothing'}")
    if case.confidence and first["confidence"] != case.confidence:
        found.append(f"confidence is {first['confidence']}, expected {case.confidence}")
    told = " ".join([first["title"], first["remedy"], first["verify"], *first["evidence"]]).lower()
    return found + [f"nothing says '{part}'" for part in case.says if part.lower() not in told]


def _about_amounts(case: Case, host: Host, answer: dict[str, Any]) -> list[str]:
    first = next((finding for finding in answer["findings"] if finding["code"] in (case.first or ())), None)
    if first is None:
        return []
    found = []
    if case.lost and (host.blamed or case.lost_s is not None):
        true_s = lost_s(host, case.warm_up) if case.lost_s is None else case.lost_s
        said_s = first["seconds_per_step"]
        if abs(said_s - true_s) > _LOST * true_s:
            found.append(f"{said_s * 1e3:.2f} ms a step charged to {first['code']}, expected {true_s * 1e3:.2f}")
    if case.gain:
        cured = case.build(True)
        other = cured if isinstance(cured, Host) else cured[0]
        gain = mean_step_s(host, case.warm_up) / mean_step_s(other, case.warm_up)
        low, high = first["gain_low"], first["gain_high"]
        if not low * (1 - _GAIN) <= gain <= high * (1 + _GAIN):
            found.append(f"gain {low:.2f} to {high:.2f}, realised {gain:.2f}")
    return found


def _about_order(answer: dict[str, Any], text: str) -> list[str]:
    """What holds for every answer: the surest gain first, nothing that is not worth it, and no range that tells nothing."""
    findings = [finding for finding in answer["findings"] if finding["code"] != _AFTER_ALL]
    found = [f"{finding['code']} is listed for {finding['gain_high']:.3f}" for finding in findings if _tiny(finding)]
    lows = [finding["gain_low"] for finding in findings]
    if any(later > sooner + 1e-9 for sooner, later in pairwise(lows)):
        listed = ", ".join(f"{finding['code']} {finding['gain_low']:.3f}" for finding in findings)
        found.append(f"not in order of the lower end: {listed}")
    wide = [finding["code"] for finding in findings[:1] if finding["gain_high"] > _WIDE * finding["gain_low"]]
    if wide and "does not allow a more precise estimate" not in text:
        found.append(f"the range of {wide[0]} is wider than threefold, but the text does not say so")
    shares = {"busy_fraction": answer["busy_fraction"], **answer["facts"]["all_steps"], **answer["facts"]["steady_steps"]}
    found += [f"{name} is {share:.1%}" for name, share in shares.items() if name.endswith("_fraction") and share > 1 + 1e-9]
    found += [f"a GPU is busy {row['busy_fraction']:.1%}" for row in answer.get("gpus", []) if row["busy_fraction"] > 1 + 1e-9]
    parts = sum(answer["parts"]["seconds"].values())
    if abs(parts - answer["parts"]["step_s"]) > 1e-6 * answer["parts"]["step_s"]:
        found.append(f"the parts sum to {parts * 1e3:.3f} ms of a step of {answer['parts']['step_s'] * 1e3:.3f}")
    return found


def _tiny(finding: dict[str, Any]) -> bool:
    return bool(finding["gain_high"] < _LEAST_GAIN)
