"""The priors of each constant: a value, and how far (in ln) it may deviate.

A constant that affects no row stays at its value. A small sigma marks a value known from physics or a datasheet.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.kernels.types import GENERATIONS

__all__ = ["PRIORS", "REASONS"]

Group = Mapping[str, tuple[float, float]]

_JOINING: Group = {"overlap": (1.6, 0.03), "kernel.start_s": (2e-6, 0.2)}
_MEMORY: Group = {
    "memory.hbm": (0.92, 0.015),
    "memory.slower_hbm": (0.76, 0.1),
    "memory.gddr": (0.90, 0.04),
    "memory.ecc": (0.92, 0.06),
    "memory.bytes_per_clock": (24.0, 0.3),
    "memory.doubling_years": (5.0, 0.2),
    "memory.overlap": (1.6, 0.2),
    "pool.values_per_clock": (0.05, 0.5),
    "row.bytes_per_clock": (18.0, 0.4),
    "cache.share": (0.5, 0.3),
    "cache.reach": (1.0, 0.3),
}
_POWER: Group = {
    "power.vector": (1.9e-12, 0.4),
    "power.matrix": (0.2e-12, 0.4),
    "power.issue": (5e-12, 0.3),
    "power.byte": (44e-12, 0.3),
    "power.process": (1.0, 0.05),
    "power.free_clock": (0.6, 0.2),
    "power.rest_hbm": (0.18, 0.1),
    "power.rest_gddr": (0.23, 0.08),
    "power.board_watts": (20.0, 0.15),
}
_TILES: Group = {
    "tile.bytes_per_clock": (64.0, 0.3),
    "tile.feed_growth": (0.4, 0.4),
    "tile.start_clocks": (1500.0, 0.4),
    "tile.split": (0.8, 0.2),
    "tile.whole_waves": (0.8, 0.05),
    "matmul.matrix": (0.85, 0.1),
    "matmul.vector": (0.92, 0.06),
    "engine.amd": (0.75, 0.2),
    "engine.intel": (0.75, 0.3),
    "engine.apple": (0.75, 0.3),
    "engine.tf32": (0.95, 0.05),
    "engine.halved": (1.1, 0.1),
    "vector.mixed": (0.85, 0.1),
    "matmul.unaligned": (1.3, 0.2),
}
_CONVOLUTIONS: Group = {
    "conv.matrix.forward": (0.7, 0.2),
    "conv.matrix.data": (0.6, 0.2),
    "conv.matrix.weight": (0.55, 0.2),
    "conv.vector.forward": (0.8, 0.2),
    "conv.vector.data": (0.7, 0.2),
    "conv.vector.weight": (0.6, 0.2),
    "half.stored": (0.85, 0.15),
    "conv.odd_window": (1.3, 0.2),
    "conv.grouped_nhwc_weight": (4.0, 0.7),
    "conv.growth": (0.4, 0.5),
    "conv.nhwc": (1.1, 0.1),
    "conv.tf32": (0.8, 0.2),
    "conv.grouped": (0.5, 0.3),
    "conv.group_width": (100.0, 0.7),
    "conv.grouped_nhwc_even": (1.1, 0.2),
    "conv.grouped_nhwc_odd": (0.8, 0.2),
    "conv.winograd": (1.6, 0.15),
    "conv.winograd_weight": (1.3, 0.15),
    "conv.few_channels": (1.3, 0.25),
    "conv.few_channels_nhwc": (1.3, 0.4),
    "conv.rearranged": (0.5, 0.5),
    "conv.rearranged_1x1": (0.3, 0.5),
    "conv.grouped_weight": (0.8, 0.3),
    "conv.bytes": (1.05, 0.06),
    "depthwise.forward": (1.5, 0.3),
    "depthwise.data": (2.0, 0.3),
    "depthwise.weight": (4.0, 0.3),
    "depthwise.nhwc": (1.0, 0.3),
    "depthwise.vector": (0.3, 0.4),
    "depthwise.plain": (0.1, 0.5),
    "depthwise.window": (0.3, 0.5),
    "depthwise.old": (1.5, 0.4),
    "depthwise.others": (1.5, 0.4),
}
_ATTENTION: Group = {
    "attention.block_clocks": (1500.0, 0.5),
    "attention.growth": (0.3, 0.5),
    "attention.forward": (0.7, 0.2),
    "attention.backward": (0.4, 0.2),
    "attention.efficient": (0.6, 0.3),
    "attention.masked": (0.7, 0.3),
    "attention.vector": (0.5, 0.3),
    "attention.small_heads": (0.7, 0.4),
    "attention.score_bytes.forward": (16.0, 0.3),
    "attention.score_bytes.backward": (24.0, 0.3),
    "rnn.step_s": (8e-6, 0.4),
}
_PASSES: Group = {
    "bytes.elementwise": (1.0, 0.02),
    "bytes.reduction": (1.2, 0.2),
    "bytes.group_norm_nhwc": (4.0, 0.5),
    "bytes.batch_norm_infer": (1.0, 0.02),
    "bytes.batch_norm": (1.4, 0.2),
    "bytes.batch_norm_backward": (1.6, 0.2),
    "bytes.row_norm": (1.05, 0.1),
    "bytes.row_norm_backward": (1.8, 0.2),
    "bytes.softmax": (1.05, 0.1),
    "bytes.loss": (1.2, 0.2),
    "bytes.pool": (1.3, 0.2),
    "bytes.pool_backward": (2.0, 0.2),
    "bytes.cast": (1.05, 0.05),
    "bytes.copy": (1.3, 0.05),
    "bytes.reordered": (2.0, 0.3),
    "bytes.row_norm_compiled": (1.1, 0.2),
    "bytes.reduction_compiled": (1.3, 0.3),
    "bytes.index": (2.0, 0.3),
    "bytes.embedding": (1.5, 0.3),
    "bytes.embedding_backward": (2.0, 0.3),
    "bytes.optimizer": (1.05, 0.1),
    "bytes.sort": (8.0, 0.5),
    "bytes.random": (1.5, 0.3),
    "bytes.other": (1.5, 0.3),
}
_HOST: Group = {
    "host.attention": (6.0, 0.4),
    "host.cast": (0.12, 0.4),
    "host.light": (0.5, 0.3),
    "host.conv_backward": (2.0, 0.5),
    "host.backward": (0.6, 0.3),
    "host.optimizer": (0.3, 0.3),
}

_GENERATIONS: Group = {
    **{f"matrix.{name}": (1.0, 0.08) for name in GENERATIONS if name not in ("maxwell", "pascal")},
    **{f"vector.{name}": (1.0, 0.08) for name in GENERATIONS},
    **{f"bandwidth.{name}": (1.0, 0.05) for name in GENERATIONS},
}

REASONS: Mapping[str, Group] = {
    "how arithmetic and traffic overlap; what an empty kernel takes in a full queue": _JOINING,
    "STREAM reaches 85-95 % of the sheet; a unit keeps tens of bytes a clock in flight, twice as many every few years": _MEMORY,
    "joules of a 16 nm chip at its least voltage, from TDP and sustained rates; they fall as a process's nanometres do": _POWER,
    "what large products of cuBLAS reach; bytes a clock from L2 and shared memory": _TILES,
    "cuDNN below cuBLAS; weight gradients worst; Winograd F(2x2,3x3) saves 2.25 multiplications at most": _CONVOLUTIONS,
    "published flash-attention rates; scores written and read in fp32; a grid-wide wait for each step of an RNN": _ATTENTION,
    "how many times a class of ops reads and writes its tensors, from what its kernels do": _PASSES,
    "Python around a layer costs most; the backward pass is issued from C++; cuDNN chooses algorithms for two gradients": _HOST,
    "what a generation reaches beside what all do: designs differ by some percent, not by half": _GENERATIONS,
}
PRIORS: Mapping[str, tuple[float, float]] = {name: prior for group in REASONS.values() for name, prior in group.items()}
