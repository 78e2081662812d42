"""Clusters as people write them."""

import pytest

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import MOST_GPUS


@pytest.mark.parametrize(
    ("text", "nodes", "per_node", "gpu", "link"),
    [
        ("8xH100 SXM", 1, 8, "H100 SXM 80GB", "NVLink 4 (H100, 18 links)"),
        ("2x8xH100 SXM", 2, 8, "H100 SXM 80GB", "NVLink 4 (H100, 18 links)"),
        ("16xH100 SXM", 2, 8, "H100 SXM 80GB", "NVLink 4 (H100, 18 links)"),
        ("4x RTX 3090", 1, 4, "RTX 3090", "PCIe 4.0 x16"),
        ("2 x rtx3090", 1, 2, "RTX 3090", "PCIe 4.0 x8"),
        ("RTX 4090", 1, 1, "RTX 4090", "PCIe 4.0 x16"),
        ("2x RTX 4090", 1, 2, "RTX 4090", "PCIe 4.0 x8"),
        ("4x GTX 1080 Ti", 1, 4, "GTX 1080 Ti", "PCIe 3.0 x16"),
        ("DGX A100", 1, 8, "A100 SXM 80GB", "NVLink 3 NVSwitch (A100, 12 links)"),
        ("4x DGX H100", 4, 8, "H100 SXM 80GB", "NVLink 4 (H100, 18 links)"),
        ("8x MI300X", 1, 8, "MI300X", "Infinity Fabric (MI300X, 7 links)"),
    ],
)
def test_a_cluster_is_read(text: str, nodes: int, per_node: int, gpu: str, link: str) -> None:
    cluster, _ = parse_cluster(text)
    assert (cluster.node_count, cluster.gpus_per_node, cluster.gpu.name) == (nodes, per_node, gpu)
    assert cluster.wires.gpu_link.name == link


def test_mixed_cards_share_the_slowest_lanes_and_no_bridge() -> None:
    cluster, notes = parse_cluster("2x RTX 3090 + 1x RTX 2080 Ti")
    assert cluster.is_mixed
    assert cluster.gpu_count == 3
    assert [(gpu.name, count) for gpu, count in cluster.kinds] == [("RTX 3090", 2), ("RTX 2080 Ti", 1)]
    assert cluster.wires.gpu_link.name == "PCIe 3.0 x8"
    assert any(note.name == "link of 2x RTX 3090 + 1x RTX 2080 Ti" for note in notes)


@pytest.mark.parametrize(("card", "peers"), [("GTX 1080 Ti", True), ("RTX 4090", False), ("RTX 6000 Ada", True), ("L40S", True)])
def test_geforce_since_turing_has_no_peer_access(card: str, peers: bool) -> None:
    assert parse_cluster(f"4x {card}")[0].wires.peer_to_peer is peers


@pytest.mark.parametrize(
    ("text", "adapters", "gbit", "direct"),
    [
        ("100Gbit", 1, 100, False),
        ("8x400Gbit", 8, 3200, True),
        ("InfiniBand HDR", 1, 200, True),
        ("1 Gbit/s", 1, 1, False),
        ("60 Gbps", 1, 60, False),
        ("12.5 GB/s", 1, 100, False),
        ("25GbE", 1, 25, False),
    ],
)
def test_a_network_is_read(text: str, adapters: int, gbit: float, direct: bool) -> None:
    cluster, _ = parse_cluster("2x8xA100 SXM 80GB", network=text)
    assert cluster.network_count == adapters
    assert cluster.network_bytes_per_s == pytest.approx(gbit * 1e9 / 8)
    assert cluster.gpu_direct is direct


def test_networks_nobody_named_are_stated() -> None:
    desktops, notes = parse_cluster("2x2x RTX 4090")
    assert desktops.network is not None
    assert desktops.network.name == "Ethernet 10 Gbit"
    assert {"network", "link of 2x RTX 4090"} <= {note.name for note in notes}
    assert parse_cluster("4x8xH100 SXM")[0].network_bytes_per_s == pytest.approx(8 * 400e9 / 8)


