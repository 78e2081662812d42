"""Predicts how long collectives take, with ring, tree and in-switch algorithms within and across nodes; the fastest one is
used.

One algorithm on one kind of path takes

    start + hops x time of a hop + ramp + bytes over the link / achieved rate + own share / copy rate

The ramp is the cost of filling the pipeline of chunks; it grows with the message until chunks have their full size. Across
several nodes, the parts inside and between nodes run at the same time, so the longer one counts. Constants are fitted
(`data/collectives.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue
from gpuwise.hardware.types import Link
from gpuwise.scale.cluster.shape import Cluster, has_rdma
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Workload

__all__ = [
    "OPS",
    "Constants",
    "collective_s",
    "gradient_bytes",
    "load_constants",
    "load_scaling",
    "moved_fraction",
    "slowed_fraction",
    "waits_fraction",
    "weight_bytes",
]

Array = NDArray[np.float64]

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
_THROUGH_HOST = 0.67  # share of the GPUDirect rate if adapters only reach the host's memory: 0.64 against 0.96 (links.toml, HDR)
_TREE_FRACTION = 0.92  # share of a ring's rate: NCCL src/graph/tuning.cc
_KINDS = {"nvswitch": "nvswitch", "pcie": "pcie", "egpu": "pcie", "ethernet": "network", "infiniband": "network"}
_IN_SWITCH_FROM = 5  # NCCL uses rings on up to four GPUs: their measured rates show no in-switch reduction


def moved_fraction(op: str, ranks: Any) -> Array:
    """Return the bytes each GPU sends in a ring, relative to the buffer size. Bus bandwidth is this times size over time.

    >>> float(moved_fraction("all_reduce", 4))
    1.5
    """
    count = np.asarray(ranks, dtype=float)
    if op == "all_reduce":
        return np.asarray(2.0 * (count - 1.0) / count)
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return np.asarray((count - 1.0) / count)
    return np.where(count > 1.0, 1.0, 0.0)


def collective_s(
    op: str,
    size_bytes: Any,
    cluster: Cluster,
    inner: Any,
    outer: Any = 1,
    *,
    in_switch: bool = True,
    constants: Constants | None = None,
) -> Array:
    """Return the seconds of one collective in a group of `inner` GPUs on each of `outer` nodes; the three arguments broadcast.

    `size_bytes` is a GPU's whole buffer, as nccl-tests counts it: the data that is reduced, broadcast or sent; for all_gather,
    the gathered result; for reduce_scatter and all_to_all, the input. Other groups of the node's GPUs are assumed to do the same
    at the same time, so a group gets its proportional share of the node's network. `send_recv` goes to a neighbour in the node
    or, with `outer` above 1, in another one. Groups of one take no time. `in_switch` False rules out reduction in switches, as
    for types they cannot add (int8).
    """
    if op not in OPS:
        raise BadValue(f"unknown collective '{op}'", hint=", ".join(OPS))
    size, ranks_in, nodes = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (size_bytes, inner, outer)))
    if (
        np.any(ranks_in > cluster.gpus_per_node)
        or np.any(nodes > cluster.node_count)
        or np.any(ranks_in < 1)
        or np.any(nodes < 1)
    ):
        raise BadValue(
            f"a group of {int(ranks_in.max())} GPUs on each of {int(nodes.max())} nodes "
            f"does not fit into {cluster.node_count} nodes of {cluster.gpus_per_node} GPUs"
        )
    k = constants or load_constants()
    found = _ring(op, size, cluster, ranks_in, nodes, k)
    if op == "all_reduce":
        found = np.minimum(found, _tree(size, cluster, ranks_in, nodes, k))
        if in_switch:
            found = np.minimum(found, _switched(size, cluster, ranks_in, nodes, k))
    alone = (ranks_in * nodes <= 1.0) & (op != "send_recv")
    return np.where(alone | (size <= 0.0), 0.0, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """A path for bytes: the rate its link reaches and its maximum for one GPU (arrays over groups), the latency of a hop, and
    its fitted constants.
    """

    bytes_per_s: Array
    most_bytes_per_s: Array
    hop_s: float
    k: Mapping[str, Any]

    def latency_s(self, op: str, size: Array, hops: Array, ranks: Array) -> Array:
        """The time for hops and for filling the pipeline with chunks."""
        chunks = self.k["ramp_share"].get(op, 1.0) * size / (size + ranks * self.k["ramp_bytes"])
        return np.asarray(hops * self.hop_s + np.where(hops > 0, self.k["ramp_s"] + self.k["ramp_hop_s"] * hops, 0.0) * chunks)

    def stream_s(self, op: str, moved: Array, kept: Array, ranks: Array) -> Array:
        """The time to send bytes over the link, and to copy the GPU's own share from one buffer to the other."""
        counts = {int(count): share for count, share in self.k["by_count"].items()}
        share = np.interp(ranks, sorted(counts), [counts[count] for count in sorted(counts)]) if counts else 1.0
        copied = kept / (self.bytes_per_s * self.k["own"][op]) if op in self.k["own"] else 0.0
        return np.asarray(moved / np.minimum(self.bytes_per_s * self.k["rate"][op] * share, self.most_bytes_per_s) + copied)

    def start_s(self, op: str) -> float:
        return float(self.k["start_s"] * (self.k["pair_start"] if op in ("all_to_all", "send_recv") else 1.0))


