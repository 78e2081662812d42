"""Whether a model fits, as text: a bar of what fills the memory, remedies with their price, and a ladder that fits."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.types import Rung
from gpuwise.core.units import format_si
from gpuwise.questions.fit.catalogue import CatalogueFit, CatalogueRow
from gpuwise.questions.fit.types import Fit, FitAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped
from gpuwise.step.memory.peak import Memory

__all__ = ["bar", "render", "render_catalogue"]

_BAR = 64
_KINDS = (
    ("W", "weights", "weight_bytes"),
    ("G", "gradients", "gradient_bytes"),
    ("O", "optimizer", "optimizer_bytes"),
    ("A", "activations", "activation_bytes"),
    ("L", "libraries and allocator", ""),
)
_TIMES = "GPU time: of all GPUs together for the same samples, against the step as asked; 0.50x is twice as fast"
_MOST_REMEDIES = 6  # in a brief answer: those that suffice come first
_WORTH = 0.99  # a remedy that leaves more than this of the peak is not shown as one


def render(answer: FitAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table."""
    alone = len(answer.results) == 1
    body = _sheet(answer, answer.results[0], width, colour, verbose) if alone else _side_by_side(answer, width, colour)
    notes = [f"note: {note}" for note in answer.notes if not note.startswith(("hyper-parameters", "captured as"))]
    said = folded(answer.results[0].assumptions, verbose=verbose)
    return body + join_notes([wrapped(line, width, "  ") for line in (*notes, *said)])


def _head(model: str, result: Fit | CatalogueFit, colour: bool) -> str:
    size = f"batch {result.batch}" + (f", sequence {result.seq}" if result.seq is not None else "")
    return f"{bold(model, colour=colour)}  {result.mode}, {result.precision}, {size}"


# ---------------------------------------------------------------- one GPU


def _sheet(answer: FitAnswer, result: Fit, width: int | None, colour: bool, verbose: bool) -> str:
    count = f"{result.gpu_count} x " if result.gpu_count > 1 else ""
    lines = [
        f"{_head(answer.model, result, colour)} on {count}{bold(result.gpu.name, colour=colour)}",
        "",
        f"  {_verdict(result)}",
        f"  {bar(result.memory, result.room.usable_bytes)}",
        f"  {_legend(result.memory)}",
        f"  {_largest(result)}",
        *(f"  {line}" for line in (_tight(result), *_several(result), _contexts(result)) if line),
    ]
    remedies = _shown(result)
    if remedies:
        kept = remedies if verbose else remedies[:_MOST_REMEDIES]
        left = f"; `-v` lists all {len(remedies)} remedies" if len(kept) < len(remedies) else ""
        lines += ["", _remedies(result, kept, width, colour), wrapped(f"  {_TIMES}{left}", width, "  ")]
    if not result.fits and result.advice.not_applicable:
        lines += ["", *_ladder(result, colour)]
    return "\n".join(lines)


def _verdict(result: Fit) -> str:
    has = f"{_gib(result.room.usable_bytes)}" + (
        (" of the system's memory" if result.gpu.is_cpu else " of memory shared with the CPU") if result.room.shared else ""
    )
    need = f"{_gib(result.memory.total_bytes)} ({_gib(result.memory.low_bytes)} to {_gib(result.memory.high_bytes)}) of {has}"
    if 0.02 < result.probability < 0.98:
        word = "FITS, NARROWLY" if result.fits else "DOES NOT QUITE FIT"
        return f"{word}: needs {need}; it runs with a probability of {result.probability:.0%}"
    return f"{'FITS' if result.fits else 'DOES NOT FIT'}: needs {need}"


def _tight(result: Fit) -> str:
    """What does not fit, but may run."""
    if result.fits or not result.survives:
        return ""
    return "PyTorch may still get through it, slowly: when memory runs out it gives cached blocks back"


