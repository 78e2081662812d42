"""Remedies for a lack of memory. A remedy turns choices into other choices, or says why it does not apply.

`Trial` computes the resulting memory and time from the workload for those choices; no memory or time values are stored here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from gpuwise.advise.proposals import Proposal, Remedy, inference_only, training_only
from gpuwise.advise.remedies_several import offload_weights, split, zero
from gpuwise.advise.trial import Trial
from gpuwise.core.text import the
from gpuwise.prediction.choices import Choices, DoesNotApply
from gpuwise.prediction.ways import largest
from gpuwise.workload.model.evaluate import peak_memory
from gpuwise.workload.transform.attention import has_attention
from gpuwise.workload.transform.checkpoint import blocks_of
from gpuwise.workload.transform.flash import folded
from gpuwise.workload.transform.targets import linear_modules

__all__ = ["REMEDIES"]

_DEEPEST = 3  # levels of nested blocks to look into
_SHORTEST = 16  # tokens: lengths are multiples of it
_PARTS = 12  # of the blocks: a finer search would cost more than it saves
_TRITON_SINCE = date(2017, 5, 1)  # Volta, compute capability 7.0


def _runs(trial: Trial, precision: str) -> bool:
    """Return whether this GPU has the 16-bit type. Storage-only fp16, as on GTX 10, still saves memory."""
    peaks = trial.gpu.peak_flops_per_s
    known = {dtype for engine in peaks.values() for dtype in engine} | set(trial.gpu.architecture.features)
    return "bf16" in known if "bf16" in precision else "fp16" in known or trial.gpu.vendor == "NVIDIA"


# ---------------------------------------------------------------- numbers


def _mixed(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    if choices.precision not in ("fp32", "tf32"):
        raise DoesNotApply(f"the model already runs in {choices.precision}")
    if not _runs(trial, "amp"):
        raise DoesNotApply(f"{the(trial.gpu.name)} does not support 16-bit arithmetic")
    return Proposal(choices=replace(choices, precision="amp"), title="mixed precision", how="--precision amp; torch.autocast")


def _half(trial: Trial, choices: Choices) -> Proposal:
    low = "bf16" if _runs(trial, "bf16") else "fp16"
    if choices.precision in ("bf16", "fp16", "fp8"):
        raise DoesNotApply(f"the model already runs in {choices.precision}")
    if not _runs(trial, low) or (low == "fp16" and trial.ways.plain(trial.now).mode == "train"):
        raise DoesNotApply(f"{the(trial.gpu.name)} does not support bf16")
    training = trial.ways.plain(trial.now).mode == "train"
    return Proposal(
        choices=replace(choices, precision=low),
        title=f"everything in {low}",
        how=f"--precision {low}; model.to(torch.{'bfloat16' if low == 'bf16' else 'float16'})",
        effect="quality" if training else "numerics",  # small updates are lost in weights of 8 bits of fraction
    )


def _eight_bit(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    _own_optimizer(choices)
    if choices.optimizer not in ("adam", "adamw"):
        raise DoesNotApply(f"8-bit states exist only for Adam, but this run uses {choices.optimizer or 'no optimizer'}")
    _has_bitsandbytes(trial)
    return _optimizer(choices, "adam8bit", "8-bit optimizer states", "bitsandbytes.optim.AdamW8bit")


def _has_bitsandbytes(trial: Trial) -> None:
    if trial.gpu.vendor in ("Apple", "Google"):
        raise DoesNotApply(f"the bitsandbytes kernels do not run on {trial.gpu.architecture.title} GPUs")


def _own_optimizer(choices: Choices) -> None:
    if choices.adapters:
        raise DoesNotApply("adapters need very little optimizer state")
    if choices.offload:
        raise DoesNotApply("the optimizer runs on the host")


def _optimizer(choices: Choices, name: str, title: str, how: str) -> Proposal:
    return Proposal(choices=replace(choices, optimizer=name, implementation="foreach"), title=title, how=how)


# ---------------------------------------------------------------- the same step in another order


def _fused(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    _own_optimizer(choices)
    if choices.implementation == "fused" or choices.optimizer in ("adafactor", "adam8bit", "lion", "none", ""):
        raise DoesNotApply(
            f"there is no fused version of {choices.optimizer}, or it is already in use"
            if choices.optimizer
            else "no optimizer is used"
        )
    return Proposal(
        choices=replace(choices, implementation="fused"), title="fused optimizer kernels", how="torch.optim...(fused=True)"
    )


def _channels_last(trial: Trial, choices: Choices) -> Proposal:
    if choices.channels_last:
        raise DoesNotApply("the model already uses channels-last")
    if not any(op.kind == "conv" for op in trial.ways.plain(choices).ops):
        raise DoesNotApply("the model has no convolutions")
    how = "model.to(memory_format=torch.channels_last)"
    return Proposal(choices=replace(choices, channels_last=True), title="channels-last tensors", how=how)


def _accumulate(trial: Trial, choices: Choices) -> Proposal:
    """Divide the batch into as few parts as make it fit, or single samples."""
    plain = trial.ways.plain(choices)
    if "batch" not in plain.symbols:
        raise DoesNotApply("the model was captured at only one batch size")
    if trial.batch < 2:
        raise DoesNotApply("a batch of 1 cannot be split")
    if choices.split:
        raise DoesNotApply("the model is already split")
    tried = replace(choices, accumulate=2)
    micro = largest(lambda size: trial.need(tried, 2 * size), trial.room.usable_bytes, top=-(-trial.batch // 2))
    parts = -(-trial.batch // max(1, micro))
    size = -(-trial.batch // parts)
    changed = replace(choices, accumulate=parts)
    if plain.mode != "train":
        return Proposal(choices=changed, title=f"{parts} batches of {size}", how="run the batches one after another")
    remark = "; batch norm then uses the statistics of each micro-batch" if _norms_batches(trial, choices) else ""
    how = f"one optimizer step every {parts} backward passes{remark}"
    return Proposal(choices=changed, title=f"gradient accumulation over {parts} micro-batches of {size}", how=how)


def _norms_batches(trial: Trial, choices: Choices) -> bool:
    return any("batch_norm" in op.name for op in trial.ways.plain(choices).ops)


def _checkpoint(trial: Trial, choices: Choices) -> Proposal:
    """Use the depth at which blocks save most, and there as few blocks as make it fit, or all."""
    training_only(trial)
    plain = trial.ways.plain(choices)
    depths = {depth: len(blocks_of(plain, depth)) for depth in range(1, _DEEPEST + 1)}
    depths = {depth: count for depth, count in depths.items() if count}
    if not depths:
        raise DoesNotApply("the model has no repeated blocks")
    depth = min(depths, key=lambda key: _tensors(trial, choices, (key, depths[key]))) if len(depths) > 1 else 1
    count, most = depths[depth], depths[depth]
    if trial.fits(replace(choices, checkpoint=(depth, most))) and not trial.fits(choices):
        count = _fewest(trial, choices, depth, most)
    kind = blocks_of(plain, depth)[0].rpartition(".")[0]
    some = (
        f"torch.utils.checkpoint around {kind}.0 to {kind}.{count - 1}"
        if kind
        else f"torch.utils.checkpoint around the first {count}"
    )
    return Proposal(
        choices=replace(choices, checkpoint=(depth, count)),
        title=f"checkpointing of {f'{count} of the' if count < most else 'all'} {most} blocks",
        how=some if count < most else "torch.utils.checkpoint around every block",
    )


def _tensors(trial: Trial, choices: Choices, blocks: tuple[int, int]) -> float:
    """Bytes of tensors at the peak, before any compiling: enough to compare depths."""
    workload = trial.workload(replace(choices, checkpoint=blocks, compiled=False))
    return peak_memory(workload, trial.batch if "batch" in workload.symbols else None).total_bytes


def _fewest(trial: Trial, choices: Choices, depth: int, most: int) -> int:
    """Return the smallest number of blocks that makes it fit, if `most` do, to within a twelfth of them."""
    unit = -(-most // _PARTS)

    def need(size: int) -> float:
        return trial.need(replace(choices, checkpoint=(depth, most - unit * (size - 1))))

    top = -(-most // unit)
    known = {1: need(1), top + 1: trial.need(choices)}
    return most - unit * (largest(need, trial.room.usable_bytes, top=top, known=known) - 1)


def _compile(trial: Trial, choices: Choices) -> Proposal:
    stack, gpu = trial.run.setting.stack, trial.gpu
    if choices.compiled or stack.how != "eager":
        raise DoesNotApply(f"the model is already compiled ({stack.name})")
    if stack.framework != "torch" or stack.version < (2, 0):
        raise DoesNotApply(f"torch.compile is not available in {stack.name}")
    if gpu.vendor == "Apple" or (gpu.vendor == "NVIDIA" and gpu.architecture.introduced_on < _TRITON_SINCE):
        raise DoesNotApply(f"torch.compile needs Triton, which does not support {gpu.architecture.title} GPUs")
    return Proposal(choices=replace(choices, compiled=True), title="torch.compile", how="--compile; torch.compile(model)")


def _offload(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    if trial.room.shared:
        raise DoesNotApply("the GPU and the host share the same memory")
    _own_optimizer(choices)
    if trial.memory(choices).optimizer_bytes < 1e6:
        raise DoesNotApply(f"{choices.optimizer} stores no state" if choices.optimizer else "no optimizer is used")
    how = "DeepSpeed's ZeRO-Offload, or torchao's CPUOffload"
    return Proposal(choices=replace(choices, offload=True), title="optimizer states on the CPU", how=how)


def _flash(trial: Trial, choices: Choices) -> Proposal:
    """A fused kernel for attention that the model writes out, or that old software runs unfused."""
    plain = trial.ways.plain(choices)
    if trial.run.setting.stack.framework != "torch":
        raise DoesNotApply(f"the attention kernels of {trial.run.setting.stack.name} are unknown")
    if not has_attention(plain):
        if choices.folded_attention or folded(plain) is None:
            soft = any(op.name == "_softmax" for op in plain.ops)
            raise DoesNotApply(
                "no fused kernel supports the bias that the model adds to its attention scores"
                if soft
                else "the model has no attention"
            )
        how = "scaled_dot_product_attention instead of softmax(q @ k.T) @ v"
        return Proposal(choices=replace(choices, folded_attention=True, fused_attention=True), title="flash attention", how=how)
    if choices.fused_attention:
        raise DoesNotApply("attention already runs as one kernel")
    how = "PyTorch 2 or newer: scaled_dot_product_attention"
    return Proposal(choices=replace(choices, fused_attention=True), title="flash attention", how=how)


# ---------------------------------------------------------------- another way of training


def _adafactor(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    _own_optimizer(choices)
    if choices.optimizer not in ("adam", "adamw", "lion", "momentum"):
        raise DoesNotApply(
            f"{choices.optimizer} stores no more state than Adafactor" if choices.optimizer else "no optimizer is used"
        )
    return _optimizer(choices, "adafactor", "Adafactor", "--optimizer adafactor; it needs a different learning rate")


def _sgd(trial: Trial, choices: Choices) -> Proposal:
    training_only(trial)
    _own_optimizer(choices)
    if choices.optimizer in ("sgd", "none", ""):
        raise DoesNotApply("the optimizer already stores no state")
    return _optimizer(
        choices, "sgd", "plain SGD", "--optimizer sgd; it needs a different learning rate and often gives different results"
    )


def _adapters(kind: str) -> Callable[[Trial, Choices], Proposal]:
    def propose(trial: Trial, choices: Choices) -> Proposal:
        training_only(trial)
        if choices.adapters == kind or (choices.adapters and kind != "qlora"):
            raise DoesNotApply("the run already trains adapters")
        plain = trial.ways.plain(choices)
        if "batch" not in plain.symbols or not linear_modules(plain):
            raise DoesNotApply("adapters are added to linear layers in repeated blocks, and the model has none")
        if kind == "qlora":
            _has_bitsandbytes(trial)
        low = "bf16" if _runs(trial, "bf16") else "fp16"
        bits = "nf4" if kind == "qlora" else low
        changed = replace(choices, adapters=kind, precision=low, optimizer="none", implementation="foreach", offload=False)
        return Proposal(
            choices=changed,
            title=f"{'QLoRA' if kind == 'qlora' else 'LoRA'} (rank {choices.rank}, {bits} weights)",
            how=f"--method {kind}; PEFT trains only the adapters of the linear layers",
            effect="quality" if choices.adapters else "",  # the method stays, its frozen weights are rounded
        )

    return propose


# ---------------------------------------------------------------- another task


def _shorter(trial: Trial, choices: Choices) -> Proposal:
    """Return the longest sequence that fits, or half of the current one if none does."""
    plain = trial.ways.plain(choices)
    if "seq" not in plain.symbols or plain.seq is None:
        raise DoesNotApply(
            "the model has no sequence length"
            if plain.seq is None
            else f"the model was captured only with a sequence length of {plain.seq}"
        )
    if plain.seq <= _SHORTEST:
        raise DoesNotApply(f"a sequence length of {plain.seq} is already short")
    length = max(_SHORTEST, plain.seq // 2)
    if not trial.fits(choices):
        fitting = largest(
            lambda size: trial.need(replace(choices, seq=size * _SHORTEST)),
            trial.room.usable_bytes,
            top=max(1, (plain.seq - 1) // _SHORTEST),
            known={-(-plain.seq // _SHORTEST): trial.need(choices)},
        )
        length = fitting * _SHORTEST or length
    return Proposal(choices=replace(choices, seq=length), title=f"sequences of {length} tokens", how=f"--seq {length}")


def _smaller_image(trial: Trial, choices: Choices) -> Proposal:
    plain = trial.ways.plain(choices)
    now = choices.image or plain.options.get("image")
    if not isinstance(now, int) or plain.source == "zoo":
        what = (
            f"the built-in {plain.model} is available only with an image size of {now}"
            if now
            else "the image size is unknown; set it with `--image`"
        )
        raise DoesNotApply(what)
    size = max(32, now * 3 // 4 // 32 * 32)
    if size >= now:
        raise DoesNotApply(f"an image size of {now} is already small")
    return Proposal(choices=replace(choices, image=size), title=f"images of {size} pixels", how=f"--image {size}")


# ---------------------------------------------------------------- inference


def _packed(name: str) -> Callable[[Trial, Choices], Proposal]:
    def propose(trial: Trial, choices: Choices) -> Proposal:
        inference_only(trial)
        if choices.weights:
            raise DoesNotApply(f"the weights are already in {choices.weights}")
        if not linear_modules(trial.ways.plain(choices)):
            raise DoesNotApply("only linear layers in repeated blocks can be quantised, and the model has none")
        how = (
            "quantise only the weights, with bitsandbytes or torchao"
            if name == "int8"
            else "quantise only the weights, with GPTQ, AWQ or torchao"
        )
        return Proposal(choices=replace(choices, weights=name), title=f"{name} weights", how=how)

    return propose


REMEDIES: tuple[Remedy, ...] = (
    Remedy(name="amp", effect="numerics", propose=_mixed),
    Remedy(name="bf16", effect="numerics", propose=_half),
    Remedy(name="channels-last", effect="same", propose=_channels_last),
    Remedy(name="fused-optimizer", effect="same", propose=_fused),
    Remedy(name="8-bit-optimizer", effect="numerics", propose=_eight_bit),
    Remedy(name="flash-attention", effect="same", propose=_flash),
    Remedy(name="compile", effect="same", propose=_compile),
    Remedy(name="accumulate", effect="same", propose=_accumulate),
    Remedy(name="checkpoint", effect="same", propose=_checkpoint),
    Remedy(name="offload", effect="same", propose=_offload),
    Remedy(name="int8", effect="numerics", propose=_packed("int8")),
    Remedy(name="int4", effect="quality", propose=_packed("int4")),
    Remedy(name="adafactor", effect="method", propose=_adafactor),
    Remedy(name="sgd", effect="method", propose=_sgd),
    Remedy(name="lora", effect="method", propose=_adapters("lora")),
    Remedy(name="qlora", effect="method", propose=_adapters("qlora")),
    Remedy(name="shorter-sequence", effect="task", propose=_shorter),
    Remedy(name="smaller-image", effect="task", propose=_smaller_image),
    Remedy(name="zero-1", effect="hardware", propose=zero(1)),
    Remedy(name="zero-2", effect="hardware", propose=zero(2)),
    Remedy(name="zero-3", effect="hardware", propose=zero(3)),
    Remedy(name="offload-weights", effect="hardware", propose=offload_weights),
    Remedy(name="split-layers", effect="hardware", propose=split("layers")),
    Remedy(name="split-matrices", effect="hardware", propose=split("matrices")),
)