def _ring(op: str, size: Array, cluster: Cluster, inner: Array, nodes: Array, k: Constants) -> Array:
    """Every chunk goes around all GPUs; in all_to_all and send_recv, it goes straight to its receiver."""
    ranks = inner * nodes
    if op == "send_recv":
        near, far = np.where(nodes > 1, 0.0, 1.0), np.where(nodes > 1, 1.0, 0.0)
    elif op == "all_to_all":
        near, far = np.log2(inner), np.log2(nodes)
    else:
        rounds = 2.0 if op == "all_reduce" else 1.0
        far = rounds * (nodes - 1.0)
        near = rounds * (ranks - 1.0) - far
    moved, kept = moved_fraction(op, ranks) * size, size / ranks
    if op == "send_recv":
        ranks, moved, kept = np.full_like(ranks, 2.0), size * near, np.zeros_like(size)
    sent = size * far if op == "send_recv" else moved
    if op == "all_to_all":
        # the network rate is for all GPUs of the group in a node, and each of them sends its own data
        moved, sent = size * (inner - 1.0) / ranks, inner * size * (ranks - inner) / ranks
    return _joined(op, size, cluster, inner, nodes, k, hops=(near, far), bytes_=(moved, sent, kept))


def _tree(size: Array, cluster: Cluster, inner: Array, nodes: Array, k: Constants) -> Array:
    """Chunks go up and down a chain of the node's GPUs and a double binary tree of nodes, with few hops between nodes but at a
    slightly lower rate.
    """
    hops = 2.0 * (inner - 1.0), 2.0 * np.ceil(np.log2(nodes))
    moved = moved_fraction("all_reduce", inner * nodes) * size / _TREE_FRACTION
    return _joined("all_reduce", size, cluster, inner, nodes, k, hops=hops, bytes_=(moved, moved, size / (inner * nodes)))


def _switched(size: Array, cluster: Cluster, inner: Array, nodes: Array, k: Constants) -> Array:
    """Switches add up the data that GPUs send and distribute the sum: each GPU sends its buffer once."""
    constants = _constants(cluster.wires.gpu_link, cluster, k)
    if not constants.get("in_switch"):
        return np.full(size.shape, np.inf)
    hops = np.full(size.shape, constants["in_switch_hops"]), 2.0 * np.ceil(np.log2(nodes))
    moved = size * constants["rate"]["all_reduce"] / constants["in_switch"]
    sent = moved_fraction("all_reduce", inner * nodes) * size
    found = _joined("all_reduce", size, cluster, inner, nodes, k, hops=hops, bytes_=(moved, sent, np.zeros_like(size)))
    return np.where(inner >= _IN_SWITCH_FROM, found, np.inf)


def _joined(
    op: str,
    size: Array,
    cluster: Cluster,
    inner: Array,
    nodes: Array,
    k: Constants,
    *,
    hops: tuple[Array, Array],
    bytes_: tuple[Array, Array, Array],
) -> Array:
    """Combine inside and between nodes: latencies add up, and the longer stream counts."""
    near, far = hops
    moved, sent, kept = bytes_
    ranks = inner * nodes
    ways = _over(cluster.wires.gpu_link, cluster, op, k), _over(cluster.wires.host_link, cluster, op, k, "pairs")
    crossing = inner > cluster.wires.joined  # a bridge connects two; a larger group uses the host's lanes
    beside = np.full_like(inner, 2.0) if op == "send_recv" else np.maximum(inner, 2.0)
    inside = [(path.start_s(op) + path.latency_s(op, size, near, ranks), path.stream_s(op, moved, kept, beside)) for path in ways]
    latency, stream = (np.where(crossing, of_around, of_direct) for of_direct, of_around in zip(*inside, strict=True))
    if not np.any(nodes > 1):
        return np.asarray(latency + stream)
    network = _between(cluster, inner, k)
    lonely = inner <= 1
    outside = network.start_s(op) + network.latency_s(op, size, far, ranks)
    sending = network.stream_s(op, sent, np.zeros_like(size), nodes)
    over_nodes = np.where(lonely, 0.0, latency) + outside + np.maximum(np.where(lonely, 0.0, stream), sending)
    return np.where(nodes > 1, over_nodes, latency + stream)


