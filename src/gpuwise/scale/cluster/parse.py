"""Parses clusters, networks and links as people write them into a `Cluster`, and lists what was assumed."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either
from gpuwise.core.units import parse
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_link, find_node, links
from gpuwise.hardware.types import Gpu, Link, Node
from gpuwise.scale.cluster.shape import MOST_GPUS, Cluster, Kinds, linked, most_in_a_node, usual_network, usual_wires, wires_of

__all__ = ["network_of", "parse_cluster"]

_HINT = 'write a cluster as "8xH100 SXM", "2x8xH100 SXM" (nodes x GPUs), "2x RTX 3090 + 1x RTX 2080 Ti" or a node: "DGX A100"'
_PART = re.compile(r"\s*(?:(\d{1,9})\s*[x×*]\s*)?(?:(\d{1,9})\s*[x×*]\s*)?(\S.*?)\s*", re.IGNORECASE)
_SUM = re.compile(r"\+|,|&|\band\b", re.IGNORECASE)  # what people write between different cards
_MOST_BYTES_PER_S = 1600e9 / 8


def parse_cluster(text: str, network: str = "", link: str = "") -> tuple[Cluster, tuple[Assumption, ...]]:
    """Parse a cluster from text, and return what was assumed about it.

    `network` connects nodes: `100Gbit`, `8x400Gbit`, `InfiniBand NDR`. `link` connects GPUs: `PCIe 3.0 x8`, `NVLink`,
    `Thunderbolt 3`, with `p2p`, `no p2p` or `shared by 2` after a comma.
    """
    node_count, node, terms, notes = _read(text)
    joined = network_of(network) if network else None
    apart = joined is not None and len(terms) > 1
    cluster = _of_machines(terms, link, notes) if apart else _of_nodes(node_count, node, terms, link, notes)
    if joined is None and cluster.node_count > 1:
        joined = usual_network(node, cluster.gpu, cluster.gpus_per_node, notes)
    elif joined and cluster.node_count == 1:
        notes.append(_unused(network, cluster))
        joined = None
    adapter, count = joined or (None, 0)
    cluster = replace(cluster, name=" ".join(text.split()), network=adapter, network_count=count)
    if cluster.gpu_count > MOST_GPUS:
        raise BadValue(f"{cluster.gpu_count:,} GPUs are more than gpuwise can plan for", hint=f"use at most {MOST_GPUS:,}")
    return cluster, tuple(notes)


def _of_nodes(node_count: int, node: Node | None, terms: Kinds, link: str, notes: list[Assumption]) -> Cluster:
    """Equal nodes, each with all of these GPUs."""
    kinds = _merged(terms)
    if node is None:
        node_count, kinds = _in_machines(node_count, kinds, notes)
    wires = wires_of(node) if node else usual_wires(kinds, [] if link else notes)
    return Cluster(
        name="",
        gpu=kinds[0][0],
        gpus_per_node=sum(count for _, count in kinds),
        node_count=node_count,
        wires=linked(link, wires, kinds) if link else wires,
        kinds=kinds,
        alike=tuple(_machine(kind, link) for kind in kinds) if len(kinds) > 1 else (),
    )


def _of_machines(terms: Kinds, link: str, notes: list[Assumption]) -> Cluster:
    """A network connects these GPUs, so each term of the sum is a machine. If machines differ in size, every GPU counts as one
    node: a ring over unequal machines is as slow as its network, as if the network connected all GPUs.
    """
    machines = [_machine(term, link) for term in terms]
    sizes = {machine.gpus_per_node for machine in machines}
    per_node = sizes.pop() if len(sizes) == 1 else 1
    total, kinds = sum(machine.gpu_count for machine in machines), _merged(terms)
    told = (
        "each term of the sum is one machine, because `--network` connects machines; leave out `--network` if all GPUs are in one"
    )
    notes.append(assumed("machines", str(len(machines)), told))
    slowest = min((machine.wires for machine in machines), key=lambda wires: wires.gpu_link.bytes_per_s_one_way)
    return Cluster(
        name="",
        gpu=kinds[0][0],
        gpus_per_node=per_node,
        node_count=total // per_node,
        wires=slowest,
        kinds=kinds if len(kinds) > 1 else ((kinds[0][0], per_node),),
        alike=tuple(machines) if len(kinds) > 1 else (),
    )


def _machine(term: tuple[Gpu, int], link: str) -> Cluster:
    """A machine with one kind of GPU, as part of a larger cluster."""
    gpu, count = term
    if count > most_in_a_node(gpu):
        raise BadValue(f"{count:,} GPUs do not fit in one machine", hint=f"use at most {most_in_a_node(gpu)} in each machine")
    wires = usual_wires((term,), [])
    return Cluster(
        name=f"{count}x {gpu.name}",
        gpu=gpu,
        gpus_per_node=count,
        wires=linked(link, wires, (term,)) if link and count > 1 else wires,
        kinds=(term,),
    )


def _merged(terms: Kinds) -> Kinds:
    """Return each kind of GPU once, with its number."""
    found: dict[str, tuple[Gpu, int]] = {}
    for gpu, count in terms:
        found[gpu.name] = (gpu, found.get(gpu.name, (gpu, 0))[1] + count)
    return tuple(found.values())


def _unused(network: str, cluster: Cluster) -> Assumption:
    """Note that the network connects nothing."""
    ((gpu, count),) = cluster.kinds
    return assumed(
        "network",
        f"{network} has no effect",
        f"all GPUs are in one machine; write several machines as nodes x GPUs, such as `2x{count}x{gpu.name}`",
        code="network_unused",
    )


def _read(text: str) -> tuple[int, Node | None, Kinds, list[Assumption]]:
    """Return the number of nodes, the kind of node if it has a name, and the GPUs in one, term by term."""
    notes: list[Assumption] = []
    named = _named_node(text)
    if named:
        count, node = named
        return count, node, ((_gpu(node.gpu, notes), node.gpu_count),), notes
    terms: list[tuple[Gpu, int]] = []
    node_count = 1
    parts = text.split("+") if "=" in text else _SUM.split(text)  # a GPU's specs also contain commas
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
        terms.append((_gpu(name, notes), count))
    return node_count, None, tuple(terms), notes


def _named_node(text: str) -> tuple[int, Node] | None:
    """Return one or several nodes of a named kind. Names such as `4x RTX 3090` mean a number of GPUs instead."""
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
    """Return the machines as written; modules that do not fit on one board are spread over several nodes."""
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
                "it could also be " + either(one.name for one in match.others),
                code="gpu_name",
            )
        )
    return match.gpu


def network_of(text: str) -> tuple[Link, int]:
    """Return the network for `100Gbit`, `8x400Gbit` or `InfiniBand HDR`: an adapter, and the number per node."""
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
    """Return a network known only by its rate: the nearest Ethernet at that rate."""
    rate = parse(text if re.search(r"(?i)(/s|ps)$", text) else f"{text}/s", "bandwidth")
    if not 0 < rate <= _MOST_BYTES_PER_S:
        raise BadValue(
            f"the network rate '{text}' is out of range", hint="use a rate between 0.1 and 1600 Gbit, such as `--network 10Gbit`"
        )
    known = [link for link in links().values() if link.name.startswith("Ethernet")]
    near = min(known, key=lambda link: abs(link.bytes_per_s_one_way / rate - 1.0) + (link.bytes_per_s_one_way > rate))
    return replace(near, name=f"Ethernet {rate * 8 / 1e9:g} Gbit", bytes_per_s_one_way=rate)
