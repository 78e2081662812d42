"""Which links a machine is taken to have where nothing is said, each choice stated.

Modules (SXM) sit behind NVLink switches or a mesh. Cards speak over PCIe, directly or, as GeForce cards since Turing with the
stock driver, through the host's memory: an NVLink bridge is bought apart, and counted where the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import parse
from gpuwise.hardware.machines import find_link, links, nodes
from gpuwise.hardware.types import Gpu, Link, Node

__all__ = [
    "Wires",
    "has_rdma",
    "link_note",
    "most_in_a_node",
    "network_of",
    "takes_bridge",
    "usual_network",
    "usual_wires",
    "wires_of",
]

_MODULES = {
    1: "NVLink 1 (P100, 4 links)",
    2: "NVLink 2 (V100, 6 links)",
    3: "NVLink 3 NVSwitch (A100, 12 links)",
    4: "NVLink 4 (H100, 18 links)",
    5: "NVLink 5 (B200, 18 links)",
}
_DGX_2, _DGX_2_LINK = "V100 SXM3", "NVLink 2 NVSwitch (V100, DGX-2)"
_BRIDGES = {2: "NVLink 2 bridge (RTX 2080 Ti)", 3: "NVLink 3 bridge (RTX 3090)", 4: "NVLink 4 bridge (H100 PCIe)"}
_BRIDGE_OF_SERVERS = {3: "NVLink 3 bridge (A100 PCIe)"}
_BRIDGED = 2  # cards that one bridge joins
_MODULE_NETWORKS = {1: "InfiniBand EDR", 2: "InfiniBand EDR", 3: "InfiniBand HDR", 4: "InfiniBand NDR", 5: "InfiniBand NDR"}
_SERVER_NETWORK, _DESKTOP_NETWORK = "Ethernet 100 Gbit", "Ethernet 10 Gbit"
_NO_PEERS = ("turing", "ampere", "ada", "blackwell")  # GeForce of these has no peer access over PCIe: source geforce-no-p2p
_DESKTOP_LANES = 16  # that two or three cards share: source workstation-usual
_ANOTHER = "`predict` and `plan` take another with `--link`, such as 'PCIe 3.0 x8, p2p'"
_BOUGHT_APART = "a bridge is bought apart: `predict` and `plan` count one with `--link NVLink`"
_RDMA_FROM_BYTES_PER_S = 200e9 / 8  # slower Ethernet is sold with TCP
_MOST_BYTES_PER_S = 1600e9 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """How the GPUs of a node are joined.

    `gpu_link` joins groups of `joined` GPUs: all of a node behind a switch or on a PCIe tree, two by a bridge. Between such
    groups messages take `host_link`, the way to the host. Without `peer_to_peer` PCIe messages go through the host's memory.
    `shared_by` GPUs use the lanes of one host link together.
    """

    gpu_link: Link
    joined: int
    host_link: Link
    peer_to_peer: bool
    shared_by: int = 1


def most_in_a_node(gpu: Gpu) -> int:
    """How many of these a machine takes."""
    if gpu.cooler != "module" or gpu.name.startswith(_DGX_2):
        return 16
    return 72 if gpu.name.startswith("GB") else 8


def wires_of(node: Node) -> Wires:
    """The wires of a kind of node we have facts of."""
    link = find_link(node.gpu_link)
    joined = 2 if "bridge" in link.name and node.gpu_count > 2 else node.gpu_count
    return Wires(gpu_link=link, joined=joined, host_link=find_link(node.host_link), peer_to_peer=node.peer_to_peer)


def usual_wires(kinds: Sequence[tuple[Gpu, int]], notes: list[Assumption], bridge: bool = False) -> Wires:
    """What joins these GPUs in a usual machine. `bridge` puts NVLink bridges between pairs, however many there are."""
    gpu, total = kinds[0][0], sum(count for _, count in kinds)
    alike = len(kinds) == 1
    if bridge and not (alike and (takes_bridge(gpu) or _on_board(gpu))):
        raise BadValue(f"{gpu.name} has no NVLink" if alike else "different cards share no NVLink", hint="leave `--link` out")
    host, peers = _host_link([one for one, _ in kinds], total), all(_has_peers(one) for one, _ in kinds)
    board = _on_board(gpu) or _fabric(gpu) if alike else None
    if board:
        wires = Wires(gpu_link=board, joined=total, host_link=host, peer_to_peer=True)
    elif bridge and total >= _BRIDGED:
        wires = Wires(gpu_link=_bridge(gpu), joined=_BRIDGED, host_link=host, peer_to_peer=peers)
    else:
        wires = Wires(gpu_link=host, joined=total, host_link=host, peer_to_peer=peers)
    if total > 1:
        notes.append(link_note(kinds, wires))
    return wires


def takes_bridge(gpu: Gpu) -> bool:
    """Whether two of these cards can be joined by an NVLink bridge."""
    return gpu.cooler != "module" and gpu.nvlink_generation in _BRIDGES


def link_note(kinds: Sequence[tuple[Gpu, int]], wires: Wires) -> Assumption:
    """What is taken to join these GPUs, in the words of every answer."""
    name = "link of " + " + ".join(f"{count}x {gpu.name}" for gpu, count in kinds)
    if wires.gpu_link != wires.host_link:
        return assumed(name, wires.gpu_link.name, _ANOTHER, code="link")
    bare = len(kinds) == 1 and takes_bridge(kinds[0][0])
    how = "peer to peer" if wires.peer_to_peer else "through the host's memory: no peer access with the usual driver"
    value = f"{wires.gpu_link.name}{' and no NVLink bridge' if bare else ''}, {how}"
    return assumed(name, value, _BOUGHT_APART if bare else _ANOTHER, code="link")


def _on_board(gpu: Gpu) -> Link | None:
    """The NVLink of modules, which their board has."""
    if gpu.cooler != "module" or not gpu.nvlink_generation:
        return None
    return _at_rate_of(gpu, _DGX_2_LINK if gpu.name.startswith(_DGX_2) else _MODULES[gpu.nvlink_generation])


def _bridge(gpu: Gpu) -> Link:
    """Of two cards of this kind."""
    servers = _BRIDGE_OF_SERVERS if gpu.segment == "datacenter" and gpu.nvlink_bytes_per_s != 112.5e9 else {}
    generation = gpu.nvlink_generation or 0
    return _at_rate_of(gpu, servers.get(generation) or _BRIDGES[generation])


def _at_rate_of(gpu: Gpu, name: str) -> Link:
    """This link with as many lanes as the GPU has of it."""
    link = find_link(name)
    return replace(link, bytes_per_s_one_way=gpu.nvlink_bytes_per_s / 2) if gpu.nvlink_bytes_per_s else link


def _fabric(gpu: Gpu) -> Link | None:
    """The links of other makers, as the nodes we have facts of use them."""
    for node in nodes().values():
        if node.gpu == gpu.name and node.gpu_count > 1 and find_link(node.gpu_link).kind == "infinity-fabric":
            return find_link(node.gpu_link)
    return None


def _has_peers(gpu: Gpu) -> bool:
    """Whether cards reach each other's memory over PCIe with the usual driver."""
    if gpu.vendor == "NVIDIA":
        return gpu.segment in ("datacenter", "workstation") or gpu.architecture.generation not in _NO_PEERS
    return gpu.segment == "datacenter"


