"""Which layout a compiler gives the convolutions of a whole model.

torch.compile lays images channels-last where it expects to gain (`decide_layout_opt` in `torch/_inductor/graph.py`, PyTorch 2.3
to 2.13). Inferring, it weighs the FLOPs of each kind of convolution by how much faster or slower its authors measured that kind
to be; training, a single convolution of a bad kind keeps the model as it is.
"""

from __future__ import annotations

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Array
from gpuwise.workload.model.evaluate import call_counts, op_flops
from gpuwise.workload.model.types import Op, Workload

__all__ = ["lays_channels_last"]

# Time channels-last over time channels-first, as PyTorch's source has it.
_INFERENCE_RATIO = {"grouped": 1.358, "small": 0.783, "narrowing": 0.725, "other": 0.823}
_SMALL = 64.0


def lays_channels_last(workload: Workload, values: Array) -> bool:
    """Whether compiling turns this model's convolutions to channels-last; `values` are its products at one size."""
    forward = call_counts(workload)[0]
    places = [place for place, op in enumerate(workload.ops) if op.kind == "conv" and forward[place]]
    if not places:
        return False
    kinds = [_kind(workload.ops[place], values) for place in places]
    if workload.mode == "train":
        return not {"grouped", "narrowing"} & set(kinds) and set(kinds) != {"small"}
    flops = op_flops(workload, values[None, :])[0, places] * forward[places]
    weighed = sum(_INFERENCE_RATIO[kind] * work for kind, work in zip(kinds, flops, strict=True))
    return bool(weighed <= flops.sum())


def _kind(op: Op, values: Array) -> str:
    size = {name: values[row] for name, row in zip(KINDS["conv"].sizes, op.sizes, strict=True)}
    groups = float(op.attrs["groups"])  # type: ignore[arg-type]
    inputs = size["c_in"] / groups  # of one filter
    if groups > 1 and inputs > 1:
        return "grouped"
    if size["c_out"] <= _SMALL and inputs <= _SMALL:
        return "small"
    return "narrowing" if 2 * size["c_out"] <= inputs and size["kernel"] > 1 else "other"
