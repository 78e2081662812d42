"""Samples NVIDIA GPUs through NVML (`nvidia-ml-py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuwise.live.sample.types import GpuProcess, GpuSample

__all__ = ["REASONS", "NvmlSampler", "open_nvml"]

# The reasons why a clock is not higher; the bits are those of nvmlDeviceGetCurrentClocksEventReasons.
REASONS = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}


def open_nvml() -> tuple[NvmlSampler | None, str]:
    """Return a sampler, or the reason why there is none."""
    try:
        import pynvml
    except ImportError:
        return None, 'nvidia-ml-py is not installed (run `pip install "gpuwise[nvidia]"` to detect NVIDIA GPUs)'
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as fault:
        if fault.value == pynvml.NVML_ERROR_NO_PERMISSION:
            return None, "no permission to query the NVIDIA driver (NVML); in a container, allow access to the GPU"
        return None, f"no NVIDIA driver responded ({fault})"
    sampler = NvmlSampler(pynvml)
    return (sampler, "") if sampler.found else (None, "; ".join(sampler.faults) or "the NVIDIA driver lists no GPU")


class NvmlSampler:
    """Queries every GPU in turn. Values that a card does not report are None; a GPU that is lost is left out from then on."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.faults: list[str] = []
        self._seen_us: dict[int, int] = {}
        self._gpus: dict[int, tuple[Any, str]] = {}
        try:
            for index in range(nvml.nvmlDeviceGetCount()):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                self._gpus[index] = (handle, _text(nvml.nvmlDeviceGetName(handle)))
        except nvml.NVMLError as fault:
            self.faults.append(f"the NVIDIA driver stopped responding: {fault}")

    @property
    def found(self) -> bool:
        """Return whether there is a GPU to sample."""
        return bool(self._gpus)

    def sample(self) -> tuple[GpuSample, ...]:
        """Return a sample of every GPU that still responds."""
        samples = []
        for index, (handle, name) in list(self._gpus.items()):
            try:
                samples.append(self._sample(index, handle, name))
            except self._nvml.NVMLError as fault:
                del self._gpus[index]
                self.faults.append(self._loss(index, name, fault))
        return tuple(samples)

    def close(self) -> None:
        """Release the driver."""
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return

    def _loss(self, index: int, name: str, fault: Any) -> str:
        if fault.value in (self._nvml.NVML_ERROR_GPU_IS_LOST, self._nvml.NVML_ERROR_RESET_REQUIRED):
            return f"GPU {index} ({name}) fell off the bus or needs a reset ({fault}); check `dmesg` for Xid errors"
        return f"GPU {index} ({name}): the driver stopped responding ({fault})"

    def _ask(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Return a value, or None if the card does not report it. Only errors that end all communication are raised."""
        nvml = self._nvml
        gone = (
            nvml.NVML_ERROR_GPU_IS_LOST,
            nvml.NVML_ERROR_RESET_REQUIRED,
            nvml.NVML_ERROR_UNINITIALIZED,
            nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        )
        try:
            return query(*arguments)
        except nvml.NVMLError as fault:
            if fault.value in gone:
                raise
            return None

    def _sample(self, index: int, handle: Any, name: str) -> GpuSample:
        nvml, ask = self._nvml, self._ask
        use, memory = ask(nvml.nvmlDeviceGetUtilizationRates, handle), ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        return GpuSample(
            index=index,
            name=name,
            busy_fraction=None if use is None else use.gpu / 100,
            memory_busy_fraction=None if use is None else use.memory / 100,
            clock_hz=_scaled(ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM), 1e6),
            clock_max_hz=_scaled(ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM), 1e6),
            power_watts=_scaled(ask(nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
            power_limit_watts=_scaled(ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
            power_default_watts=_scaled(ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle), 1e-3),
            temperature_c=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            reasons=_words(ask(_reasons_query(nvml), handle)),
            pcie_generation=ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            pcie_generation_max=ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            pcie_lanes=ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            pcie_lanes_max=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
            received_bytes_per_s=_scaled(ask(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_RX_BYTES), 1e3),
            sent_bytes_per_s=_scaled(ask(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_TX_BYTES), 1e3),
            memory_used_bytes=None if memory is None else float(memory.used),
            memory_bytes=None if memory is None else float(memory.total),
            processes=self._processes(index, handle),
        )

    def _processes(self, index: int, handle: Any) -> tuple[GpuProcess, ...] | None:
        nvml = self._nvml
        running = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if running is None:
            return None
        shares: dict[int, float] = {}
        for entry in self._ask(nvml.nvmlDeviceGetProcessUtilization, handle, self._seen_us.get(index, 0)) or ():
            shares[entry.pid] = max(shares.get(entry.pid, 0.0), entry.smUtil / 100)
            self._seen_us[index] = max(self._seen_us.get(index, 0), entry.timeStamp)
        return tuple(
            GpuProcess(
                pid=one.pid,
                memory_bytes=None if one.usedGpuMemory is None else float(one.usedGpuMemory),
                busy_fraction=shares.get(one.pid),
            )
            for one in running
        )


def _reasons_query(nvml: Any) -> Callable[[Any], Any]:
    """Return the function by its newer name if the package has it; drivers before 535 support only the older one."""

    def ask(handle: Any) -> Any:
        try:
            return nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        except (AttributeError, nvml.NVMLError_FunctionNotFound):
            return nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)

    return ask


def _words(bits: int | None) -> tuple[str, ...] | None:
    """Return the reasons in words.

    >>> _words(0x44)
    ('power cap', 'thermal (hardware)')
    """
    return None if bits is None else tuple(text for bit, text in REASONS.items() if bits & bit)


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
