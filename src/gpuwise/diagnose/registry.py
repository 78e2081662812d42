"""All checks, and the order in which what they say is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.diagnose.checks import (
    allocator_churn,
    bandwidth_bound,
    exposed_comm,
    exposed_h2d,
    fp32_matmul,
    host_sync,
    input_starved,
    launch_bound,
    layout_transposes,
    misaligned_shapes,
    old_arch_kernels,
    pageable_copies,
    single_process_loader,
    slower_than_expected,
    small_grids,
    small_model,
    straggler,
    tf32_off,
    unfused_optimizer,
    wrong_backend,
)
from gpuwise.diagnose.checks.slower_than_expected import Expectation
from gpuwise.diagnose.ranks import Rank, typical
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.view import View

__all__ = ["CODES", "run_checks"]

_CHECKS: tuple[Callable[[View], Finding | Abstained | None], ...] = (
    input_starved.check,
    single_process_loader.check,
    exposed_h2d.check,
    pageable_copies.check,
    launch_bound.check,
    host_sync.check,
    fp32_matmul.check,
    tf32_off.check,
    old_arch_kernels.check,
    misaligned_shapes.check,
    bandwidth_bound.check,
    small_grids.check,
    unfused_optimizer.check,
    layout_transposes.check,
    allocator_churn.check,
    wrong_backend.check,
    small_model.check,
)
_OTHERS = (exposed_comm.CODE, straggler.CODE, slower_than_expected.CODE)
CODES = (*(check.__module__.rpartition(".")[2] for check in _CHECKS), *_OTHERS)

_LIVE = {
    "pcie_degraded": "the link's generation and width",
    "vram_spill": "memory in use",
    "throttled": "clocks, temperature and throttle reasons",
    "power_limited": "the power limit",
    "shared_gpu": "other processes on the GPU",
    "cpu_starved": "the load of the cores",
}


def run_checks(ranks: Sequence[Rank], expected: Expectation | None) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """What is wrong, the largest gain first, and what this trace cannot tell. That a step is slow is no cause: told last."""
    view = typical(ranks).view
    answers = [check(view) for check in _CHECKS]
    late = straggler.check_ranks(ranks)
    waiting_s = late.seconds_per_step if isinstance(late, Finding) else 0.0
    answers += [exposed_comm.check(view, waiting_s), late, slower_than_expected.check_expected(view, expected)]
    findings = [answer for answer in answers if isinstance(answer, Finding)]
    abstained = [answer for answer in answers if isinstance(answer, Abstained)]
    abstained += _not_in_traces()
    findings.sort(key=lambda finding: (finding.code == slower_than_expected.CODE, -finding.gain.middle, -finding.share_fraction))
    return tuple(findings), tuple(abstained)


def _not_in_traces() -> list[Abstained]:
    return [
        Abstained(code=code, reason=f"a trace does not hold {what}", record_next="nvidia-smi or rocm-smi beside the running job")
        for code, what in _LIVE.items()
    ]
