"""What a cluster is: which GPUs, how they are joined inside a node, and nodes among each other; and how people write one.

Facts about links are in `hardware/`; which links a machine is taken to have, where nothing is said, is decided in `wiring.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_link, find_node
from gpuwise.hardware.types import Gpu, Link, Node
from gpuwise.scale.cluster.wiring import Wires, has_rdma, most_in_a_node, network_of, usual_network, usual_wires, wires_of

__all__ = ["MOST_GPUS", "Cluster", "parse_cluster", "usual_cluster"]

MOST_GPUS = 131_072
_HINT = 'such as "8xH100 SXM", "2x8xH100 SXM" (nodes x GPUs), "2x RTX 3090 + 1x RTX 2080 Ti" or a node: "DGX A100"'
_PART = re.compile(r"\s*(?:(\d{1,9})\s*[x×*]\s*)?(?:(\d{1,9})\s*[x×*]\s*)?(\S.*?)\s*", re.IGNORECASE)


Kinds = tuple[tuple[Gpu, int], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cluster:
    """`node_count` equal nodes of `gpus_per_node` GPUs.

    `wires` join the GPUs of a node; `network` is one adapter of a node (None: nodes are not joined, there is only one) and
    `network_count` how many it has. `kinds` are the GPUs of a node, each with its number, where they differ; `gpu` is the first.
    """

    name: str
    gpu: Gpu
    gpus_per_node: int
    node_count: int = 1
    wires: Wires
    network: Link | None = None
    network_count: int = 0
    kinds: Kinds

    @property
    def gpu_count(self) -> int:
        return self.gpus_per_node * self.node_count

    @property
    def gpu_link(self) -> Link:
        """What joins the GPUs of a node."""
        return self.wires.gpu_link

    @property
    def is_mixed(self) -> bool:
        return len(self.kinds) > 1

    @property
    def network_bytes_per_s(self) -> float:
        """What all adapters of a node carry in one direction, as their makers print it."""
        return self.network.bytes_per_s_one_way * self.network_count if self.network else 0.0

    @property
    def gpu_direct(self) -> bool:
        """Whether adapters reach the GPUs' memory without the host's: RDMA, offered to server and workstation cards."""
        capable = all(gpu.segment in ("datacenter", "workstation") for gpu, _ in self.kinds)
        return self.network is not None and has_rdma(self.network) and capable

    def of_count(self, gpu_count: int) -> Cluster:
        """As many GPUs of this cluster, nodes filled one after the other. They must fill equal nodes."""
        if gpu_count <= self.gpus_per_node:
            return replace(self, gpus_per_node=gpu_count, node_count=1, kinds=_first(self.kinds, gpu_count))
        if gpu_count % self.gpus_per_node:
            raise BadValue(
                f"{gpu_count} GPUs do not fill nodes of {self.gpus_per_node}", hint=f"a multiple of {self.gpus_per_node}"
            )
        return replace(self, node_count=gpu_count // self.gpus_per_node)


def parse_cluster(text: str, network: str = "", link: str = "") -> tuple[Cluster, tuple[Assumption, ...]]:
    """The cluster meant by a text, and what was assumed of it.

    `network` is what joins nodes: `100Gbit`, `8x400Gbit`, `InfiniBand NDR`. `link` is what joins GPUs: `PCIe 3.0 x8`, `NVLink`,
    `Thunderbolt 3`, with `p2p`, `no p2p` or `shared by 2` after a comma.
    """
    node_count, node, kinds, notes = _read(text)
    if node is None:
        node_count, kinds = _in_machines(node_count, kinds, notes)
    per_node = sum(count for _, count in kinds)
    wires = wires_of(node) if node else usual_wires(kinds, [] if link else notes)
    if link:
        wires = _linked(link, wires, kinds)
    joined, adapters = None, 0
    if network:
        joined, adapters = network_of(network)
    elif node_count > 1:
        joined, adapters = usual_network(node, kinds[0][0], per_node, notes)
    cluster = Cluster(
        name=" ".join(text.split()),
        gpu=kinds[0][0],
        gpus_per_node=per_node,
        node_count=node_count,
        wires=wires,
        network=joined,
        network_count=adapters,
        kinds=kinds,
    )
    if cluster.gpu_count > MOST_GPUS:
        raise BadValue(f"{cluster.gpu_count:,} GPUs are more than gpuwise plans for", hint=f"up to {MOST_GPUS:,}")
    return cluster, tuple(notes)


def usual_cluster(gpu: Gpu, count: int, *, link: str = "", notes: list[Assumption] | None = None) -> Cluster:
    """So many GPUs of a kind in machines as they usually are; what does not fill whole machines is spread evenly. `link` is what
    joins GPUs, as in `parse_cluster`; what is assumed is added to `notes`."""
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
        wires=_linked(link, wires, kinds) if link else wires,
        network=network,
        network_count=adapters,
        kinds=kinds,
    )


def _read(text: str) -> tuple[int, Node | None, Kinds, list[Assumption]]:
    """Nodes, the kind of node if it has a name, and the GPUs in one."""
    notes: list[Assumption] = []
    named = _named_node(text)
    if named:
        count, node = named
        return count, node, ((_gpu(node.gpu, notes), node.gpu_count),), notes
    kinds: dict[str, tuple[Gpu, int]] = {}
    node_count = 1
    parts = text.split("+")
    for part in parts:
        found = _PART.fullmatch(part)
        if found is None:
            raise BadValue(f"'{text}' is no cluster", hint=_HINT)
        first, second, name = found.groups()
        nodes, count = (int(first), int(second)) if second else (1, int(first or 1))
        if min(nodes, count) < 1:
            raise BadValue(f"'{part.strip()}' has no GPUs", hint=_HINT)
        if nodes > 1 and len(parts) > 1:
            raise BadValue(f"'{text}' mixes GPUs over nodes", hint="different GPUs are planned for inside one machine only")
        node_count = nodes
        gpu = _gpu(name, notes)
        kinds[gpu.name] = (gpu, kinds.get(gpu.name, (gpu, 0))[1] + count)
    return node_count, None, tuple(kinds.values()), notes


def _named_node(text: str) -> tuple[int, Node] | None:
    """One or several nodes of a kind that has a name. Names such as `4x RTX 3090` are a number of GPUs instead."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*[x×*]\s*(.*?)\s*", text, re.IGNORECASE)
    for count, name in [(1, text)] + ([(int(found[1]), found[2])] if found else []):
        try:
            node = find_node(name)
        except UnknownName:
            continue
        if node.gpu and count > 0 and ("(" in node.name or not node.name[0].isdigit()):
            return count, node
    return None


