"""Some ops run far more slowly than this GPU allows.

## What it detects
This check compares the time of each matmul, convolution, attention, normalisation and element-wise op of known size
with the time that the kernel models of `gpuwise predict` expect on the same GPU and in the same data type. It considers
ops that take at least 1% of the step and run at half the expected speed or less. It reports them if the time they lose
adds up to at least 5% of the step.

## Why it costs time
A library may have no good kernel for a size, a type or a memory layout. It may then convert the layout before and after
the op. A throttled or shared GPU, by contrast, runs all of its kernels more slowly, not only some of them.

## What to do
Start with the op that loses the most time. Try another memory layout (channels-last), sizes that are multiples of 8,
another backend, a newer library, or `torch.compile`, which may fuse the op with others.

## Confidence
Confidence is medium if the ops run at a third of the expected speed or less, and low otherwise, because the models are
off by about 20% for most kernels. The upper end of the gain assumes that all of these ops run as expected. The lower
end comes from a replay with a quarter of that improvement. The trace must contain shapes (`record_shapes=True`), and
the GPU must be known.
"""

from __future__ import annotations

from gpuwise.diagnose.roofline.pricing import slow_ops
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "slow_ops"
_THRESHOLD = 0.05
_REACHED = 0.5
_LEAST_SHARE = 0.01
_SURE = 1 / 3
_LIKELY = 0.25
_TOLD = 3
_MOST = 20


def check(view: View) -> Finding | None:
    """Find ops that run well below what the kernel models expect."""
    rows, factors = slow_ops(view, _REACHED, _LEAST_SHARE)
    lost_s = min(sum(row.lost_s for row in rows), view.exposed_s(factors < 1.0))
    if lost_s < _THRESHOLD * view.step_s:
        return None
    measured, expected = sum(row.measured_s for row in rows), sum(row.expected_s for row in rows)
    worst = rows[0]
    return Finding(
        code=CODE,
        title=f"{worst.op.partition(' ')[0]} runs at {worst.reached_fraction:.0%} of the speed that this GPU can reach",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=view.multiplied(1.0 - _LIKELY * (1.0 - factors))),
        confidence="medium" if expected <= _SURE * measured else "low",
        evidence=tuple(
            f"{row.op} in {row.dtype}: {row.measured_s * 1e3:,.2f} ms {view.per} instead of {row.expected_s * 1e3:,.2f} ms "
            f"({row.reached_fraction:.0%} of the expected speed)"
            for row in rows[:_TOLD]
        ),
        remedy="try another memory layout, sizes that are multiples of 8, a newer library or torch.compile for these ops",
        verify="these ops should come close to the expected time",
        ops=rows[:_MOST],
    )
