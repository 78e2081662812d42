"""The doctor on machines we do not have: drivers are simulated by stand-ins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpuwise
from gpuwise.live.sample import machine
from gpuwise.questions.doctor.answer import Checkup
from gpuwise.questions.doctor.text import render


class StandInNvml:
    """What `pynvml` would say on a machine with these GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, *gpus: dict[str, Any], works: bool = True) -> None:
        self._gpus, self._works, self.open = gpus, works, 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self._works:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlSystemGetDriverVersion": lambda: b"570.86.10",
            "nvmlDeviceGetCount": lambda: len(self._gpus),
            "nvmlDeviceGetHandleByIndex": lambda index: self._gpus[index],
            "nvmlDeviceGetName": lambda gpu: gpu["name"],
        }
        return answers.get(name, lambda gpu: self._answer(gpu, name))

    def _answer(self, gpu: dict[str, Any], name: str) -> Any:
        if name not in gpu:
            raise self.NVMLError("Not Supported")
        return gpu[name]


def _device(**answers: Any) -> machine.Device:
    _, devices = machine.nvml_devices(StandInNvml(answers))
    return devices[0]


def _checked(monkeypatch: pytest.MonkeyPatch, *devices: machine.Device) -> Checkup:
    found = machine.Machine(python="3.12", platform="test", packages={}, probes=(), devices=devices)
    monkeypatch.setattr("gpuwise.questions.doctor.answer.look_around", lambda: found)
    return gpuwise.doctor()


def test_nvml_device_is_read_and_nvml_closed() -> None:
    nvml = StandInNvml({"name": "NVIDIA GeForce RTX 4090", "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24564 * 2**20)})
    probe, devices = machine.nvml_devices(nvml)
    assert probe.found
    assert nvml.open == 0
    assert devices[0].name == "NVIDIA GeForce RTX 4090"
    assert devices[0].driver == "570.86.10"
    assert devices[0].memory_bytes == 24564 * 2**20
    assert devices[0].power_limit_watts is None


def test_a_driver_that_does_not_answer_is_said_plainly() -> None:
    probe, devices = machine.nvml_devices(StandInNvml(works=False))
    assert devices == []
    assert not probe.found
    assert "Driver Not Loaded" in probe.detail


def test_device_is_matched_and_its_faults_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _device(
        name="NVIDIA GeForce RTX 3090",
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=24 * 2**30),
        nvmlDeviceGetPowerManagementLimit=250_000,
        nvmlDeviceGetPowerManagementDefaultLimit=350_000,
        nvmlDeviceGetCurrPcieLinkWidth=4,
        nvmlDeviceGetMaxPcieLinkWidth=16,
    )
    (checked,) = _checked(monkeypatch, device).gpus
    assert checked.gpu is not None
    assert checked.gpu.name == "RTX 3090"
    assert any("250 W is below the default of 350 W" in note for note in checked.notes)
    assert any("4 of 16 lanes" in note for note in checked.notes)


def test_memory_chooses_between_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _device(name="NVIDIA GeForce RTX 4060 Ti", nvmlDeviceGetMemoryInfo=SimpleNamespace(total=16380 * 2**20))
    (checked,) = _checked(monkeypatch, device).gpus
    assert checked.gpu is not None
    assert checked.gpu.name == "RTX 4060 Ti 16GB"


def test_a_slice_of_a_gpu_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _device(name="NVIDIA A100-SXM4-40GB", nvmlDeviceGetMemoryInfo=SimpleNamespace(total=5 * 2**30))
    (checked,) = _checked(monkeypatch, device).gpus
    assert any("MIG" in note for note in checked.notes)


def test_unknown_device_is_an_answer_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    checkup = _checked(monkeypatch, machine.Device(name="Frobnicator 9000", found_by="NVML"))
    assert checkup.gpus[0].gpu is None
    assert "not in the catalogue" in render(checkup)
    assert checkup.to_dict()["gpus"][0]["gpu"] is None


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no GPU was found on this machine" in render(_checked(monkeypatch))


def _node(topology: Path, name: str, properties: str, bank: str = "") -> None:
    folder = topology / name
    (folder / "mem_banks" / "0").mkdir(parents=True)
    (folder / "properties").write_text(properties)
    (folder / "mem_banks" / "0" / "properties").write_text(bank)


def test_amd_gpus_are_read_from_the_kernel_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _node(tmp_path, "0", "cpu_cores_count 96\nsimd_count 0\n", "size_in_bytes 540000000000\n")
    _node(tmp_path, "1", "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n", f"size_in_bytes {192 * 2**30}\n")
    _node(tmp_path, "2", "simd_count 168\nsimd_per_cu 2\ngfx_target_version 110000\n", f"size_in_bytes {20 * 2**30}\n")
    probe, devices = machine.kfd_devices(tmp_path)
    assert probe.found
    assert [device.name for device in devices] == ["gfx942", "gfx1100"]
    names = [checked.gpu.name for checked in _checked(monkeypatch, *devices).gpus if checked.gpu]
    assert names == ["MI300X", "RX 7900 XT"]


@pytest.mark.parametrize(("target", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100"), (100300, "gfx1030")])
def test_gfx_name(target: int, name: str) -> None:
    assert machine.gfx_name(target) == name


def test_apple_gpu_is_named_by_chip_and_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    displays = '{"SPDisplaysDataType": [{"sppci_cores": "30"}]}'
    device = machine.apple_device("Apple M2 Max", str(32 * 2**30), displays)
    (checked,) = _checked(monkeypatch, device).gpus
    assert checked.gpu is not None
    assert checked.gpu.name == "M2 Max 30-core"
    assert checked.notes == ()


@pytest.mark.parametrize("displays", ["", "[]", "{}", '{"SPDisplaysDataType": []}', "not json"])
def test_apple_gpu_without_core_count_is_still_named(displays: str) -> None:
    assert machine.apple_device("Apple M1", "", displays).name == "M1"


def test_the_machine_at_hand_is_looked_at_without_error() -> None:
    assert {probe.name for probe in machine.look_around().probes} == {
        "NVIDIA (NVML)",
        "AMD (amdgpu driver)",
        "Apple (Metal)",
    }
