"""The ops whose sizes are of use, by name: a profiler records the sizes of every op, but most ops only allocate or make views."""

from __future__ import annotations

__all__ = [
    "BACKWARD",
    "CAUSAL_AT",
    "CONVOLUTION",
    "CONVOLUTIONS",
    "COPY",
    "DUPLICATES",
    "LINEAR",
    "LOOPS",
    "NORMS",
    "OLD_BACKWARD",
    "PRODUCTS",
    "SIZED",
    "SOFTMAX",
]

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
LINEAR = "aten::linear"
CONVOLUTION = "aten::convolution"
CONVOLUTIONS = (
    "aten::cudnn_convolution",
    "aten::miopen_convolution",
    CONVOLUTION,
    "aten::conv2d",
    "aten::mkldnn_convolution",
)
OLD_BACKWARD = ("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward")
BACKWARD = ("aten::convolution_backward", *OLD_BACKWARD)
CAUSAL_AT = {  # position of the flag among the arguments
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "aten::_flash_attention_forward": 8,
}
NORMS = tuple(
    f"aten::{name}{end}"
    for name in ("native_layer_norm", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "native_group_norm")
    for end in ("", "_backward")
)
SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_log_softmax", "aten::_log_softmax_backward_data")
LOOPS = tuple(
    f"aten::{name}"
    for name in (
        "add add_ sub sub_ mul mul_ div div_ neg relu relu_ gelu silu sigmoid tanh pow exp rsqrt sqrt where clamp "
        "threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward"
    ).split()
)
COPY = "aten::copy_"
DUPLICATES = ("aten::contiguous", "aten::clone")
SIZED = frozenset((*PRODUCTS, LINEAR, *CONVOLUTIONS, *BACKWARD, *CAUSAL_AT, *NORMS, *SOFTMAX, *LOOPS, COPY, *DUPLICATES))
