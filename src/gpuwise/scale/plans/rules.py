"""Decides which meshes are possible for a model on a cluster, and why others are not: heads that do not divide evenly, too few
layers, no experts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.types import Mesh
from gpuwise.scale.split.share import has_experts
from gpuwise.scale.split.tensor import tensor_split
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.transform.parts import Parts

__all__ = ["AXES", "Limits", "divisors", "expert_count", "meshes", "micro_count", "whynot"]

AXES = ("data", "tensor", "pipeline", "sequence", "expert", "chunks")
_MOSTLY = 0.5  # share of the weights that must be in matrices divided by tensor parallelism
_SHORTEST = 512  # tokens that a rank of a divided sequence must keep
_MOST_TENSOR = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The values that the user fixed, by axis or setting; everything else is free."""

    fixed: dict[str, Any] = field(default_factory=dict)

    def allows(self, name: str, value: Any) -> bool:
        return name not in self.fixed or self.fixed[name] == value


def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors, smallest first.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [step for step in range(1, int(number**0.5) + 1) if number % step == 0]
    return tuple(sorted({*low, *(number // step for step in low)}))


def whynot(parts: Parts, cluster: Cluster, axis: str, degree: int) -> str:
    """Return why a model on a cluster cannot be divided this many times along an axis, or an empty string if it can."""
    if degree == 1:
        return ""
    return _RULES[axis](parts, cluster, degree)


def _no_tensor(parts: Parts, cluster: Cluster, degree: int) -> str:
    split = tensor_split(parts.workload)
    if split.divided < _MOSTLY:
        kinds = Counter(parts.workload.ops[op].kind for op in parts.workload.calls.op.tolist())
        layers = "convolutions" if kinds["conv"] else "recurrent layers" if kinds["rnn"] else "other layers"
        return f"tensor {degree}: most weights are in {layers}, which frameworks do not split across GPUs"
    values = product_values(parts.workload)[0]
    for row, what in sorted(split.widths, key=lambda width: width[1] == "columns"):
        width = round(float(values[row]))
        if width % degree:
            return f"tensor {degree}: {width} {what} cannot be divided evenly by {degree}"
    per_node = cluster.gpus_per_node
    if per_node % degree and degree % per_node:
        return f"tensor {degree}: groups of {degree} do not evenly fill nodes of {per_node} GPUs"
    return "" if degree <= _MOST_TENSOR else f"tensor {degree}: a layer is split across at most {_MOST_TENSOR} ranks"


def _no_pipeline(parts: Parts, cluster: Cluster, degree: int) -> str:
    layers = len(parts.kinds)
    if not layers:
        return f"pipeline {degree}: the model has no repeated blocks to assign to stages"
    return f"pipeline {degree}: {layers} blocks are too few for {degree} stages" if degree > layers else ""


def _no_sequence(parts: Parts, cluster: Cluster, degree: int) -> str:
    workload = parts.workload
    if "seq" not in workload.symbols or not any(op.kind == "attention" for op in workload.ops):
        return f"sequence {degree}: the model has no attention over a sequence, or its sequence length is fixed"
    length = workload.seq or 0
    if length % degree or length // degree < _SHORTEST:
        return f"sequence {degree}: with {length} tokens, each of {degree} ranks would get fewer than {_SHORTEST}"
    return ""


def _no_expert(parts: Parts, cluster: Cluster, degree: int) -> str:
    if not has_experts(parts.workload):
        return f"expert {degree}: the model has no experts"
    count = expert_count(parts)
    return f"expert {degree}: {count} experts cannot be divided evenly by {degree}" if count % degree else ""


def expert_count(parts: Parts) -> int:
    """Return how many experts a layer has."""
    grouped = [op for op in parts.workload.ops if op.attrs.get("groups") == "experts"]
    values = product_values(parts.workload)[0]
    return max((round(float(values[op.sizes[0]])) for op in grouped), default=1)


def _no_chunks(parts: Parts, cluster: Cluster, degree: int) -> str:
    layers = len(parts.kinds)
    return f"chunks {degree}: {layers} blocks cannot form {degree} equal chunks per stage" if layers % degree else ""


_RULES = {
    "data": lambda parts, cluster, degree: "",
    "tensor": _no_tensor,
    "pipeline": _no_pipeline,
    "sequence": _no_sequence,
    "expert": _no_expert,
    "chunks": _no_chunks,
}


def meshes(parts: Parts, cluster: Cluster, batch: int, limits: Limits, rejected: Counter[str]) -> list[Mesh]:
    """Return all meshes that use every GPU of the cluster; reasons against others are counted."""
    count = cluster.gpu_count
    allowed = partial(_allowed, parts, cluster, limits, rejected)
    found = []
    experts = [degree for degree in divisors(expert_count(parts)) if allowed("expert", degree)]
    for tensor in (degree for degree in divisors(count) if allowed("tensor", degree)):
        for pipeline in (degree for degree in divisors(count // tensor) if allowed("pipeline", degree)):
            for sequence in (degree for degree in divisors(count // tensor // pipeline) if allowed("sequence", degree)):
                data = count // tensor // pipeline // sequence
                if not limits.allows("data", data):
                    continue
                if batch % data and (data < count or batch < data):
                    rejected[f"data {data}: a batch of {batch:,} cannot be divided evenly by {data}"] += 1
                    continue
                for expert in experts:
                    if data * sequence % expert or (expert > 1 and batch % data):
                        continue
                    for chunks in _chunks(parts, pipeline, limits):
                        found.append(
                            Mesh(
                                data=data,
                                tensor=tensor,
                                pipeline=pipeline,
                                sequence=sequence,
                                expert=expert,
                                chunks=chunks,
                                tokens=True,
                            )
                        )
    return found


def micro_count(mesh: Mesh, batch: int, size: int) -> int:
    """Return how many micro-batches of this size a rank needs for its part of the batch, or 0 if they do not divide it. If
    only samples are divided, some may be one sample smaller.

    >>> micro_count(Mesh(data=3), 512, 57)
    3
    """
    count = -(-batch // (mesh.data * size))
    if batch == count * mesh.data * size:
        return count
    alone = mesh.ranks == mesh.data and mesh.expert == 1 and batch >= mesh.data
    return count if alone and size == -(-batch // (mesh.data * count)) else 0


def _allowed(parts: Parts, cluster: Cluster, limits: Limits, rejected: Counter[str], axis: str, degree: int) -> bool:
    if not limits.allows(axis, degree):
        return False
    reason = whynot(parts, cluster, axis, degree)
    if reason:
        rejected[reason] += 1
    return not reason


def _chunks(parts: Parts, pipeline: int, limits: Limits) -> list[int]:
    """Return the numbers of chunks to try: one, and the numbers that divide the blocks of a stage evenly (two, four, and all of
    them).
    """
    if pipeline == 1:
        return [1] if limits.allows("chunks", 1) else []
    each = len(parts.kinds) // pipeline if len(parts.kinds) % pipeline == 0 else 1
    usual = {1, *(count for count in (2, 4, each) if each % count == 0)}
    wanted = {limits.fixed["chunks"]} if "chunks" in limits.fixed else usual
    return sorted(count for count in wanted if each % count == 0)
