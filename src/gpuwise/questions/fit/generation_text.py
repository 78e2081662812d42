"""Whether a model that generates text fits, as text: what fills the memory, tokens per second, how long contexts can be and
how many fit, and a table of remedies.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.language_remedies import FEWEST_BITS, LanguageRung
from gpuwise.core.text import both, the
from gpuwise.core.units import GIB
from gpuwise.questions.common.gpu_list import on_which, set_name
from gpuwise.questions.fit.language_types import LanguageFit, LanguageFitAnswer
from gpuwise.questions.fit.text import bar_of
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_SAME_TASK = ("same", "numerics", "quality")  # effects of remedies that need no other GPU and do the same
_CLEARLY = 1.1  # times as fast: less is not worth a second remedy
_MOST_ROWS = 8  # of remedies in a brief answer: it is to fit a terminal
_LITTLE = 2**20  # bytes: less is not named


def render(answer: LanguageFitAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table of GPUs."""
    results = [result for result in answer.results if isinstance(result, LanguageFit)]
    wide = width or WIDTH
    if len(results) == 1:
        body = _sheet(answer, results[0], wide, colour, verbose)
    else:
        body = _side_by_side(answer, results, wide, colour)
    notes = [f"note: {note}" for note in answer.notes]
    said = folded(results[0].assumptions, verbose=verbose)
    return body + join_notes([wrapped(line, width, "  ") for line in (*notes, *said)])


def _head(answer: LanguageFitAnswer, result: LanguageFit, colour: bool) -> str:
    told = result.generation
    users = "1 user" if told.users == 1 else f"{told.users:,} users"
    cache = "" if told.kv == "fp16" else f", {told.kv} cache"
    size = f"prompt {told.prompt:,}, output {told.output:,} tokens"
    return f"{bold(answer.model, colour=colour)}  {told.weights} in {told.engine}{cache}, {users}, {size}"


def _name(result: LanguageFit) -> str:
    return set_name(result.gpu, result.gpu_count)


# ---------------------------------------------------------------- one GPU, or several of a kind


def _sheet(answer: LanguageFitAnswer, result: LanguageFit, width: int, colour: bool, verbose: bool) -> str:
    parts = _parts(result)
    held = ", ".join(f"{letter} {title} {_bytes(value)}" for letter, title, value in parts if value > _LITTLE)
    lines = [
        f"{_head(answer, result, colour)} on {bold(_name(result), colour=colour)}",
        "",
        wrapped(f"  {_verdict(result)}", width, "    "),
        f"  {bar_of([(letter, value) for letter, _, value in parts], result.room.usable_bytes)}",
        wrapped(f"  {held}", width, "    "),
    ]
    lines += [wrapped(f"  {line}", width, "    ") for line in (_speed(result), _contexts(result)) if line]
    rungs = result.rungs
    if rungs:
        kept = rungs if verbose else _most_useful(rungs)
        left = f"  `-v` lists all {len(rungs)} remedies" if len(kept) < len(rungs) else ""
        lines += ["", _remedies(result, kept, width, colour), *([left] if left else [])]
    if rungs and not result.fits:
        lines += ["", *_ladder(result, width, colour, verbose)]
    return "\n".join(lines)


def _parts(result: LanguageFit) -> tuple[tuple[str, str, float], ...]:
    memory = result.memory
    return (
        ("W", "weights", memory.weight_bytes),
        ("K", "key-value cache", memory.kv_cache_bytes),
        ("A", "activations", memory.activation_bytes - memory.kv_cache_bytes),
        ("E", "engine", memory.framework_bytes),
    )


def _verdict(result: LanguageFit) -> str:
    each = on_which(result.gpu, result.gpu_count)
    need = f"needs {_bytes(result.memory.total_bytes)}"
    if result.fits:
        need += f" of {_bytes(result.room.usable_bytes)}{each}"
        tight = result.memory.high_bytes > result.room.usable_bytes
        return f"{'BARELY FITS' if tight else 'FITS'}: {need}"
    told = result.generation
    need += f"{each}, but only {_bytes(result.room.usable_bytes)} is available"
    if not result.survives:
        return f"DOES NOT FIT: {need}{_describe_remedied(result)}"
    host = f"{_bytes(told.host_bytes)} of system memory"
    what = "experts" if told.offloads_experts else "layers"
    runs = f"it runs with {told.offloaded_fraction:.0%} of the {what} on the CPU, in {host}"
    return f"DOES NOT FIT: {need}; {runs}{_describe_remedied(result)}"


def _describe_remedied(result: LanguageFit) -> str:
    """The first remedies that suffice and the fastest one on the same GPUs that keeps 4 bits, in the first sentence: without
    them, a reader would stop at "does not fit".
    """
    rungs = result.climbed
    if not rungs or any(rung.host_bytes for rung in rungs):
        return ""
    fits = "BARELY FITS" if rungs[-1].memory.high_bytes > result.room.usable_bytes else "FITS"
    first = f"{both(rung.title for rung in rungs)} ({_rate(rungs[-1].tokens_per_s)} tokens/s)"
    same = [rung for rung in result.rungs if rung.fits and rung.effect in _SAME_TASK and not rung.host_bytes]
    same = [rung for rung in same if rung.name not in FEWEST_BITS]
    fastest = max(same, key=lambda rung: rung.tokens_per_s, default=rungs[-1])
    if fastest.tokens_per_s <= _CLEARLY * rungs[-1].tokens_per_s:
        return f". It {fits} with {first}"
    return f". It {fits} with {first}; the fastest remedy is {fastest.title} ({_rate(fastest.tokens_per_s)} tokens/s)"


