"""AMD GPUs through a stand-in for the amdsmi package."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gpuwise.live.sample.amd import open_amdsmi


class Refused(Exception):
    """What amdsmi raises."""


def stand_in(**answers: Any) -> SimpleNamespace:
    def refuse(*_: Any) -> Any:
        raise Refused

    names = "init shut_down get_processor_handles get_gpu_asic_info get_gpu_activity get_power_info get_clock_info"
    names += " get_gpu_vram_usage get_pcie_info get_temp_metric get_gpu_process_list"
    calls = {f"amdsmi_{name}": refuse for name in names.split()}
    calls |= {f"amdsmi_{name}": (lambda *_, value=value: value) for name, value in answers.items()}
    kinds = {"AmdSmiClkType": SimpleNamespace(GFX=0), "AmdSmiTemperatureType": SimpleNamespace(HOTSPOT=1)}
    return SimpleNamespace(AmdSmiException=Refused, AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0), **kinds, **calls)


def test_what_amdsmi_tells_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    smi = stand_in(
        init=None,
        shut_down=None,
        get_processor_handles=["card"],
        get_gpu_asic_info={"market_name": "AMD Instinct MI300X"},
        get_gpu_activity={"gfx_activity": 93, "umc_activity": 40},
        get_power_info={"current_socket_power": "N/A", "average_socket_power": 610, "power_limit": 750_000_000},
        get_clock_info={"clk": 2050, "max_clk": 2100},
        get_gpu_vram_usage={"vram_used": 1024, "vram_total": 196_592},
        get_pcie_info={
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000},
            "pcie_metric": {"pcie_width": 8, "pcie_speed": 16000},
        },
        get_gpu_process_list=[{"pid": 7, "mem": 5}, "odd"],
    )
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    sampler, fault = open_amdsmi()
    assert sampler is not None
    assert not fault
    (gpu,) = sampler.sample()
    assert (gpu.name, gpu.busy_fraction, gpu.power_watts, gpu.power_limit_watts) == ("AMD Instinct MI300X", 0.93, 610, 750)
    assert (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_lanes) == (4, 5, 8)
    assert gpu.memory_used_bytes == 2**30
    assert gpu.temperature_c is None
    assert [one.pid for one in gpu.processes or ()] == [7]
    sampler.close()


def test_a_driver_that_stops_answering_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", stand_in(init=None, get_processor_handles=["card"]))
    sampler, _ = open_amdsmi()
    assert sampler is not None
    assert sampler.sample() == ()
    assert sampler.sample() == ()
    assert len(sampler.faults) == 1


def test_no_driver_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", stand_in())
    assert open_amdsmi()[0] is None
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert open_amdsmi() == (None, "amdsmi is not installed")
