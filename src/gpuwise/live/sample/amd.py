"""Samples AMD GPUs through the `amdsmi` package that comes with ROCm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuwise.live.sample.types import GpuProcess, GpuSample

__all__ = ["AmdSampler", "open_amdsmi"]

_MIB = 1024.0**2
# GT/s of a lane -> PCIe generation.
_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}


def open_amdsmi() -> tuple[AmdSampler | None, str]:
    """Return a sampler, or the reason why there is none."""
    try:
        import amdsmi
    except (ImportError, OSError, KeyError):  # the package looks for ROCm's library while it is imported
        return None, "amdsmi is not installed"
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
    except amdsmi.AmdSmiException as fault:
        return None, f"no AMD driver responded ({fault})"
    return (AmdSampler(amdsmi, handles), "") if handles else (None, "the AMD driver lists no GPU")


class AmdSampler:
    """Queries every GPU in turn; values that it does not report (`N/A`, or an exception) are None."""

    def __init__(self, smi: Any, handles: list[Any]) -> None:
        self._smi = smi
        self.faults: list[str] = []
        self._gpus = {index: (handle, self._name(handle)) for index, handle in enumerate(handles)}

    def sample(self) -> tuple[GpuSample, ...]:
        """Return a sample of every GPU that still responds."""
        samples = []
        for index, (handle, name) in list(self._gpus.items()):
            found = self._sample(index, handle, name)
            if found.busy_fraction is None and found.memory_used_bytes is None and found.power_watts is None:
                del self._gpus[index]
                self.faults.append(f"GPU {index} ({name}): the AMD driver stopped responding")
            else:
                samples.append(found)
        return tuple(samples)

    def close(self) -> None:
        """Release the driver."""
        self._ask(self._smi.amdsmi_shut_down)

    def _ask(self, query: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return query(*arguments)
        except self._smi.AmdSmiException:
            return None

    def _name(self, handle: Any) -> str:
        board = self._ask(self._smi.amdsmi_get_gpu_asic_info, handle) or {}
        return str(board.get("market_name") or "AMD GPU")

    def _sample(self, index: int, handle: Any, name: str) -> GpuSample:
        smi = self._smi
        use = self._ask(smi.amdsmi_get_gpu_activity, handle) or {}
        power = self._ask(smi.amdsmi_get_power_info, handle) or {}
        clock = self._ask(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX) or {}
        memory = self._ask(smi.amdsmi_get_gpu_vram_usage, handle) or {}
        link = self._ask(smi.amdsmi_get_pcie_info, handle) or {}
        heat = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        now, most = link.get("pcie_metric", {}), link.get("pcie_static", {})
        watts = _number(power.get("current_socket_power")) or _number(power.get("average_socket_power"))
        return GpuSample(
            index=index,
            name=name,
            busy_fraction=_scaled(use.get("gfx_activity"), 0.01),
            memory_busy_fraction=_scaled(use.get("umc_activity"), 0.01),
            clock_hz=_scaled(clock.get("clk", clock.get("cur_clk")), 1e6),
            clock_max_hz=_scaled(clock.get("max_clk"), 1e6),
            power_watts=watts,
            power_limit_watts=_watts(power.get("power_limit")),
            temperature_c=_number(self._ask(smi.amdsmi_get_temp_metric, handle, *heat)),
            pcie_generation=_generation(now.get("pcie_speed")),
            pcie_generation_max=_generation(most.get("max_pcie_speed")),
            pcie_lanes=_whole(now.get("pcie_width")),
            pcie_lanes_max=_whole(most.get("max_pcie_width")),
            memory_used_bytes=_scaled(memory.get("vram_used"), _MIB),
            memory_bytes=_scaled(memory.get("vram_total"), _MIB),
            processes=self._processes(handle),
        )

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        running = self._ask(self._smi.amdsmi_get_gpu_process_list, handle)
        if running is None:
            return None
        found = [one for one in running if isinstance(one, dict) and _whole(one.get("pid"))]
        return tuple(GpuProcess(pid=int(one["pid"]), memory_bytes=_number(one.get("mem"))) for one in found)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _scaled(value: Any, factor: float) -> float | None:
    number = _number(value)
    return None if number is None else number * factor


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _watts(value: Any) -> float | None:
    """Return a limit in watts; older versions report microwatts."""
    number = _number(value)
    return number if number is None or number < 1e5 else number * 1e-6


def _generation(speed: Any) -> int | None:
    """Return the generation of a lane with this rate in MT/s; older versions report GT/s."""
    number = _number(speed)
    return None if number is None else _GENERATIONS.get(round(number if number > 100 else number * 1000))
