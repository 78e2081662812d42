"""Replaces the optimizer of a step with Adafactor (Shazeer and Stern 2018), which does not keep full-size states.

The second moment of a matrix is kept as a row and a column. Kernels run one tensor at a time, like the recorded optimizer in
`sources/pytorch/optimizers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuwise.core.errors import BadValue
from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Op, Workload

__all__ = ["with_adafactor"]

_UPDATE = PHASES.index("optimizer")
_WEIGHT, _GRADIENT, _STATE = (CATEGORIES.index(name) for name in ("weight", "gradient", "optimizer"))
# w weight, g gradient, r and c row and column of the second moment, a and b their new values, q the squared gradient, v the
# second moment, u the update, o a single number. Vectors keep v itself.
_Calls = tuple[tuple[str, str, str], ...]
_SCALE: _Calls = (("vector_norm", "w", "o"), ("div", "o", "o"), ("clamp", "o", "o"), ("mul_", "w", "w"), ("mul", "gg", "q"))
_MATRIX: _Calls = (
    ("mean", "q", "a"),
    ("lerp_", "ra", "r"),
    ("mean", "q", "b"),
    ("lerp_", "cb", "c"),
    ("mul", "rc", "v"),
    ("mean", "r", "o"),
    ("div_", "vo", "v"),
)
_VECTOR: _Calls = (("lerp_", "vq", "v"),)
_STEP: _Calls = (("clamp", "v", "u"), ("rsqrt_", "u", "u"), ("mul_", "ug", "u"), ("vector_norm", "u", "o"), ("div", "o", "o"))
_STEP += (("clamp", "o", "o"), ("div", "oo", "o"), ("mul_", "uo", "u"), ("add_", "wu", "w"))
_SUMS = ("vector_norm", "mean")


def with_adafactor(workload: Workload) -> Workload:
    """Return this workload with its optimizer replaced."""
    draft = Draft(workload)
    weights: dict[int, None] = {}
    gradients: dict[int, None] = {}
    for number, call in enumerate(workload.calls):
        if call.phase != _UPDATE or workload.ops[call.op].name.startswith("_amp_"):
            continue  # the gradient scaler stays
        weights.update({row: None for row in call.writes if _category(workload, row) == _WEIGHT})
        gradients.update({row: None for row in call.reads if _category(workload, row) == _GRADIENT})
        draft.drop(number)
    draft.by_use(row for row, buffer in enumerate(workload.buffers) if buffer.category == _STATE)
    if len(weights) != len(gradients):
        raise BadValue(
            f"the optimizer of {workload.model} updates {len(weights)} weights with {len(gradients)} gradients, so it cannot be "
            "replaced by adafactor",
            hint="capture the model again with `--optimizer adafactor`",
        )
    steps: dict[int, _Step] = {}  # by the tensor of a weight, because many weights have the same shape
    for weight, gradient in zip(weights, gradients, strict=True):
        like = draft.buffers[weight].tensor
        if like not in steps:
            steps[like] = _step_of(draft, like)
        _update(draft, steps[like], weight, gradient)
    return draft.done(optimizer="adafactor")


def _category(workload: Workload, row: int) -> int:
    return workload.buffers[row].category


class _Step(NamedTuple):
    """The update of one shape of weight: its tensors by letter, the letters of its states, and its ops with the letters that
    they read and write.
    """

    tensors: Mapping[str, int]
    kept: str
    ops: Sequence[tuple[int, str, str]]


def _step_of(draft: Draft, like: int) -> _Step:
    spec = draft.tensors[like]
    tensors = dict.fromkeys("wgquv", like) | {"o": draft.tensor("fp32", draft.constant(1.0))}
    sides = draft.factors(spec.elements)
    if sides:
        row, column = (draft.tensor(spec.dtype, size) for size in sides)
        tensors |= {"r": row, "a": row, "c": column, "b": column}
    ops = []
    for name, reads, writes in (*_SCALE, *(_MATRIX if sides else _VECTOR), *_STEP):
        read, written = (tuple(tensors[letter] for letter in letters) for letters in (reads, writes))
        elements = max((draft.tensors[tensor].elements for tensor in read), key=lambda product: draft.value(product) or 0.0)
        sizes = (elements, draft.tensors[written[0]].elements) if name in _SUMS else (elements,)
        op = draft.op(Op("reduction" if name in _SUMS else "elementwise", name, spec.dtype, sizes, {}, read, written))
        ops.append((op, reads, writes))
    return _Step(tensors, "rc" if sides else "v", ops)


def _update(draft: Draft, step: _Step, weight: int, gradient: int) -> None:
    end, kept = len(draft.workload.calls), step.kept
    buffers = {
        letter: draft.buffer(tensor, "optimizer" if letter in kept else "temporary", stays=letter in kept)
        for letter, tensor in step.tensors.items()
        if letter not in "wg"
    } | {"w": weight, "g": gradient}
    for op, reads, writes in step.ops:
        used, made = (tuple([buffers[letter] for letter in letters]) for letters in (reads, writes))
        draft.before(end, Call(op, _UPDATE, 0, used, made))
    draft.together([row for letter, row in buffers.items() if letter in "quv" and letter not in kept])  # local names hold them
