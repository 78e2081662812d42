"""Lists all checks and the order of their findings.

A file in `checks/` with a function `check` that takes a view of a trace runs on every trace. Checks that need something else
(several ranks, a prediction, a watched run) have functions with other names, and are called here by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from gpuwise.core.text import a
from gpuwise.diagnose import checks
from gpuwise.diagnose.checks import (
    cpu_starved,
    exposed_comm,
    gpu_fault,
    idle_gpu,
    input_starved,
    pcie_degraded,
    power_limited,
    shared_gpu,
    single_process_loader,
    slower_than_expected,
    straggler,
    throttled,
    vram_spill,
)
from gpuwise.diagnose.checks.slower_than_expected import Expectation
from gpuwise.diagnose.fleet import FleetFinding, Member, Named, gathered
from gpuwise.diagnose.ranks import Rank, peers, typical
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.view import View
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODES", "ranked", "run_checks", "run_fleet_checks", "run_live_checks"]

Check = Callable[[View], Finding | Abstained | None]


def _of_folder() -> tuple[Check, ...]:
    """Return the `check` of every file in the folder, so that a new check of traces needs no line here."""
    names = sorted(found.name for found in iter_modules(checks.__path__))
    modules = [import_module(f"{checks.__name__}.{name}") for name in names]
    return tuple(cast(Check, module.check) for module in modules if hasattr(module, "check"))


_CHECKS = _of_folder()
_OTHERS = (exposed_comm.CODE, straggler.CODE, slower_than_expected.CODE)
_OF_GPUS: tuple[Callable[[Vitals], Finding | None], ...] = (
    throttled.check_live,
    pcie_degraded.check_live,
    vram_spill.check_live,
    power_limited.check_live,
    shared_gpu.check_live,
)
_TIE = 0.05  # lower ends that differ by less do not decide the order
_OF_STEPS: tuple[Callable[[Vitals], Finding | None], ...] = (input_starved.check_live, single_process_loader.check_live)

_LIVE = {
    "pcie_degraded": "the PCIe generation and width",
    "vram_spill": "GPU memory use",
    "throttled": "clocks, temperature and throttle reasons",
    "power_limited": "the power limit",
    "shared_gpu": "other processes on the GPU",
    "cpu_starved": "the CPU load",
}
_ABOUT_GPUS = frozenset(
    "allocator_churn bandwidth_bound compiling fp32_matmul fp64_kernels host_sync host_work launch_bound layout_transposes "
    "misaligned_shapes old_arch_kernels pageable_copies slow_ops small_grids small_model tf32_off unfused_optimizer "
    "wrong_backend".split()
)
_OF_FLEETS = {  # titles for several GPUs
    gpu_fault.CODE: "errors or no longer reporting",
    idle_gpu.CODE: "almost idle",
    throttled.CODE: "throttled",
    vram_spill.CODE: "memory full and spilling to the host",
    straggler.CODE: "slower than their peers",
    pcie_degraded.CODE: "PCIe link slower than the card supports",
    power_limited.CODE: "power limit below the default",
}
CODES = (*(check.__module__.rpartition(".")[2] for check in _CHECKS), *_OTHERS, *_LIVE, gpu_fault.CODE, idle_gpu.CODE)


def run_checks(
    ranks: Sequence[Rank], expected: Expectation | Abstained | None
) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """Return the findings, largest gain first, and the checks that this trace does not support. A slow step comes last."""
    view = typical(ranks).view
    answers = [_asked(check, view) for check in _CHECKS]
    late = straggler.check_ranks(peers(ranks), _found)
    waiting_s = late.seconds_per_step if isinstance(late, Finding) else 0.0
    answers += [exposed_comm.check_waiting(view, waiting_s), late, slower_than_expected.check_expected(view, expected)]
    answers.append(idle_gpu.check_ranks(peers(ranks), _found))
    findings = [answer for answer in answers if isinstance(answer, Finding)]
    abstained = [answer for answer in answers if isinstance(answer, Abstained)]
    abstained += _not_in_traces()
    return ranked(findings), tuple(abstained)


def _found(view: View) -> list[Finding]:
    return [answer for answer in (_asked(check, view) for check in _CHECKS) if isinstance(answer, Finding)]


def _asked(check: Check, view: View) -> Finding | Abstained | None:
    """Run a check. Checks about the units, libraries or drivers of GPUs are skipped for other accelerators."""
    code, device = check.__module__.rpartition(".")[2], view.scene.device
    if device.is_gpu or code not in _ABOUT_GPUS:
        return check(view)
    return Abstained(code=code, reason=f"the device is {a(device.name)}, not a GPU", record_next="use its vendor's tools")


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by the lower end of the gain, in steps of 5%, with circumstances after causes. A slow step is neither and
    comes last."""
    late = slower_than_expected.CODE
    return tuple(
        sorted(
            findings,
            key=lambda one: (
                one.code == late,
                one.circumstance,
                -round(one.gain.low / _TIE),
                -one.gain.high,
                -one.share_fraction,
            ),
        )
    )


def run_live_checks(vitals: Vitals) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """Return the findings of a watched run, and the checks that could not run."""
    answers = [check(vitals) for check in (*_OF_STEPS, *_OF_GPUS, cpu_starved.check_live)]
    blind = []
    if not vitals.gpus:
        names = [check.__module__.rpartition(".")[2] for check in _OF_GPUS]
        blind += [
            Abstained(code=name, reason=vitals.blind, record_next="run `gpuwise watch` on a machine with a working GPU driver")
            for name in names
        ]
    if not vitals.step_s:
        names = [check.__module__.rpartition(".")[2] for check in _OF_STEPS]
        blind += [Abstained(code=name, reason="no steps were found", record_next=vitals.without_steps) for name in names]
    if vitals.cores_used_fraction is None:
        reason = next((fault for fault in vitals.faults if "CPU load" in fault), "the run was too short")
        blind.append(Abstained(code=cpu_starved.CODE, reason=reason, record_next="watch the run for a few seconds on Linux"))
    return ranked(answer for answer in answers if answer is not None), tuple(blind)


def run_fleet_checks(members: Sequence[Member]) -> tuple[FleetFinding, ...]:
    """Return the findings for many GPUs: faults first, then the largest losses."""
    named: dict[str, list[Named]] = {code: [] for code in _OF_FLEETS}
    for number, member in enumerate(members):
        answers = [gpu_fault.check_member(member)]
        if not member.silent_s:
            answers.append(idle_gpu.check_member(member))
            answers += [check(Vitals(gpus=(member.vitals,))) for check in _OF_GPUS if check is not shared_gpu.check_live]
        for finding in filter(None, answers):
            named[finding.code].append(Named(number=number, finding=finding))
    named[straggler.CODE] += straggler.check_peers(members)
    found = [gathered(_OF_FLEETS[code], entries, len(members)) for code, entries in named.items() if entries]
    return tuple(sorted(found, key=lambda one: (one.finding.code != gpu_fault.CODE or not one.lost_gpus, -one.lost_gpus)))


def _not_in_traces() -> list[Abstained]:
    return [
        Abstained(code=code, reason=f"a trace does not record {what}", record_next="run `gpuwise watch` on the job")
        for code, what in _LIVE.items()
    ]
