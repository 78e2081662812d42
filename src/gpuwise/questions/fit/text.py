"""Whether a model fits, as text: a bar of what fills the memory, remedies with their cost in time, and a combination that
fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.types import Rung
from gpuwise.core.text import both, the
from gpuwise.core.units import format_si
from gpuwise.questions.fit.catalogue import CatalogueFit, CatalogueRow
from gpuwise.questions.fit.types import Fit, FitAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped
from gpuwise.step.memory.peak import Memory

__all__ = ["bar", "bar_of", "render", "render_catalogue"]

_BAR = 64  # cells: a bar that fits any terminal
_KINDS = (
    ("W", "weights", "weight_bytes"),
    ("G", "gradients", "gradient_bytes"),
    ("O", "optimizer", "optimizer_bytes"),
    ("T", "optimizer temporaries", "update_bytes"),
    ("A", "activations", "activation_bytes"),
    ("L", "libraries and allocator", ""),
)
_TIMES = "GPU time is per sample; 0.50x means half the time of the original step"
_MOST_REMEDIES = 5  # in a brief answer: those that suffice come first
_WORTH = 0.99  # of the peak: a remedy that leaves more saves too little to be shown
_ROOMIER = 1.05  # times the largest batch: where the model fits already, smaller gains are not shown
_SURE = 0.98  # probability from which an answer is not called narrow


def render(answer: FitAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table."""
    alone = len(answer.results) == 1
    wide = width or WIDTH
    body = _sheet(answer, answer.results[0], wide, colour, verbose) if alone else _side_by_side(answer, wide, colour)
    notes = [f"note: {note}" for note in answer.notes if not note.startswith(("hyperparameters", "captured as"))]
    said = folded(answer.results[0].assumptions, verbose=verbose)
    return body + join_notes([wrapped(line, width, "  ") for line in (*notes, *said)])


def _head(model: str, result: Fit | CatalogueFit, colour: bool) -> str:
    size = f"batch {result.batch}" + (f", sequence {result.seq}" if result.seq is not None else "")
    how = f"{result.mode} ({result.method})" if result.method else result.mode
    return f"{bold(model, colour=colour)}  {how}, {result.precision}, {size}"


# ---------------------------------------------------------------- one GPU


def _sheet(answer: FitAnswer, result: Fit, width: int, colour: bool, verbose: bool) -> str:
    count = f"{result.gpu_count} x " if result.gpu_count > 1 else ""
    lines = [
        f"{_head(answer.model, result, colour)} on {count}{bold(result.gpu.name, colour=colour)}",
        "",
        wrapped(f"  {_describe_verdict(result)}", width, "    "),
        f"  {bar(result.memory, result.room.usable_bytes)}",
        wrapped(f"  {_legend(result.memory)}", width, "    "),
        f"  {_describe_largest(result)}",
    ]
    more = (_describe_survival(result), *_describe_several(result, verbose), _describe_contexts(result))
    lines += [wrapped(f"  {line}", width, "    ") for line in more if line]
    remedies = _useful_remedies(result)
    if remedies:
        kept = remedies if verbose else remedies[:_MOST_REMEDIES]
        left = f"; `-v` lists all {len(remedies)} remedies" if len(kept) < len(remedies) else ""
        lines += ["", _remedies(result, kept, width, colour), wrapped(f"  {_TIMES}{left}", width, "  ")]
    if not result.fits and result.advice.not_applicable:
        lines += ["", *_ladder(result, width, colour, verbose)]
    return "\n".join(lines)


def _describe_verdict(result: Fit) -> str:
    has = f"{_gib(result.room.usable_bytes)}" + (
        (" of system memory" if result.gpu.is_cpu else " of memory shared with the CPU") if result.room.shared else ""
    )
    room = f" of {has}" if result.fits else f", but only {has} is available"
    if 1 - _SURE < result.probability < _SURE:
        word = "BARELY FITS" if result.fits else "DOES NOT QUITE FIT"
        chance = f"the probability that it runs is {result.probability:.0%}"
        return f"{word}: needs {_gib(result.memory.total_bytes)}{room}; {chance}"
    need = f"{_gib(result.memory.total_bytes)} ({_gib(result.memory.low_bytes)} to {_gib(result.memory.high_bytes)}){room}"
    if result.fits:
        return f"FITS: needs {need}"
    return f"DOES NOT FIT as requested: needs {need}{_describe_remedied(result)}"


def _describe_remedied(result: Fit) -> str:
    """The combination of remedies that makes it fit, in the first sentence: without it, a reader would stop at "does not fit"."""
    rungs = result.advice.ladder
    if not rungs:
        return ""
    barely = "BARELY " if rungs[-1].memory.high_bytes > result.room.usable_bytes else ""
    return f". It {barely}FITS with {both(rung.title for rung in rungs)}"


