"""Recipes for a plan: the settings for the frameworks that can run it.

Settings are named as in the frameworks' documentation: PyTorch (`torchrun`, DDP, FSDP2, pipelining), DeepSpeed's `config.json`,
Megatron-LM's arguments, torchtitan's TOML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.types import Plan
from gpuwise.workload.transform.parts import Parts

__all__ = ["Recipe", "recipes", "shared_recipe"]

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Lines to write for one framework."""

    framework: str
    lines: tuple[str, ...]


def recipes(plan: Plan, cluster: Cluster, parts: Parts) -> tuple[Recipe, ...]:
    """Return a recipe for each framework that can run this plan, simplest first."""
    makers: list[Callable[[Plan, Cluster, Parts], Recipe | None]] = [
        _plain,
        _ddp,
        _fsdp,
        _deepspeed,
        _native,
        _torchtitan,
        _megatron,
    ]
    if parts.workload.options.get("lora_rank"):
        return tuple(_with_peft(recipe) for make in makers[:4] if (recipe := make(plan, cluster, parts)) is not None)
    return tuple(recipe for make in makers if (recipe := make(plan, cluster, parts)) is not None)


def _with_peft(recipe: Recipe) -> Recipe:
    """The same with adapters, which PEFT adds before the model is wrapped."""
    return replace(recipe, lines=("model = peft.get_peft_model(model, peft.LoraConfig(...))", *recipe.lines))


def _only_data(plan: Plan) -> bool:
    mesh = plan.mesh
    return mesh.tensor == mesh.pipeline == mesh.sequence == mesh.expert == 1


def _launch(cluster: Cluster) -> str:
    nodes = f"--nnodes {cluster.node_count} " if cluster.node_count > 1 else ""
    return f"torchrun {nodes}--nproc-per-node {cluster.gpus_per_node} train.py"


def _batches(plan: Plan) -> str:
    step = f"a micro-batch of {plan.micro_batch} per GPU"
    step += "" if plan.micro_count == 1 else f", {plan.micro_count} micro-batches accumulated per step"
    number = plan.micro_count * plan.mesh.data
    return f"{step}; {plan.short} of {number} have one sample fewer, so weight the losses by sample count" if plan.short else step


def _checkpointed(plan: Plan) -> tuple[str, ...]:
    if plan.recompute == "none":
        return ()
    policy = "" if plan.recompute == "full" else ", context_fn=create_selective_checkpoint_contexts(save matmul and attention)"
    return (f"torch.utils.checkpoint on every block, use_reentrant=False{policy}",)