def _constants(link: Link, cluster: Cluster, k: Constants, kind: str = "") -> Mapping[str, Any]:
    """Return the constants for this link if it was measured, or else for its kind."""
    if link.kind in ("pcie", "egpu") and not cluster.wires.peer_to_peer:
        return cast("Mapping[str, Any]", k["paths"]["host"])
    usual = kind or _KINDS.get(link.kind, "nvlink")
    own: Mapping[str, Any] = {} if kind else k["links"].get(link.name, {})
    return {**k["paths"][usual], **own}


def _over(link: Link, cluster: Cluster, op: str, k: Constants, kind: str = "") -> _Path:
    """Return this link as a GPU sees it. GPUs that share lanes divide them if messages go to the host or to all others; a ring
    between neighbours uses shared lanes once.
    """
    constants, wires = _constants(link, cluster, k, kind), cluster.wires
    divided = link.kind in ("pcie", "egpu") and (not wires.peer_to_peer or op == "all_to_all")
    most = np.asarray(link.bytes_per_s_one_way / (wires.shared_by if divided else 1))
    reached = most * link.achieved_fraction
    return _Path(bytes_per_s=reached, most_bytes_per_s=most, hop_s=link.latency_s * constants["hop"], k=constants)


def _between(cluster: Cluster, inner: Array, k: Constants) -> _Path:
    """Return the network as a group of this many GPUs in a node sees it: no faster than their lanes to the host."""
    link = cluster.network
    if link is None:
        raise BadValue(f"the nodes of {cluster.name} have no network", hint="set one with `--network 10Gbit`")
    host = cluster.wires.host_link
    lanes = host.bytes_per_s_one_way * host.achieved_fraction / cluster.wires.shared_by
    adapters = link.bytes_per_s_one_way * link.achieved_fraction * cluster.network_count / cluster.gpus_per_node
    if has_rdma(link) and not cluster.gpu_direct:
        adapters *= _THROUGH_HOST
    rate = np.asarray(np.minimum(adapters, lanes) * inner)
    constants = _constants(link, cluster, k)
    return _Path(bytes_per_s=rate, most_bytes_per_s=rate, hop_s=link.latency_s * constants["hop"], k=constants)


# ---------------------------------------------------------------- fitted constants
# The fitted constants for collectives and for steps on several GPUs, with the data they were fitted to.
#
# `tools/fit_collectives.py` and `tools/fit_scaling.py` write them.

Constants = Mapping[str, Any]


@cache
def load_constants() -> Constants:
    """Return the shipped constants for collectives."""
    return _read("collectives.json")


@cache
def load_scaling() -> Constants:
    """Return the constants for steps on several GPUs: the cost of a doubling without messages, and how much messages slow
    compute down.
    """
    return _read("scaling.json")


def _read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((files("gpuwise.scale") / "data" / name).read_text(encoding="utf-8"))
    return loaded


# ---------------------------------------------------------------- what a step pays on several GPUs


def waits_fraction(gpu_count: int) -> float:
    """Return how much longer a step is on this many GPUs even if they exchange nothing: some are slower, and they share a
    host.
    """
    return float(load_scaling()["waits_per_doubling"] * np.log2(max(1, gpu_count)))


def slowed_fraction(setting: Setting) -> float:
    """Return how much slower compute is during messages, which occupy compute units, memory and a place in the queue."""
    known = load_scaling()["slowed_fraction"]
    return float(known.get(setting.stack.framework, known["torch"]))


def weight_bytes(workload: Workload) -> float:
    """Return the bytes of all weights that a rank stores, frozen and packed ones included."""
    return _bytes_of(workload, "weight")


def gradient_bytes(workload: Workload) -> float:
    """Return the bytes that several GPUs exchange in each step: a gradient for every trained parameter."""
    if "lora_rank" not in workload.options:
        return workload.parameters * (2.0 if workload.precision in ("fp16", "bf16") else 4.0)
    return _bytes_of(workload, "gradient")


def _bytes_of(workload: Workload, category: str) -> float:
    values = product_values(workload)[0]
    tensors = workload.buffers.tensor[workload.buffers.category == CATEGORIES.index(category)]
    counts: list[int] = np.bincount(tensors, minlength=len(workload.tensors)).tolist()
    specs = zip(workload.tensors, counts, strict=True)
    return sum(count * float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec, count in specs if count)