def _host_link(gpus: Sequence[Gpu], total: int) -> Link:
    """PCIe as the slowest card has it; two or three cards in a desktop share its lanes."""
    generation = min((gpu.pcie_generation or 3) for gpu in gpus)
    lanes = min((gpu.pcie_lanes or 16) for gpu in gpus)
    if all(gpu.segment == "desktop" for gpu in gpus) and 2 <= total <= 3:
        lanes = min(lanes, _DESKTOP_LANES // 2)
    known = [width for width in (1, 4, 8, 16) if width <= lanes]
    return find_link(f"PCIe {generation}.0 x{known[-1]}")


def network_of(text: str) -> tuple[Link, int]:
    """The network meant by `100Gbit`, `8x400Gbit` or `InfiniBand HDR`: an adapter, and how many a node has."""
    found = re.fullmatch(r"\s*(?:(\d{1,9})\s*[x×*]\s*)?(\S.*?)\s*", text)
    if found is None:
        raise BadValue("no network was named", hint="such as `100Gbit` or `8x400Gbit`")
    count, name = int(found[1] or 1), found[2]
    if not 1 <= count <= 64:
        raise BadValue(f"{count} adapters in a node", hint="between 1 and 64")
    try:
        link = find_link(name)
    except UnknownName:
        link = _by_rate(name)
    if link.kind not in ("ethernet", "infiniband"):
        raise BadValue(f"{link.name} joins GPUs of one machine, not machines", hint="such as `100Gbit` or `InfiniBand HDR`")
    return link, count


def has_rdma(link: Link) -> bool:
    """Whether adapters of this network read and write memory by themselves. Plain Ethernet below 200 Gbit is taken as TCP."""
    return not link.name.startswith("Ethernet") or link.bytes_per_s_one_way >= _RDMA_FROM_BYTES_PER_S


def _by_rate(text: str) -> Link:
    """A network known only by its rate: the nearest Ethernet at that rate."""
    rate = parse(text if re.search(r"(?i)(/s|ps)$", text) else f"{text}/s", "bandwidth")
    if not 0 < rate <= _MOST_BYTES_PER_S:
        raise BadValue(f"a network of '{text}' does not exist", hint="between 0.1 and 1600 Gbit, such as `--network 10Gbit`")
    known = [link for link in links().values() if link.name.startswith("Ethernet")]
    near = min(known, key=lambda link: abs(link.bytes_per_s_one_way / rate - 1.0) + (link.bytes_per_s_one_way > rate))
    return replace(near, name=f"Ethernet {rate * 8 / 1e9:g} Gbit", bytes_per_s_one_way=rate)


def usual_network(node: Node | None, gpu: Gpu, per_node: int, notes: list[Assumption]) -> tuple[Link, int]:
    """What joins nodes where nothing is said."""
    if node and node.network_link:
        link, count = find_link(node.network_link), node.network_count
    elif gpu.cooler == "module" and gpu.nvlink_generation:
        link, count = find_link(_MODULE_NETWORKS[gpu.nvlink_generation]), per_node if gpu.nvlink_generation > 2 else 4
    else:
        link, count = find_link(_SERVER_NETWORK if gpu.segment == "datacenter" else _DESKTOP_NETWORK), 1
    name = f"{count}x {link.name}" if count > 1 else link.name
    notes.append(assumed("network", name, "`gpuwise plan --network 25Gbit` tells another"))
    return link, count
