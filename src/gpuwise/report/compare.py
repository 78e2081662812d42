"""A comparison as text: how much faster on what, and what would turn it round."""

from __future__ import annotations

from gpuwise.api.comparisons import CompareAnswer
from gpuwise.report.text import Column, bold, join_notes, table

__all__ = ["render"]


def render(answer: CompareAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """One table a GPU, against the first one named."""
    base = answer.gpus[0]
    blocks = []
    for gpu in answer.gpus[1:]:
        pairs = [pair for pair in answer.pairs if pair.gpu == gpu.name]
        head = f"{bold(gpu.name, colour=colour)} against {bold(base.name, colour=colour)}  (2.00x means twice as fast)"
        columns = [
            Column(title="  workload", cells=[f"  {pair.workload}" for pair in pairs], right=False),
            Column(title="precision", cells=[pair.precision for pair in pairs], right=False, drop=2),
            Column(title="speed", cells=[f"{_ratio(pair.ratio)}x" for pair in pairs]),
            Column(title="range", cells=[f"{_ratio(pair.ratio_low)} to {_ratio(pair.ratio_high)}" for pair in pairs]),
            Column(title="why", cells=[pair.why for pair in pairs], right=False, drop=1),
        ]
        blocks.append(f"{head}\n\n{table(columns, width=width, colour=colour)}")
    memory = ", ".join(f"{gpu.name} {gpu.usable_memory_bytes / 2**30:.1f} GiB" for gpu in answer.gpus)
    notes = [f"memory: {memory}", *(f"turns it round: {flip}" for flip in answer.flips)]
    notes += [f"{entry['basis']}: {entry['name']} = {entry['value']} ({entry['effect']})" for entry in answer.assumptions]
    return "\n\n".join(blocks) + join_notes(notes)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