def _in_machines(node_count: int, kinds: Kinds, notes: list[Assumption]) -> tuple[int, Kinds]:
    """As written; more modules than a board takes are spread over nodes."""
    total, gpu = sum(count for _, count in kinds), kinds[0][0]
    most = most_in_a_node(gpu)
    if total <= most:
        return node_count, kinds
    if node_count > 1 or len(kinds) > 1 or gpu.cooler != "module" or total % most:
        hint = f"at most {most}; with nodes it is written `{-(-total // 8)}x8x{gpu.name}`"
        raise BadValue(f"{total:,} GPUs do not fit one machine", hint=hint)
    notes.append(assumed("nodes", f"{total // most} of {most} GPUs", "a board takes no more; `2x8x...` says nodes and GPUs"))
    return total // most, ((gpu, most),)


def _gpu(name: str, notes: list[Assumption]) -> Gpu:
    try:
        match = load_catalog().find(name)
    except UnknownName as error:
        raise UnknownName(error.message, looked_in=error.looked_in, hint=f"{error.hint}. A cluster is written {_HINT}") from error
    if match.gpu.is_cpu:
        raise BadValue(f"'{name}' is a CPU", hint=_HINT)
    if match.others:
        notes.append(
            assumed(
                f"gpu '{name}'", match.gpu.name, "could also be " + ", ".join(one.name for one in match.others), code="gpu_name"
            )
        )
    return match.gpu


def _linked(text: str, wires: Wires, kinds: Kinds) -> Wires:
    """The wires as the user has them."""
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
            raise BadValue(f"'{flag}' says nothing about a link", hint="`p2p`, `no p2p` or `shared by 2`")
    return wires


def _first(kinds: Kinds, count: int) -> Kinds:
    """The first GPUs of a node."""
    taken = []
    for gpu, number in kinds:
        if count > 0:
            taken.append((gpu, min(number, count)))
        count -= number
    return tuple(taken)
