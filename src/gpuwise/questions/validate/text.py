"""Accuracy as text: the size of errors, how often the range holds, and a comparison with simple rules."""

from __future__ import annotations

from gpuwise.core.text import plural
from gpuwise.questions.validate.answer import NOISE_FLOOR, ValidateAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_NAMED = 5  # models that a reason for leaving rows out lists
_BRIEF_GROUPS = 8  # groups of the breakdown that leave room for the rest on one screen
_BRIEF_REASONS = 2  # reasons for leaving rows out in a brief answer, the most frequent first
_UNSEEN = ", each by a fit that excludes its GPU"


def render(
    answer: ValidateAnswer, *, by: str = "gpu", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """The figures in all, the baselines, and one breakdown."""
    overall = answer.overall
    own = answer.unseen_family is not None
    lines = [
        f"{bold(answer.table, colour=colour)}  {len(answer.residuals):,} of {answer.rows:,} rows predicted"
        + (_UNSEEN if own else _seen(answer)),
        "",
        f"  error      median {_percent(overall.median_ape)}, mean {_percent(overall.mean_ape)}, 90% of rows below "
        f"{_percent(overall.p90_ape)}; bias {_percent(overall.bias)}",
        f"  ranges     contain {_percent(overall.coverage_fraction)} of the rows (the target is 80%)",
    ]
    if overall.kendall_tau is not None:
        lines.append(
            f"  order      Kendall tau {overall.kendall_tau:.2f}; error of speed ratios {_percent(overall.ratio_median_ape)}"
        )
    if answer.unseen_family is not None:
        family = answer.unseen_family
        lines.append(
            f"  families   left out of the fit: median {_percent(family.median_ape)}, 90% of rows below "
            f"{_percent(family.p90_ape)}"
        )
    lines += [
        "",
        "  errors of simple rules",
        *(
            f"    {name.replace('_', ' '):16} median {_percent(figures['median_ape'])}, "
            f"90% of rows below {_percent(figures['p90_ape'])}"
            for name, figures in answer.baselines.items()
        ),
    ]
    if own and verbose:
        lines += [
            "",
            "  differences that no prediction can explain",
            *(f"    {what}: {effect}" for what, effect in NOISE_FLOOR),
        ]
    every = answer.by[by]
    groups = every if verbose else dict(sorted(every.items(), key=lambda item: -item[1].rows)[:_BRIEF_GROUPS])
    more = f"\n  … and {len(every) - len(groups)} more; `-v` lists them all" if len(every) > len(groups) else ""
    columns = [
        Column(title=f"  {by}", cells=[f"  {name}" for name in groups], right=False),
        Column(title="rows", cells=[f"{entry.rows:,}" for entry in groups.values()]),
        Column(title="median", cells=[_percent(entry.median_ape) for entry in groups.values()]),
        Column(title="90%", cells=[_percent(entry.p90_ape) for entry in groups.values()]),
        Column(title="bias", cells=[_percent(entry.bias) for entry in groups.values()]),
        Column(title="in range", cells=[_percent(entry.coverage_fraction) for entry in groups.values()]),
    ]
    listed = "\n\n" + table(columns, width=width or WIDTH, colour=colour) + more
    return "\n".join(lines) + listed + join_notes([wrapped(note, width, "  ") for note in _notes(answer, verbose)])


def _notes(answer: ValidateAnswer, verbose: bool) -> list[str]:
    reasons = answer.skipped if verbose else answer.skipped[:_BRIEF_REASONS]
    notes = [f"left out: {plural(f'{count:,}', 'row')}, {reason}{_models(answer, reason)}" for reason, count in reasons]
    if len(answer.skipped) > len(reasons):
        rest = answer.skipped[len(reasons) :]
        rows, others = plural(f"{sum(count for _, count in rest):,}", "more row"), plural(str(len(rest)), "other reason")
        notes.append(f"left out: {rows} for {others}; `-v` lists them")
    notes += folded(answer.assumptions, verbose=verbose)
    if answer.measured_rows:
        used = f"{answer.measured_rows} row{' was' if answer.measured_rows == 1 else 's were'}"
        notes.append(f"{used} taken from each pair of source and model as your own measurements and not scored")
    return notes


def _seen(answer: ValidateAnswer) -> str:
    """How many of the rows are of sources and GPUs in the fit."""
    return f", {answer.in_sample:,} of them in sample" if answer.in_sample else ""


def _models(answer: ValidateAnswer, reason: str) -> str:
    """The first few models that a reason is about."""
    names = answer.models.get(reason, ())
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ": " + ", ".join(names[:_NAMED]) + more if names else ""


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"
