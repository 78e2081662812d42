"""Writes `docs/accuracy-images.md`: whether cards that generate images are predicted in the right order.

    python -m tools.fit.cards ../shared/evidence

`docs/accuracy.md` compares pairs of rows. This page gives every card one speed, from all reports for it and from the predictions
for the same reports, and compares the two orders. It uses the shipped constants.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.evidence.e2e import Question
from gpuwise.evidence.metrics import CardRow, card_speeds, order_agreement
from gpuwise.evidence.score import score

from .reports import image_questions, reported, run_of

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy-images.md"
TEXT = Path(__file__).with_suffix(".txt")
_SEVERAL = (1, 2, 3)  # reports for a card
_SPLITS = 10  # random halves of the reports


def read_rows(folder: Path) -> list[CardRow]:
    """Every usable figure with its prediction."""
    reports = reported(folder)
    questions = {question.row: (number, question) for number, report in enumerate(reports) for question in report}
    found = {}
    for residual in score([question for _, question in questions.values()]):
        number, question = questions[residual.row]
        found[residual.row] = _row(number, question, residual.predicted_s)
    return list(found.values())


def _row(report: int, question: Question, predicted_s: float) -> CardRow:
    measured, predicted = (float(np.log(question.batch / seconds)) for seconds in (question.measured_s, predicted_s))
    return CardRow(question.gpu.name, (run_of(question)[:3], question.batch), report, measured, predicted)


def halves_agree(rows: Sequence[CardRow]) -> float:
    """Agreement between two random halves of the reports for each card, as the mean of several splits."""
    reports = _reports(rows)
    random, found = np.random.default_rng(0), []
    for _ in range(_SPLITS):
        first = {number for members in reports.values() for number in random.permutation(sorted(members))[::2].tolist()}
        halves = [row for row in rows if row.report in first], [row for row in rows if row.report not in first]
        found.append(order_agreement(*map(card_speeds, halves)))
    return float(np.mean(found))


def _reports(rows: Sequence[CardRow]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        found[row.card].add(row.report)
    return found


def _with(rows: Sequence[CardRow], least: int) -> list[CardRow]:
    """The rows of cards with at least this many reports."""
    reports = _reports(rows)
    return [row for row in rows if len(reports[row.card]) >= least]


def summary(rows: Sequence[CardRow], fitted: set[str]) -> str:
    """How well the orders agree, as a table."""
    groups = {f"{least} or more": _with(rows, least) for least in _SEVERAL}
    groups["any, not in the fit"] = [row for row in rows if row.card not in fitted]
    lines = ["| reports for a card | cards | figures | predicted order | two halves of the reports |", "|---|---|---|---|---|"]
    for title, own in groups.items():
        order = order_agreement(card_speeds(own), card_speeds(own, predicted=True))
        several = title.startswith(tuple(str(least) for least in _SEVERAL if least > 1))
        halves = f"{halves_agree(own):.2f}" if several else ""
        lines.append(f"| {title} | {len(_reports(own))} | {len(own):,} | {order:.2f} | {halves} |")
    return "\n".join(lines)


def cards(rows: Sequence[CardRow], fitted: set[str]) -> str:
    """Every card with its two speeds, relative to the fastest card that was measured."""
    measured, predicted, reports = card_speeds(rows), card_speeds(rows, predicted=True), _reports(rows)
    middle = float(np.median([measured[name] - predicted[name] for name in measured]))
    lines = ["| card | reports | measured | predicted | predicted too fast by | in the fit |", "|---|---|---|---|---|---|"]
    top = max(measured.values())
    for name in sorted(measured, key=lambda one: -measured[one]):
        own, found = measured[name] - top, predicted[name] + middle - top
        off = f"{100 * np.expm1(found - own):+.0f}%"
        speeds, used = f"{np.exp(own):.3f} | {np.exp(found):.3f}", "yes" if name in fitted else ""
        lines.append(f"| {name} | {len(reports[name])} | {speeds} | {off} | {used} |")
    return "\n".join(lines)


def main(folder: Path) -> None:
    rows = read_rows(folder)
    fitted = {question.gpu.name for question in image_questions(folder)}
    text = TEXT.read_text(encoding="utf-8")
    for name, table in {"SUMMARY": summary(rows, fitted), "CARDS": cards(rows, fitted)}.items():
        text = text.replace(f"[{name}]", table)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
