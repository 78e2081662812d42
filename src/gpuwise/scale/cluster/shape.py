"""Describes a cluster: its GPUs, how they are connected inside a node, and how nodes are connected.

`hardware/` has the facts about links. This module decides which links a machine has if the user does not say, and states each
choice. Modules (SXM) are connected by NVLink switches or a mesh. Cards communicate over PCIe, either directly or through the
host's memory, as GeForce cards since Turing do with the stock driver. An NVLink bridge is sold separately, so it counts only if
the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.machines import find_link, nodes
from gpuwise.hardware.types import Gpu, Link, Node

__all__ = [
    "MOST_GPUS",
    "Cluster",
    "Kinds",
    "Wires",
    "has_rdma",
    "link_note",
    "linked",
    "most_in_a_node",
    "takes_bridge",
    "usual_cluster",
    "usual_network",
    "usual_wires",
    "wires_of",
]

# ---------------------------------------------------------------- links that the user did not specify

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
_BRIDGED = 2  # cards that one bridge connects
_MODULE_NETWORKS = {1: "InfiniBand EDR", 2: "InfiniBand EDR", 3: "InfiniBand HDR", 4: "InfiniBand NDR", 5: "InfiniBand NDR"}
_SERVER_NETWORK, _DESKTOP_NETWORK = "Ethernet 100 Gbit", "Ethernet 10 Gbit"
_NO_PEERS = ("turing", "ampere", "ada", "blackwell")  # GeForce without peer access over PCIe: source geforce-no-p2p
_DESKTOP_LANES = 16  # lanes that two or three cards share: source workstation-usual
_ANOTHER = "set another link in `predict` and `plan` with `--link`, such as 'PCIe 3.0 x8, p2p'"
_BOUGHT_APART = "bridges are sold separately; add one in `predict` and `plan` with `--link NVLink`"
_RDMA_FROM_BYTES_PER_S = 200e9 / 8  # slower Ethernet is sold with TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """How the GPUs of a node are connected.

    `gpu_link` connects groups of `joined` GPUs: all of a node behind a switch or on a PCIe tree, two by a bridge. Between such
    groups, messages take `host_link`, the path to the host. Without `peer_to_peer`, PCIe messages go through the host's memory.
    `shared_by` GPUs share the lanes of one host link.
    """

    gpu_link: Link
    joined: int
    host_link: Link
    peer_to_peer: bool
    shared_by: int = 1


def most_in_a_node(gpu: Gpu) -> int:
    """Return how many of these GPUs fit in one machine."""
    if gpu.cooler != "module" or gpu.name.startswith(_DGX_2):
        return 16
    return 72 if gpu.name.startswith("GB") else 8


def wires_of(node: Node) -> Wires:
    """Return the wires of a known kind of node."""
    link = find_link(node.gpu_link)
    joined = 2 if "bridge" in link.name and node.gpu_count > 2 else node.gpu_count
    return Wires(gpu_link=link, joined=joined, host_link=find_link(node.host_link), peer_to_peer=node.peer_to_peer)


def usual_wires(kinds: Sequence[tuple[Gpu, int]], notes: list[Assumption], bridge: bool = False) -> Wires:
    """Return the links between these GPUs in a typical machine. `bridge` adds NVLink bridges between pairs, however many there
    are.
    """
    gpu, total = kinds[0][0], sum(count for _, count in kinds)
    alike = len(kinds) == 1
    if bridge and not (alike and (takes_bridge(gpu) or _on_board(gpu))):
        raise BadValue(
            f"the {gpu.name} has no NVLink" if alike else "different cards cannot be connected by NVLink",
            hint="leave out `--link`",
        )
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
    """Return whether two of these cards can be connected by an NVLink bridge."""
    return gpu.cooler != "module" and gpu.nvlink_generation in _BRIDGES


def link_note(kinds: Sequence[tuple[Gpu, int]], wires: Wires) -> Assumption:
    """Return the assumption about the links between these GPUs, in the words used by every answer."""
    name = "link of " + " + ".join(f"{count}x {gpu.name}" for gpu, count in kinds)
    if wires.gpu_link != wires.host_link:
        return assumed(name, wires.gpu_link.name, _ANOTHER, code="link")
    bare = len(kinds) == 1 and takes_bridge(kinds[0][0])
    how = "peer to peer" if wires.peer_to_peer else "through host memory"
    value = f"{wires.gpu_link.name} {how}{', without an NVLink bridge' if bare else ''}"
    why = "" if wires.peer_to_peer else "the standard driver does not support peer access; "
    return assumed(name, value, why + (_BOUGHT_APART if bare else _ANOTHER), code="link")


def _on_board(gpu: Gpu) -> Link | None:
    """Return the NVLink of modules, which is on their board."""
    if gpu.cooler != "module" or not gpu.nvlink_generation:
        return None
    return _at_rate_of(gpu, _DGX_2_LINK if gpu.name.startswith(_DGX_2) else _MODULES[gpu.nvlink_generation])


def _bridge(gpu: Gpu) -> Link:
    """Return the bridge for two cards of this kind."""
    servers = _BRIDGE_OF_SERVERS if gpu.segment == "datacenter" and gpu.nvlink_bytes_per_s != 112.5e9 else {}
    generation = gpu.nvlink_generation or 0
    return _at_rate_of(gpu, servers.get(generation) or _BRIDGES[generation])


def _at_rate_of(gpu: Gpu, name: str) -> Link:
    """Return this link with as many lanes as the GPU has."""
    link = find_link(name)
    return replace(link, bytes_per_s_one_way=gpu.nvlink_bytes_per_s / 2) if gpu.nvlink_bytes_per_s else link


def _fabric(gpu: Gpu) -> Link | None:
    """Return other makers' links, as used in the nodes we have facts about."""
    for node in nodes().values():
        if node.gpu == gpu.name and node.gpu_count > 1 and find_link(node.gpu_link).kind == "infinity-fabric":
            return find_link(node.gpu_link)
    return None