def bar(memory: Memory, usable_bytes: float) -> str:
    """What fills the memory, one letter for each kind, to scale; `|` is where the memory ends.

    >>> from gpuwise.step.memory.peak import Memory
    >>> none = dict(gradient_bytes=0, optimizer_bytes=0, workspace_bytes=0, framework_bytes=0)
    >>> bar(Memory(weight_bytes=1, activation_bytes=1, **none), 4.0)
    '[WWWWWWWWWWWWWWWWAAAAAAAAAAAAAAAA................................|'
    """
    scale = max(usable_bytes, memory.total_bytes)
    ends, held = [], 0.0
    for letter, _, _ in _KINDS:
        held += _held(memory, letter)
        ends.append((letter, held))
    cells = []
    for cell in range(_BAR):
        middle = (cell + 0.5) / _BAR * scale
        cells.append(next((letter for letter, end in ends if middle < end), "."))
    limit = round(usable_bytes / scale * _BAR)
    return "[" + "".join(cells[:limit]) + "|" + ("".join(cells[limit:]) + "]" if limit < _BAR else "")


def _held(memory: Memory, letter: str) -> float:
    name = next(field for kind, _, field in _KINDS if kind == letter)
    return float(getattr(memory, name)) if name else memory.workspace_bytes + memory.framework_bytes


def _legend(memory: Memory) -> str:
    parts = [f"{letter} {title} {_gib(_held(memory, letter))}" for letter, title, _ in _KINDS if _held(memory, letter) > 2**20]
    return ", ".join(parts)


def _largest(result: Fit) -> str:
    if not result.max_batch:
        return "largest batch: none, not even 1 fits"
    safe = f"; {result.safe_batch:,} to be safe" if result.safe_batch < result.max_batch else ""
    return f"largest batch: {result.max_batch:,}{safe}"


def _several(result: Fit) -> list[str]:
    """Memory of several GPUs does not add up by itself."""
    if result.gpu_count == 1:
        return []
    split = [rung for rung in result.advice.remedies if rung.name in ("zero-3", "split-layers", "split-matrices")]
    divides = "; ".join(f"{rung.title}: {_gib(rung.memory.total_bytes)} on each" for rung in split)
    keeps = "each holds a full copy of the model" + (", its gradients and states" if result.mode == "train" else "")
    lines = [f"memory of {result.gpu_count} GPUs does not add up by itself: {keeps}"]
    return lines + ([f"splits that divide it: {divides}"] if split else [])


def _contexts(result: Fit) -> str:
    found = result.serving
    if found is None:
        return ""
    how = f" (with {result.advice.ladder[-1].title})" if result.advice.ladder else ""
    token = f"{found.cache_bytes_per_token / 2**20:.3g} MiB a token"
    return (
        f"contexts of {found.context:,} tokens at once{how}: {found.users_paged:,} with a paged cache, "
        f"{found.users_reserved:,} if each reserves {found.reserved_context:,}; {token}"
    )


def _shown(result: Fit) -> list[Rung]:
    """Remedies that save memory, those that suffice first; where it fits already, only those that allow a larger batch."""
    peak = result.memory.total_bytes
    saving = [
        rung
        for rung in result.advice.remedies
        if rung.name == "bigger-gpu"
        or (rung.memory.total_bytes < _WORTH * peak and (not result.fits or rung.max_batch > 1.05 * result.max_batch))
    ]
    return sorted(saving, key=lambda rung: not rung.fits)


def _remedies(result: Fit, rungs: Sequence[Rung], width: int | None, colour: bool) -> str:
    """Each remedy alone, under the step as it was asked for."""
    rows: list[Fit | Rung] = [result, *rungs]
    return table(
        [
            Column(title="  alone", cells=["  as asked", *(f"  {rung.title}" for rung in rungs)], right=False),
            Column(title="peak", cells=[_gib(one.memory.total_bytes) for one in rows]),
            Column(title="fits", cells=["yes" if one.fits else "no" for one in rows], right=False),
            Column(title="largest batch", cells=[f"{one.max_batch:,}" for one in rows], drop=2),
            Column(title="step", cells=[_time(one.step_s) for one in rows]),
            Column(title="GPU time", cells=["1.00x", *(f"{rung.cost:.2f}x" for rung in rungs)]),
            Column(title="changes", cells=["", *(rung.effect for rung in rungs)], right=False, drop=1),
        ],
        width=width,
        colour=colour,
    )


