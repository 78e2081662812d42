"""How people write a cluster, its network and its links: from a text to a `Cluster`, and what was assumed of it."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import parse
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_link, find_node, links
from gpuwise.hardware.types import Gpu, Link, Node
from gpuwise.scale.cluster.shape import MOST_GPUS, Cluster, Kinds, linked, most_in_a_node, usual_network, usual_wires, wires_of

__all__ = ["network_of", "parse_cluster"]

_HINT = 'write a cluster as "8xH100 SXM", "2x8xH100 SXM" (nodes x GPUs), "2x RTX 3090 + 1x RTX 2080 Ti" or a node: "DGX A100"'
_PART = re.compile(r"\s*(?:(\d{1,9})\s*[x×*]\s*)?(?:(\d{1,9})\s*[x×*]\s*)?(\S.*?)\s*", re.IGNORECASE)
_MOST_BYTES_PER_S = 1600e9 / 8


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
        wires = linked(link, wires, kinds)
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
        raise BadValue(f"{cluster.gpu_count:,} GPUs are more than gpuwise can plan for", hint=f"use at most {MOST_GPUS:,}")
    return cluster, tuple(notes)


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
            raise BadValue(f"invalid cluster '{text}'", hint=_HINT)
        first, second, name = found.groups()
        nodes, count = (int(first), int(second)) if second else (1, int(first or 1))
        if min(nodes, count) < 1:
            raise BadValue(f"'{part.strip()}' has no GPUs", hint=_HINT)
        if nodes > 1 and len(parts) > 1:
            raise BadValue(f"'{text}' mixes different GPUs across nodes", hint="combine different GPUs only inside one machine")
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
        hint = f"use at most {most}, or several nodes: `{-(-total // 8)}x8x{gpu.name}`"
        raise BadValue(f"{total:,} GPUs do not fit in one machine", hint=hint)
    notes.append(
        assumed("nodes", f"{total // most} of {most} GPUs", "the most that fit on one board; set nodes and GPUs with `2x8x...`")
    )
    return total // most, ((gpu, most),)


def _gpu(name: str, notes: list[Assumption]) -> Gpu:
    try:
        match = load_catalog().find(name)
    except UnknownName as error:
        raise UnknownName(
            error.message,
            looked_in=error.looked_in,
            known=error.known,
            hint=f"{error.hint}{'' if error.hint.endswith('?') else '.'} {_HINT[:1].upper()}{_HINT[1:]}",
        ) from error
    if match.gpu.is_cpu:
        raise BadValue(f"'{name}' is a CPU, not a GPU", hint=_HINT)
    if match.others:
        notes.append(
            assumed(
                f"gpu '{name}'",
                match.gpu.name,
                "it could also be " + ", ".join(one.name for one in match.others),
                code="gpu_name",
            )
        )
    return match.gpu


def network_of(text: str) -> tuple[Link, int]:
    """The network meant by `100Gbit`, `8x400Gbit` or `InfiniBand HDR`: an adapter, and how many a node has."""
    found = re.fullmatch(r"\s*(?:(\d{1,9})\s*[x×*]\s*)?(\S.*?)\s*", text)
    if found is None:
        raise BadValue("no network was given", hint="try `100Gbit` or `8x400Gbit`")
    count, name = int(found[1] or 1), found[2]
    if not 1 <= count <= 64:
        raise BadValue(f"invalid number of adapters per node: {count}", hint="use a number between 1 and 64")
    try:
        link = find_link(name)
    except UnknownName:
        link = _by_rate(name)
    if link.kind not in ("ethernet", "infiniband"):
        raise BadValue(
            f"{link.name} connects GPUs inside one machine, not separate machines",
            hint="try `100Gbit` or `InfiniBand HDR`",
        )
    return link, count


def _by_rate(text: str) -> Link:
    """A network known only by its rate: the nearest Ethernet at that rate."""
    rate = parse(text if re.search(r"(?i)(/s|ps)$", text) else f"{text}/s", "bandwidth")
    if not 0 < rate <= _MOST_BYTES_PER_S:
        raise BadValue(
            f"the network rate '{text}' is out of range", hint="use a rate between 0.1 and 1600 Gbit, such as `--network 10Gbit`"
        )
    known = [link for link in links().values() if link.name.startswith("Ethernet")]
    near = min(known, key=lambda link: abs(link.bytes_per_s_one_way / rate - 1.0) + (link.bytes_per_s_one_way > rate))
    return replace(near, name=f"Ethernet {rate * 8 / 1e9:g} Gbit", bytes_per_s_one_way=rate)