def _describe_survival(result: Fit) -> str:
    """A model that does not fit but may run."""
    if result.fits or not result.survives:
        return ""
    return "PyTorch may still run the step, but slowly, because it frees cached blocks when memory runs out"


def bar(memory: Memory, usable_bytes: float) -> str:
    """What fills the memory, to scale, with one letter for each kind; `|` marks the end of the memory.

    >>> from gpuwise.step.memory.peak import Memory
    >>> none = dict(gradient_bytes=0, optimizer_bytes=0, workspace_bytes=0, framework_bytes=0)
    >>> bar(Memory(weight_bytes=1, activation_bytes=1, **none), 4.0)
    '[WWWWWWWWWWWWWWWWAAAAAAAAAAAAAAAA................................|'
    """
    return bar_of([(letter, _bytes_of(memory, letter)) for letter, _, _ in _KINDS], usable_bytes)


def bar_of(parts: Sequence[tuple[str, float]], usable_bytes: float) -> str:
    """The same for any kinds of bytes, each with its letter."""
    scale = max(usable_bytes, sum(held for _, held in parts))
    ends, filled = [], 0.0
    for letter, held in parts:
        filled += held
        ends.append((letter, filled))
    cells = []
    for cell in range(_BAR):
        middle = (cell + 0.5) / _BAR * scale
        cells.append(next((letter for letter, end in ends if middle < end), "."))
    limit = round(usable_bytes / scale * _BAR)
    return "[" + "".join(cells[:limit]) + "|" + ("".join(cells[limit:]) + "]" if limit < _BAR else "")


def _bytes_of(memory: Memory, letter: str) -> float:
    name = next(field for kind, _, field in _KINDS if kind == letter)
    if letter == "A":
        return memory.activation_bytes - memory.update_bytes
    return float(getattr(memory, name)) if name else memory.workspace_bytes + memory.framework_bytes


def _legend(memory: Memory) -> str:
    parts = [
        f"{letter} {title} {_gib(_bytes_of(memory, letter))}" for letter, title, _ in _KINDS if _bytes_of(memory, letter) > 2**20
    ]
    return ", ".join(parts)


def _describe_largest(result: Fit) -> str:
    if not result.max_batch:
        return "largest batch: none; not even a batch of 1 fits"
    safe = f"; {result.safe_batch:,} is safe" if result.safe_batch < result.max_batch else ""
    return f"largest batch: {result.max_batch:,}{safe}"


def _describe_several(result: Fit, verbose: bool) -> list[str]:
    """That the memory of several GPUs is not combined; with `verbose` also the splits that divide the model."""
    if result.gpu_count == 1:
        return []
    split = [rung for rung in result.advice.remedies if rung.name in ("zero-3", "split-layers", "split-matrices")]
    divides = "; ".join(f"{rung.title} ({_gib(rung.memory.total_bytes)} on each GPU)" for rung in split)
    keeps = "each GPU holds a full copy of the model" + (
        ", its gradients and its optimizer states" if result.mode == "train" else ""
    )
    lines = [f"the memory of the {result.gpu_count} GPUs is not combined: {keeps}"]
    return lines + ([f"splits that reduce the memory on each GPU: {divides}"] if split and verbose else [])


def _describe_contexts(result: Fit) -> str:
    found = result.serving
    if found is None:
        return ""
    how = f" (with {result.advice.ladder[-1].title})" if result.advice.ladder else ""
    token = f"{found.cache_bytes_per_token / 2**20:.3g} MiB per token"
    return (
        f"{found.context:,}-token contexts that fit at the same time{how}: {found.users_paged:,} with a paged cache, "
        f"{found.users_reserved:,} if each reserves {found.reserved_context:,} tokens; {token}"
    )


def _useful_remedies(result: Fit) -> list[Rung]:
    """Return remedies that save memory, sufficient ones first; if it already fits, only those that allow a larger batch."""
    peak = result.memory.total_bytes
    saving = [
        rung
        for rung in result.advice.remedies
        if rung.name == "bigger-gpu"
        or (rung.memory.total_bytes < _WORTH * peak and (not result.fits or rung.max_batch > _ROOMIER * result.max_batch))
    ]
    return sorted(saving, key=lambda rung: not rung.fits)


def _remedies(result: Fit, rungs: Sequence[Rung], width: int, colour: bool) -> str:
    """Each remedy alone, below the requested step."""
    rows: list[Fit | Rung] = [result, *rungs]
    return table(
        [
            Column(title="  remedy", cells=["  unchanged", *(f"  {rung.title}" for rung in rungs)], right=False),
            Column(title="peak", cells=[_gib(one.memory.total_bytes) for one in rows]),
            Column(title="fits", cells=["yes" if one.fits else "no" for one in rows], right=False),
            Column(title="largest batch", cells=[f"{one.max_batch:,}" for one in rows], drop=3),
            Column(title="step", cells=[_time(one.step_s) for one in rows]),
            Column(title="GPU time", cells=["1.00x", *(f"{rung.cost:.2f}x" for rung in rungs)]),
            Column(title="changes", cells=["", *(rung.effect for rung in rungs)], right=False, drop=2),
        ],
        width=width,
        colour=colour,
    )