def _has_peers(gpu: Gpu) -> bool:
    """Return whether cards can access each other's memory over PCIe with the standard driver."""
    if gpu.vendor == "NVIDIA":
        return gpu.segment in ("datacenter", "workstation") or gpu.architecture.generation not in _NO_PEERS
    return gpu.segment == "datacenter"


def _host_link(gpus: Sequence[Gpu], total: int) -> Link:
    """Return PCIe at the rate of the slowest card; two or three cards in a desktop share its lanes."""
    generation = min((gpu.pcie_generation or 3) for gpu in gpus)
    lanes = min((gpu.pcie_lanes or 16) for gpu in gpus)
    if all(gpu.segment == "desktop" for gpu in gpus) and 2 <= total <= 3:
        lanes = min(lanes, _DESKTOP_LANES // 2)
    known = [width for width in (1, 4, 8, 16) if width <= lanes]
    return find_link(f"PCIe {generation}.0 x{known[-1]}")


def has_rdma(link: Link) -> bool:
    """Return whether this network's adapters access memory directly. Plain Ethernet below 200 Gbit is assumed to use TCP."""
    return not link.name.startswith("Ethernet") or link.bytes_per_s_one_way >= _RDMA_FROM_BYTES_PER_S


def usual_network(node: Node | None, gpu: Gpu, per_node: int, notes: list[Assumption]) -> tuple[Link, int]:
    """Return the default network between nodes."""
    if node and node.network_link:
        link, count = find_link(node.network_link), node.network_count
    elif gpu.cooler == "module" and gpu.nvlink_generation:
        link, count = find_link(_MODULE_NETWORKS[gpu.nvlink_generation]), per_node if gpu.nvlink_generation > 2 else 4
    else:
        link, count = find_link(_SERVER_NETWORK if gpu.segment == "datacenter" else _DESKTOP_NETWORK), 1
    name = f"{count}x {link.name}" if count > 1 else link.name
    notes.append(assumed("network", name, "set another network with `gpuwise plan --network 25Gbit`"))
    return link, count


# ---------------------------------------------------------------- clusters

MOST_GPUS = 131_072
Kinds = tuple[tuple[Gpu, int], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cluster:
    """`node_count` equal nodes of `gpus_per_node` GPUs.

    `wires` connect the GPUs of a node; `network` is one adapter of a node (None: there is only one node) and `network_count` the
    number of adapters. `kinds` are the GPUs of a node, each with its number, if they differ; `gpu` is the first. If the machines
    of a cluster have different GPUs, `kinds` are those of all machines, and a node is one of equal machines or else one GPU.
    `alike` are the parts of a mixed cluster that have one kind of GPU each and can work alone.
    """

    name: str
    gpu: Gpu
    gpus_per_node: int
    node_count: int = 1
    wires: Wires
    network: Link | None = None
    network_count: int = 0
    kinds: Kinds
    alike: tuple[Cluster, ...] = ()

    @property
    def gpu_count(self) -> int:
        return self.gpus_per_node * self.node_count

    @property
    def gpu_link(self) -> Link:
        """The link between the GPUs of a node."""
        return self.wires.gpu_link

    @property
    def is_mixed(self) -> bool:
        return len(self.kinds) > 1

    @property
    def network_bytes_per_s(self) -> float:
        """The rated speed of all adapters of a node in one direction."""
        return self.network.bytes_per_s_one_way * self.network_count if self.network else 0.0

    @property
    def gpu_direct(self) -> bool:
        """Whether adapters access GPU memory without going through the host's: RDMA, available for server and workstation
        cards.
        """
        capable = all(gpu.segment in ("datacenter", "workstation") for gpu, _ in self.kinds)
        return self.network is not None and has_rdma(self.network) and capable

    def of_count(self, gpu_count: int) -> Cluster:
        """Return this many GPUs of this cluster, filling one node after another. They must fill equal nodes."""
        if gpu_count <= self.gpus_per_node:
            return replace(self, gpus_per_node=gpu_count, node_count=1, kinds=_first(self.kinds, gpu_count))
        if gpu_count % self.gpus_per_node:
            raise BadValue(
                f"{gpu_count} GPUs cannot be divided into nodes of {self.gpus_per_node}",
                hint=f"use a multiple of {self.gpus_per_node}",
            )
        return replace(self, node_count=gpu_count // self.gpus_per_node)


def usual_cluster(gpu: Gpu, count: int, *, link: str = "", notes: list[Assumption] | None = None) -> Cluster:
    """Return this many GPUs of a kind in typical machines, spread evenly if they do not fill whole machines. `link` connects
    GPUs, as in `parse_cluster`; assumptions are added to `notes`.
    """
    nodes = -(-count // most_in_a_node(gpu))
    per_node = -(-count // nodes)
    kinds = ((gpu, per_node),)
    notes = [] if notes is None else notes
    wires = usual_wires(kinds, [] if link else notes)
    network, adapters = usual_network(None, gpu, per_node, notes) if nodes > 1 else (None, 0)
    return Cluster(
        name=f"{count}x {gpu.name}",
        gpu=gpu,
        gpus_per_node=per_node,
        node_count=nodes,
        wires=linked(link, wires, kinds) if link else wires,
        network=network,
        network_count=adapters,
        kinds=kinds,
    )


def linked(text: str, wires: Wires, kinds: Kinds) -> Wires:
    """Return the wires as the user specified them."""
    first, *flags = [part.strip() for part in text.split(",")]
    total = sum(count for _, count in kinds)
    if first.lower() in ("nvlink", "nvlink bridge"):
        wires = usual_wires(kinds, [], bridge=True)
    else:
        link = find_link(first)
        switched = link.kind in ("nvswitch", "infinity-fabric")
        bridged = link.kind == "nvlink"
        wires = replace(
            wires,
            gpu_link=link,
            joined=min(2, total) if bridged and "bridge" in link.name else total,
            host_link=wires.host_link if switched or bridged else link,
        )
    for flag in flags:
        shared = re.fullmatch(r"shared by (\d{1,9})", flag.lower())
        if shared:
            wires = replace(wires, shared_by=max(1, min(total, int(shared[1]))))
        elif flag.lower() in ("p2p", "no p2p"):
            wires = replace(wires, peer_to_peer=flag.lower() == "p2p")
        else:
            raise BadValue(f"unknown link property '{flag}'", hint="use `p2p`, `no p2p` or `shared by 2`")
    return wires


def _first(kinds: Kinds, count: int) -> Kinds:
    """Return the first GPUs of a node."""
    taken = []
    for gpu, number in kinds:
        if count > 0:
            taken.append((gpu, min(number, count)))
        count -= number
    return tuple(taken)