def test_a_link_is_told() -> None:
    cards, _ = parse_cluster("4x RTX 3090", link="PCIe 3.0 x8, p2p, shared by 2")
    assert (cards.wires.gpu_link.name, cards.wires.peer_to_peer, cards.wires.shared_by) == ("PCIe 3.0 x8", True, 2)
    pairs, _ = parse_cluster("4x RTX 3090", link="NVLink")
    assert (pairs.wires.joined, pairs.wires.host_link.name) == (2, "PCIe 4.0 x16")
    outside, _ = parse_cluster("2x RTX 3080", link="Thunderbolt 3")
    assert outside.wires.host_link.kind == "egpu"


@pytest.mark.parametrize(
    ("text", "network", "link"),
    [
        ("", "", ""),
        ("x", "", ""),
        ("0xH100", "", ""),
        ("eight H100", "", ""),
        ("1000000xH100 PCIe", "", ""),
        ("125000x8xH100 SXM", "", ""),
        ("2x2xRTX 3090 + 1xRTX 4090", "", ""),
        ("2x8xH100 SXM", "0Gbit", ""),
        ("2x8xH100 SXM", "fast", ""),
        ("2x8xH100 SXM", "PCIe 4.0 x16", ""),
        ("4x RTX 4090", "", "NVLink"),
        ("4x RTX 4090", "", "PCIe 4.0 x16, quick"),
        ("4x Core i7-8700K", "", ""),
    ],
)
def test_what_does_not_parse_is_refused_with_a_hint(text: str, network: str, link: str) -> None:
    with pytest.raises(GpuwiseError) as caught:
        parse_cluster(text, network=network, link=link)
    assert caught.value.hint


def test_parts_of_a_cluster_fill_nodes() -> None:
    cluster, _ = parse_cluster("4x8xH100 SXM")
    assert cluster.of_count(4).gpus_per_node == 4
    assert cluster.of_count(16).node_count == 2
    with pytest.raises(BadValue):
        cluster.of_count(12)
    assert cluster.gpu_count < MOST_GPUS


@pytest.mark.parametrize("text", ["RTX 3090, RTX 3060", "RTX 3090 + RTX 3060", "RTX 3090 and RTX 3060", "1x RTX 3090 & RTX 3060"])
def test_different_cards_are_separated_as_people_write_them(text: str) -> None:
    cluster, _ = parse_cluster(text)
    assert [(gpu.name, count) for gpu, count in cluster.kinds] == [("RTX 3090", 1), ("RTX 3060 12GB", 1)]
    assert (cluster.gpus_per_node, cluster.node_count, cluster.network) == (2, 1, None)
    assert [part.gpu.name for part in cluster.alike] == ["RTX 3090", "RTX 3060 12GB"]


@pytest.mark.parametrize(
    ("text", "per_node", "nodes"),
    [
        ("RTX 4090 + RTX 3090", 1, 2),
        ("2x RTX 4090 + 2x RTX 3090", 2, 2),
        ("2x RTX 4090 + RTX 3090", 1, 3),
        ("RTX 3090, RTX 3090", 1, 2),
    ],
)
def test_a_network_makes_each_term_a_machine(text: str, per_node: int, nodes: int) -> None:
    cluster, notes = parse_cluster(text, network="10Gbit")
    assert (cluster.gpus_per_node, cluster.node_count) == (per_node, nodes)
    assert cluster.network_bytes_per_s == pytest.approx(10e9 / 8)
    assert any(note.name == "machines" for note in notes)


def test_a_network_of_one_machine_has_no_effect_and_that_is_noted() -> None:
    cluster, notes = parse_cluster("4x RTX 3090", network="100Gbit")
    assert cluster.network is None
    assert [note.code for note in notes if note.name == "network"] == ["network_unused"]


def test_the_commas_of_specs_separate_no_cards() -> None:
    cluster, _ = parse_cluster("2x name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W + RTX 3090")
    assert [(gpu.name, count) for gpu, count in cluster.kinds] == [("Foo", 2), ("RTX 3090", 1)]


def test_a_machine_with_a_comma_in_its_name_is_one_machine() -> None:
    cluster, _ = parse_cluster("2x AWS g4dn, 1x T4", network="25Gbit")
    assert (cluster.gpus_per_node, cluster.node_count, cluster.is_mixed) == (1, 2, False)
