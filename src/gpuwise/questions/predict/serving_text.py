"""A serving curve as text: a row for each number of users, then how many a service level allows, and what would allow more."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.text import the
from gpuwise.core.units import format_si
from gpuwise.questions.common.language.answer import LanguagePrediction
from gpuwise.questions.predict.generation_text import bytes_text, head, rate
from gpuwise.questions.predict.serving import ServingAnswer, Within
from gpuwise.render.text import WIDTH, Column, folded, join_notes, table, wrapped

__all__ = ["render"]

_MOST_ROWS = 10  # of a brief answer; JSON and the figure have all points
_LEAST_ROWS = 3  # for each GPU


def render(answer: ServingAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The table, thinned out where it would be long, and a line for each thing to know."""
    names = list(dict.fromkeys(point.gpu.name for point in answer.points))
    rows = [point for name in names for point in _shown([one for one in answer.points if one.gpu.name == name], names, verbose)]
    told = f"{head(answer, answer.points[0], colour, with_users=False)} on {', '.join(_name(name, answer) for name in names)}"
    lines = [_within(one, answer) for one in answer.within]
    if len(names) == 1 or verbose:
        lines += [
            f"what if: {one.said}" if len(names) == 1 else f"what if: on {the(one.gpu)}, {one.said}" for one in answer.what_ifs
        ]
    if len(rows) < len(answer.points):
        lines.append(f"{len(rows)} of {len(answer.points)} points are shown; `-v` shows all points")
    said = list(dict.fromkeys(note for point in answer.points for note in point.assumptions))
    lines += [*(f"note: {note}" for note in answer.notes), *folded(said, verbose=verbose)]
    shown = table(_columns(rows, several=len(names) > 1), width=width or WIDTH, colour=colour)
    return f"{told}\n\n{shown}" + join_notes([wrapped(line, width, "  ") for line in lines])


def _name(gpu: str, answer: ServingAnswer) -> str:
    count = answer.points[0].gpu_count
    return gpu if count == 1 or " + " in gpu else f"{count}x {gpu}"


def _shown(points: Sequence[LanguagePrediction], names: Sequence[str], verbose: bool) -> list[LanguagePrediction]:
    """The first and the last of these, and some spaced evenly between them."""
    most = max(_LEAST_ROWS, _MOST_ROWS // len(names))
    if verbose or len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def _columns(rows: Sequence[LanguagePrediction], *, several: bool) -> list[Column]:
    told = [row.generation for row in rows]
    gpus = [Column(title="GPU", cells=[row.gpu.name for row in rows], right=False)] if several else []
    return [
        *gpus,
        Column(title="users", cells=[f"{one.users:,}" for one in told]),
        Column(title="tokens/s", cells=[rate(one.tokens_per_s) for one in told]),
        Column(title="for each user", cells=[rate(one.tokens_per_s_per_user) for one in told]),
        Column(title="time per token", cells=[format_si(one.time_per_token_s, "s") for one in told]),
        Column(title="first token", cells=[format_si(one.time_to_first_token_s, "s") for one in told]),
        Column(title="memory", cells=[bytes_text(row.memory.total_bytes) for row in rows]),
        Column(title="fits", cells=[_fits(row) for row in rows], right=False),
    ]


def _fits(row: LanguagePrediction) -> str:
    if row.generation.offloaded_fraction:
        return f"with {row.generation.offloaded_fraction:.0%} on the CPU"
    return "yes" if row.fits else "NO"


def _within(found: Within, answer: ServingAnswer) -> str:
    level = answer.level
    waits = [
        *([f"{format_si(level.token_s, 's')} per token"] if level.token_s is not None else []),
        *([f"{format_si(level.first_token_s, 's')} to the first token"] if level.first_token_s is not None else []),
    ]
    asked = " and ".join(waits)
    if not found.users or found.tokens_per_s is None:
        return f"{the(found.gpu)} cannot serve even 1 user within {asked} (limited by {found.limited_by})"
    users = "1 user" if found.users == 1 else f"{found.users:,} users"
    return (
        f"{the(found.gpu)} can serve at most {users} within {asked} "
        f"({rate(found.tokens_per_s)} tokens/s in total, limited by {found.limited_by})"
    )