def _ladder(result: Fit, colour: bool) -> list[str]:
    rungs = result.advice.ladder
    if not rungs:
        return ["  No combination of these fits this GPU."]
    lines = [bold("  together, until it fits:", colour=colour)]
    for number, rung in enumerate(rungs, 1):
        where = f" on {rung.gpu_count} GPUs" if rung.gpu_count != result.gpu_count else ""
        whose = "GPU time" if rung.gpu_count > 1 else "time"
        costs = f"{_gib(rung.memory.total_bytes)}, {_time(rung.step_s)} a step{where} ({rung.cost:.2f}x the {whose})"
        lines.append(f"  {number}. {rung.title}: {costs}; {rung.how}")
    return lines


# ---------------------------------------------------------------- several GPUs


def _side_by_side(answer: FitAnswer, width: int | None, colour: bool) -> str:
    results = answer.results
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        Column(title="batch", cells=[str(result.batch) for result in results], drop=1),
        Column(title="needs", cells=[_gib(result.memory.total_bytes) for result in results]),
        Column(title="has", cells=[_gib(result.room.usable_bytes) for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
        Column(title="largest batch", cells=[f"{result.max_batch:,}" for result in results]),
        Column(title="step", cells=[_time(result.step_s) for result in results], drop=2),
        Column(title="what makes it fit", cells=[_makes_fit(result) for result in results], right=False),
    ]
    return f"{_head(answer.model, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}"


def _makes_fit(result: Fit) -> str:
    if result.fits:
        return ""
    rungs = result.advice.ladder
    return " + ".join(rung.title for rung in rungs) + f" ({rungs[-1].cost:.2f}x the time)" if rungs else "nothing we know"


# ---------------------------------------------------------------- the catalogue


def render_catalogue(answer: CatalogueFit, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """GPUs by the memory they have."""
    sizes: dict[tuple[float, int], list[CatalogueRow]] = {}
    for row in sorted(answer.results, key=lambda row: (row.usable_bytes, row.max_batch)):
        sizes.setdefault((round(row.usable_bytes / 2**30, 1), row.max_batch), []).append(row)
    rows = list(sizes.items())
    columns = [
        Column(title="memory", cells=[f"{size:.1f} GiB" for (size, _), _ in rows]),
        Column(title="fits", cells=["yes" if found[0].fits else "no" for _, found in rows], right=False),
        Column(title="largest batch", cells=[f"{most:,}" for (_, most), _ in rows]),
        Column(title="GPUs", cells=[str(len(found)) for _, found in rows]),
        Column(title="such as", cells=[_newest(found) for _, found in rows], right=False, drop=1),
    ]
    need = _gib(answer.results[0].memory.total_bytes) if answer.results else "nothing"
    count = sum(row.fits for row in answer.results)
    body = f"{_head(answer.model, answer, colour)}: needs {need}; fits {count} of {len(answer.results)} GPUs"
    said = folded(answer.assumptions, verbose=verbose)
    return f"{body}\n\n{table(columns, width=width or WIDTH, colour=colour)}" + join_notes(said)


def _newest(rows: Sequence[CatalogueRow]) -> str:
    recent = sorted(rows, key=lambda row: row.gpu.launched_on.toordinal() if row.gpu.launched_on else 0, reverse=True)
    return ", ".join(row.gpu.name for row in recent[:3])


def _time(seconds: float) -> str:
    return format_si(seconds, "s")


def _gib(value: float) -> str:
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
