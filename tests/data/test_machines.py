"""Every invariant on every architecture, link, node and host."""

from __future__ import annotations

import pytest

from gpuwise.core.errors import UnknownName
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host, find_link, find_node, hosts, links, loaders, nodes
from gpuwise.hardware.types import DTYPES, Architecture, Host, Link, Loader, Node
from whole_tables import every_row

EPOCH_ORDER = ("fp64", "tf32", "fp16", "fp8", "fp4")


@every_row(tables.architectures().values(), lambda architecture: architecture.id)
def test_architecture_rates_are_sane(architecture: Architecture) -> None:
    rates = architecture.ops_per_unit_per_clock
    assert rates, "an architecture computes something"
    for by_dtype in rates.values():
        assert set(by_dtype) <= set(DTYPES)
        assert all(value > 0 for value in by_dtype.values())
    matrix = rates.get("matrix", {})
    known = [matrix[dtype] for dtype in EPOCH_ORDER if dtype in matrix]
    assert known == sorted(known), "narrower types are never slower"
    assert set(architecture.half_accumulate) <= set(matrix)
    if "vector" in rates and architecture.cores_per_unit:
        assert rates["vector"]["fp32"] in (2 * architecture.cores_per_unit, 4 * architecture.cores_per_unit)


@every_row(tables.architectures().values(), lambda architecture: architecture.id)
def test_architecture_features_agree_with_rates(architecture: Architecture) -> None:
    matrix = architecture.ops_per_unit_per_clock.get("matrix", {})
    for dtype in ("tf32", "fp8", "fp4"):
        assert (dtype in matrix) == (dtype in architecture.features)
    if "bf16" in matrix:
        assert "bf16" in architecture.features


@every_row(links().values(), lambda link: link.name)
def test_link_is_sane(link: Link) -> None:
    assert link.kind in {"pcie", "nvlink", "nvswitch", "infinity-fabric", "egpu", "socket", "ethernet", "infiniband"}
    assert 1e7 < link.bytes_per_s_one_way < 2e12
    assert 0.3 < link.achieved_fraction <= 1.0
    assert 1e-7 < link.latency_s < 1e-3


@pytest.mark.parametrize("generation", range(1, 7))
def test_pcie_doubles_with_each_generation_and_with_lanes(generation: int) -> None:
    rates = [find_link(f"PCIe {generation}.0 x{lanes}").bytes_per_s_one_way for lanes in (1, 4, 8, 16)]
    assert rates[1:] == pytest.approx([rates[0] * 4, rates[0] * 8, rates[0] * 16], rel=0.02)
    if generation > 1:
        assert rates[3] / find_link(f"PCIe {generation - 1}.0 x16").bytes_per_s_one_way == pytest.approx(2, rel=0.1)


@every_row(nodes().values(), lambda node: node.name)
def test_node_is_made_of_things_we_know(node: Node) -> None:
    assert not node.gpu or load_catalog().find(node.gpu).gpu.name == node.gpu
    assert node.gpu_count >= 1
    for name in (node.gpu_link, node.host_link, node.network_link):
        assert not name or find_link(name).name == name
    assert bool(node.network_link) == (node.network_count > 0)
    assert find_host(node.host).name == node.host


@pytest.mark.parametrize("host", hosts().values(), ids=lambda host: host.name)
def test_host_launch_time_has_a_range(host: Host) -> None:
    assert 1e-5 <= host.launch_s < 1e-3


@pytest.mark.parametrize(
    ("cpu", "host"),
    [
        ("Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz", "desktop of 2017"),
        ("Core i7-8700K", "desktop of 2017"),
        ("i7-920", "old quad-core"),
        ("Core 2 Quad Q6600", "old quad-core"),
        ("i5-7200U", "old quad-core"),
        ("12th Gen Intel(R) Core(TM) i7-12700K", "desktop"),
        ("Ryzen 9 5950X", "desktop"),
        ("AMD Ryzen 9 9900X 12-Core Processor", "fast desktop"),
        ("Ryzen 7 4800H", "laptop"),
        ("Core Ultra 7 155H", "laptop"),
        ("Xeon E5-2630 v3", "old quad-core"),
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "server"),
        ("EPYC 7763", "server"),
        ("AMD Ryzen Threadripper PRO 7995WX", "workstation"),
    ],
)
def test_a_cpu_is_known_by_its_name(cpu: str, host: str) -> None:
    assert find_host(cpu).name == host


def test_an_unknown_cpu_is_refused_with_what_would_do() -> None:
    with pytest.raises(UnknownName) as caught:
        find_host("i7")
    assert "i7-8700K" in caught.value.hint
    assert "`laptop`" in caught.value.hint


@pytest.mark.parametrize("loader", loaders().values(), ids=lambda loader: loader.name)
def test_a_core_loads_as_many_images_as_are_reported(loader: Loader) -> None:
    """100 to 700 images a second and core are seen, from old cores with augmentation to new ones that only decode."""
    assert find_host(loader.host).name == loader.host
    assert 100 < 1 / (loader.decode_s + loader.transform_s) < 700
    assert 0 < loader.handover_s < loader.decode_s
    assert 0 < loader.low < 1 < loader.high


def test_every_name_and_alias_leads_to_its_own_entry() -> None:
    for find, entries in ((find_link, links()), (find_node, nodes()), (find_host, hosts())):
        for entry in entries.values():
            for spelling in (entry.name, *entry.aliases):
                assert find(spelling) is entry


def test_the_known_machines_are_there() -> None:
    for name in ("DGX-1", "DGX-2", "DGX A100", "DGX H100", "DGX B200", "p3.16xlarge", "p4d.24xlarge", "a3-highgpu-8g"):
        assert find_node(name).gpu_count >= 8
    for name in ("Thunderbolt 3", "OCuLink", "100 Gbit Ethernet", "InfiniBand HDR", "NVLink 3 (A100, 12 links)"):
        assert find_link(name)
    for spelling in ("pcie4 x16", "PCIe 4.0 x16", "PCIe 4 x16", "x16 pcie 4.0"):
        assert find_link(spelling).name == "PCIe 4.0 x16"
    assert find_link("100Gbit").bytes_per_s_one_way == 12.5e9


def test_unknown_link_gets_a_hint() -> None:
    with pytest.raises(UnknownName) as caught:
        find_link("PCIe 4 x17")
    assert "PCIe 4.0" in caught.value.hint