def _speed(result: LanguageFit) -> str:
    told = result.generation
    if not result.survives:
        return ""
    each = "" if told.users == 1 else f", {_rate(told.tokens_per_s_per_user)} for each user"
    how = "" if result.fits else f" with some {'experts' if told.offloads_experts else 'layers'} on the CPU"
    ends = f"{_rate(told.tokens_per_s_low)} to {_rate(told.tokens_per_s_high)}"
    return f"speed{how}: {_rate(told.tokens_per_s)} tokens/s ({ends}){each}"


def _contexts(result: LanguageFit) -> str:
    """The longest context, and how many requests there is room for."""
    found = result.serving
    if not result.longest_context or found is None:
        return "longest context: no context fits without these changes" if not result.survives else ""
    whole = ", the model's maximum" if result.longest_context == result.model_context else ""
    for_all = "" if result.batch == 1 else f" for each of {result.batch:,} users"
    room = f"{found.users_paged:,} request{'' if found.users_paged == 1 else 's'} of {found.context:,} tokens"
    if found.reserved_context > found.context:
        room += f", or {found.users_reserved:,} of {found.reserved_context:,}"
    return f"longest context: {result.longest_context:,} tokens{for_all}{whole}; room for {room}"


def _remedies(result: LanguageFit, rungs: Sequence[LanguageRung], width: int, colour: bool) -> str:
    """Each remedy alone, below what was asked for."""
    told = result.generation
    now = _rate(told.tokens_per_s) if result.fits else "-"
    rows: list[LanguageFit | LanguageRung] = [result, *rungs]
    return table(
        [
            Column(title="  remedy", cells=["  unchanged", *(f"  {rung.title}" for rung in rungs)], right=False),
            Column(title="memory", cells=[_bytes(one.memory.total_bytes) for one in rows]),
            Column(title="fits", cells=["yes" if one.fits else "no" for one in rows], right=False),
            Column(title="tokens/s", cells=[now, *(_rate(rung.tokens_per_s) if rung.fits else "-" for rung in rungs)]),
            Column(title="requests", cells=[f"{one.max_batch:,}" for one in rows], drop=3),
            Column(title="changes", cells=["", *(_changes(rung) for rung in rungs)], right=False, drop=2),
        ],
        width=width,
        colour=colour,
    )


def _most_useful(rungs: Sequence[LanguageRung]) -> list[LanguageRung]:
    """As many as a brief answer has room for; those that do not suffice are left out first."""
    spare = len(rungs) - _MOST_ROWS
    kept = list[LanguageRung]()
    for rung in rungs:
        if spare > 0 and not rung.fits:
            spare -= 1
        else:
            kept.append(rung)
    return kept[:_MOST_ROWS]


def _changes(rung: LanguageRung) -> str:
    return f"{rung.effect}; {_bytes(rung.host_bytes)} of RAM" if rung.host_bytes else rung.effect


def _ladder(result: LanguageFit, width: int, colour: bool, verbose: bool) -> list[str]:
    """The remedies that make it fit together; with `verbose` also how to apply each."""
    rungs = result.climbed
    if not rungs:
        return ["  No combination of these remedies makes the model fit."]
    lines = [bold("  remedies applied in order until the model fits:", colour=colour)]
    for number, rung in enumerate(rungs, 1):
        where = " on each GPU" if rung.gpu_count > 1 else ""
        speed = f", {_rate(rung.tokens_per_s)} tokens/s" if rung.fits else ""
        more = f"; {rung.how}" if verbose else ""
        lines.append(wrapped(f"  {number}. {rung.title}: {_bytes(rung.memory.total_bytes)}{where}{speed}{more}", width, "     "))
    return lines


# ---------------------------------------------------------------- several kinds of GPU


def _side_by_side(answer: LanguageFitAnswer, results: Sequence[LanguageFit], width: int, colour: bool) -> str:
    columns = [
        Column(title="GPU", cells=[_name(result) for result in results], right=False),
        Column(title="needs", cells=[_bytes(result.memory.total_bytes) for result in results]),
        Column(title="has", cells=[_bytes(result.room.usable_bytes) for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
        Column(title="tokens/s", cells=[_side_speed(result) for result in results]),
        Column(title="longest context", cells=[f"{result.longest_context:,}" for result in results], drop=2),
        Column(title="requests", cells=[f"{result.max_batch:,}" for result in results], drop=3),
    ]
    fixes = [wrapped(f"the model {_fix(result)}", width, "  ") for result in results if result.climbed and not result.fits]
    return f"{_head(answer, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}" + join_notes(fixes)


def _side_speed(result: LanguageFit) -> str:
    return _rate(result.generation.tokens_per_s) if result.survives else "-"


def _fix(result: LanguageFit) -> str:
    rungs = result.climbed
    return f"fits on {the(_name(result))} with {both(rung.title for rung in rungs)} ({_rate(rungs[-1].tokens_per_s)} tokens/s)"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(value: float) -> str:
    return f"{value / GIB:.1f} GiB" if value >= 0.1 * GIB else f"{value / 2**20:.0f} MiB"