def _plain(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    if plan.mesh.ranks > 1 or plan.offload:
        return None
    return Recipe(framework="PyTorch", lines=("python train.py", _batches(plan), *_checkpointed(plan)))


def _ddp(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    if not _only_data(plan) or plan.zero_stage > 1 or plan.offload or plan.mesh.ranks == 1:
        return None
    lines = [_launch(cluster), "model = DistributedDataParallel(model, gradient_as_bucket_view=True)", _batches(plan)]
    lines += ["with model.no_sync(): for all but the last micro-batch"] if plan.micro_count > 1 else []
    if plan.zero_stage == 1:
        lines.append("optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=...)")
    return Recipe(framework="PyTorch DDP", lines=(*lines, *_checkpointed(plan)))


def shared_recipe(cluster: Cluster, shares: Sequence[tuple[str, int]], micro_counts: Sequence[int], batch: int) -> Recipe:
    """The recipe for different cards with different numbers of samples, whose gradients DistributedDataParallel would average
    with equal weights.
    """
    pairs = zip(shares, micro_counts, strict=True)
    each = [f"{count} on each {name}" + (f" in {parts} micro-batches" if parts > 1 else "") for (name, count), parts in pairs]
    lines = (
        _launch(cluster),
        "model = DistributedDataParallel(model, gradient_as_bucket_view=True)",
        f"samples per step: {', '.join(each)}",
        f"loss = loss * samples_of_this_rank * {cluster.gpu_count} / {batch}  # ranks count equally in the average",
    )
    return Recipe(framework="PyTorch DDP", lines=lines)


def _fsdp(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    if not _only_data(plan) or plan.zero_stage < 2 or plan.mesh.ranks == 1:
        return None
    after = "True" if plan.zero_stage == 3 else "False"
    offload = ", offload_policy=CPUOffloadPolicy()" if plan.offload else ""
    options = f"reshard_after_forward={after}{offload}"
    over = f"for block in {parts.blocks[0].rpartition('.')[0]}: " if parts.blocks and "." in parts.blocks[0] else ""
    lines = (_launch(cluster), f"{over}fully_shard(block, {options})", f"fully_shard(model, {options})", _batches(plan))
    return Recipe(framework="PyTorch FSDP2", lines=(*lines, *_checkpointed(plan)))


def _deepspeed(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    mesh = plan.mesh
    if (
        plan.short
        or mesh.ranks > mesh.data
        or (plan.zero_stage == 0 and not plan.offload)
        or (mesh.expert > 1 and plan.zero_stage > 2)
    ):
        return None
    zero: dict[str, Any] = {"stage": plan.zero_stage or 1, "overlap_comm": True}
    if plan.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    config = {
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.micro_count,
        "zero_optimization": zero,
    }
    experts = [f"deepspeed.moe.layer.MoE(..., ep_size={mesh.expert})"] if mesh.expert > 1 else []
    return Recipe(framework="DeepSpeed", lines=(json.dumps(config), *experts, *_checkpointed(plan)))


def _native(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    """PyTorch's own building blocks, for any model: pipelining, tensor and context parallelism on a device mesh."""
    mesh = plan.mesh
    if mesh.pipeline * mesh.tensor * mesh.sequence == 1 or mesh.expert > 1 or plan.offload:
        return None
    axes = [(name, getattr(mesh, name)) for name in ("pipeline", "data", "sequence", "tensor") if getattr(mesh, name) > 1]
    names, sizes = (tuple(column) for column in zip(*axes, strict=True))
    lines = [_launch(cluster), f'mesh = init_device_mesh("cuda", {sizes}, mesh_dim_names={names})']
    if mesh.tensor > 1:
        split = "{first linear: ColwiseParallel(), last linear: RowwiseParallel()}"
        lines.append(f'parallelize_module(block, mesh["tensor"], {split})')
    if mesh.sequence > 1:
        lines.append('with context_parallel(mesh["sequence"], buffers=[inputs, labels, ...]):')
    if mesh.data > 1:
        how = {
            0: "replicate(model, {})",
            1: "replicate(model, {}); ZeroRedundancyOptimizer over it",
            3: "fully_shard(block, mesh={})",
        }
        lines.append(how[plan.zero_stage].format('mesh["data"]'))
    if mesh.pipeline > 1:
        count = mesh.pipeline * mesh.chunks
        schedule = "ScheduleInterleaved1F1B" if mesh.chunks > 1 else f"Schedule{_SCHEDULES[plan.schedule]}"
        lines.append(f"{count} PipelineStages of about {len(parts.blocks) / count:.3g} blocks each")
        lines.append(f"{schedule}(stages, n_microbatches={plan.micro_count}, loss_fn=...), micro-batch {plan.micro_batch}")
    else:
        lines.append(_batches(plan))
    return Recipe(framework="PyTorch device mesh", lines=(*lines, *_checkpointed(plan)))


def _is_language(parts: Parts) -> bool:
    return parts.workload.seq is not None and any(op.kind == "attention" for op in parts.workload.ops)


def _torchtitan(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    mesh = plan.mesh
    if plan.short or not _is_language(parts) or plan.offload or plan.zero_stage in (1, 2) or mesh.ranks == 1:
        return None
    sharded = mesh.data if plan.zero_stage == 3 else 1
    degrees = {
        "data_parallel_shard_degree": sharded,
        "data_parallel_replicate_degree": mesh.data // sharded,
        "tensor_parallel_degree": mesh.tensor,
        "pipeline_parallel_degree": mesh.pipeline,
        "context_parallel_degree": mesh.sequence,
        "expert_parallel_degree": mesh.expert,
    }
    lines = ["[parallelism]", *(f"{name} = {degree}" for name, degree in degrees.items() if degree > 1)]
    if mesh.pipeline > 1:
        lines.append(f'pipeline_parallel_schedule = "{"Interleaved1F1B" if mesh.chunks > 1 else _SCHEDULES[plan.schedule]}"')
        lines.append(f"pipeline_parallel_microbatch_size = {plan.micro_batch}")
    samples = plan.micro_batch * plan.micro_count
    lines += ["[training]", f"local_batch_size = {samples if mesh.pipeline > 1 else plan.micro_batch}"]
    lines += [f"global_batch_size = {samples * mesh.data}"]
    lines += ["[activation_checkpoint]", f'mode = "{plan.recompute}"']
    return Recipe(framework="torchtitan", lines=tuple(lines))


def _megatron(plan: Plan, cluster: Cluster, parts: Parts) -> Recipe | None:
    mesh = plan.mesh
    if plan.short or not _is_language(parts) or plan.offload or mesh.ranks == 1:
        return None
    if plan.zero_stage in (2, 3) or plan.schedule != "1f1b":
        return None
    flags = [
        f"--tensor-model-parallel-size {mesh.tensor}",
        f"--pipeline-model-parallel-size {mesh.pipeline}",
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {plan.micro_batch * plan.micro_count * mesh.data}",
    ]
    flags += ["--sequence-parallel"] if mesh.tensor > 1 else []
    flags += [f"--context-parallel-size {mesh.sequence}"] if mesh.sequence > 1 else []
    flags += [f"--expert-model-parallel-size {mesh.expert}"] if mesh.expert > 1 else []
    if mesh.chunks > 1:
        flags.append(f"--num-layers-per-virtual-pipeline-stage {len(parts.kinds) // (mesh.pipeline * mesh.chunks)}")
    flags += ["--use-distributed-optimizer"] if plan.zero_stage == 1 else []
    flags += ["--overlap-grad-reduce"] if mesh.data > 1 else []
    if plan.recompute == "full":
        flags.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif plan.recompute == "selective":
        flags.append("--recompute-granularity selective")
    return Recipe(framework="Megatron-LM", lines=(" ".join(flags),))