def _ladder(result: Fit, width: int, colour: bool, verbose: bool) -> list[str]:
    """The remedies that make it fit when they are combined, one after the other; with `verbose` also how to apply each."""
    rungs = result.advice.ladder
    if not rungs:
        return ["  No combination of these remedies makes the model fit on this GPU."]
    lines = [bold("  remedies applied in order until the model fits:", colour=colour)]
    for number, rung in enumerate(rungs, 1):
        where = f" on {rung.gpu_count} GPUs" if rung.gpu_count != result.gpu_count else ""
        whose = "GPU time" if rung.gpu_count > 1 else "time"
        costs = f"{_gib(rung.memory.total_bytes)}, {_time(rung.step_s)} per step{where} ({rung.cost:.2f}x the {whose})"
        lines.append(wrapped(f"  {number}. {rung.title}: {costs}" + (f"; {rung.how}" if verbose else ""), width, "     "))
    return lines


# ---------------------------------------------------------------- several GPUs


def _side_by_side(answer: FitAnswer, width: int, colour: bool) -> str:
    """One row for each GPU; what makes the others fit is in the table, or below it in a narrow terminal."""
    results = answer.results
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        Column(title="batch", cells=[str(result.batch) for result in results], drop=1),
        Column(title="needs", cells=[_gib(result.memory.total_bytes) for result in results]),
        Column(title="has", cells=[_gib(result.room.usable_bytes) for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
        Column(title="largest batch", cells=[f"{result.max_batch:,}" for result in results]),
        Column(title="step", cells=[_time(result.step_s) for result in results], drop=2),
    ]
    advice = Column(title="what makes it fit", cells=[_describe_ladder(result) for result in results], right=False)
    head = _head(answer.model, results[0], colour)
    if sum(column.width + 2 for column in (*columns, advice)) - 2 <= width:
        return f"{head}\n\n{table([*columns, advice], width=width, colour=colour)}"
    fixes = [
        wrapped(f"the model fits on {the(result.gpu.name)} with {_describe_ladder(result)}", width, "  ")
        for result in results
        if result.advice.ladder and not result.fits
    ]
    shown = table(columns, width=width, colour=colour)
    return f"{head}\n\n{shown}" + join_notes(fixes)


def _describe_ladder(result: Fit) -> str:
    """The remedies that make it fit together, and their cost."""
    if result.fits:
        return ""
    rungs = result.advice.ladder
    return both(rung.title for rung in rungs) + f" ({rungs[-1].cost:.2f}x the time)" if rungs else "no known remedy"


# ---------------------------------------------------------------- the catalogue


def render_catalogue(answer: CatalogueFit, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The GPUs of the catalogue, grouped by memory."""
    sizes: dict[tuple[float, int], list[CatalogueRow]] = {}
    for row in sorted(answer.results, key=lambda row: (row.usable_bytes, row.max_batch)):
        sizes.setdefault((round(row.usable_bytes / 2**30, 1), row.max_batch), []).append(row)
    rows = list(sizes.items())
    columns = [
        Column(title="memory", cells=[f"{size:.1f} GiB" for (size, _), _ in rows]),
        Column(title="fits", cells=["yes" if found[0].fits else "no" for _, found in rows], right=False),
        Column(title="largest batch", cells=[f"{most:,}" for (_, most), _ in rows]),
        Column(title="GPUs", cells=[str(len(found)) for _, found in rows]),
        Column(title="examples", cells=[_newest(found) for _, found in rows], right=False, drop=1),
    ]
    need = _gib(answer.results[0].memory.total_bytes) if answer.results else "nothing"
    count = sum(row.fits for row in answer.results)
    body = f"{_head(answer.model, answer, colour)}: needs {need}; fits on {count} of {len(answer.results)} GPUs"
    said = folded(answer.assumptions, verbose=verbose)
    return f"{body}\n\n{table(columns, width=width or WIDTH, colour=colour)}" + join_notes(
        [wrapped(line, width, "  ") for line in said]
    )


def _newest(rows: Sequence[CatalogueRow]) -> str:
    recent = sorted(rows, key=lambda row: row.gpu.launched_on.toordinal() if row.gpu.launched_on else 0, reverse=True)
    return ", ".join(row.gpu.name for row in recent[:3])


def _time(seconds: float) -> str:
    return format_si(seconds, "s")


def _gib(value: float) -> str:
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
