"""Derives what a kernel does, and on which unit, from its name: the only table of name patterns.

The first matching line decides. Names that match none are `other`; nothing is guessed about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["CLASSES", "UNITS", "class_ids", "is_layout_change", "kernel_class", "math_unit", "unit_ids"]

CLASSES = ("matmul", "conv", "attention", "norm", "embedding", "elementwise", "optimizer", "communication", "other")
UNITS = ("none", "matrix", "fp32", "unknown")

_CLASS_PATTERNS = (
    (
        "communication",
        r"nccl|rccl|msccl|oneccl|userbuffers|all[-_]?reduce(?!.*gemm)|cross_device_reduce|^(c10d|gloo|nccl|mpi|ucc):"
        # kernels that send tokens to experts and collect the results: DeepEP, pplx-kernels, MORI, TensorRT-LLM, and NVSHMEM
        r"|deep_?ep(?![a-z])|(intra|inter)node(_ll)?::|pplx|moe_?(a2a|all_?to_?all)|nvshmem|rocshmem|all[-_]?to[-_]?all(?!.*gemm)"
        r"|(^|::|_)(all[-_]?gather|reduce[-_]?scatter)(?!.*gemm)|notify_dispatch|mori::|(^|::)ep(dispatch|combine)(intra|inter|kernel|lowlatency)",
    ),
    ("optimizer", r"multi_tensor_apply|adam(w|functor)?(?![a-z])|fused_?sgd|lamb_|adagrad(?!_unweighted)|^optimizer"),
    (
        "attention",
        r"flash_(fwd|bwd)|flash_attn|fmha|attn_fwd|attn_bwd|bwd_kernel_d[kq]|efficient_attention|attention|flash::|sdpa|(prefill|decode)withpagedkv"
        r"|selective_scan|chunk_(scan|state)|delta_rule",  # state-space models and linear attention replace it
    ),
    (
        "norm",
        r"batch_?norm|layer_?norm|group_?norm|rms_?norm|instance_?norm|bn_(fw|bw)|cudnn::.*bn_|rowwisemoments|gammabeta|miopenbatchnorm",
    ),
    (
        "embedding",
        r"fbgemm_gpu::|linearize_index|embedding|index_select|indexselect|gather|scatter|bounds_check_indices|radixsort|index_(put|add)|(^|::)index",
    ),
    (
        "conv",
        r"conv(?!er)|scudnn|winograd|dgrad|wgrad|implicit_gemm|igemm|hcudnn|xmma_(fprop|dgrad|wgrad)|cudnn.*(nhwc|nchw).*(gemm|kernel)"
        r"|fprop|miopensp3|mlo|im2col|col2im|mkldnn_convolution|depthwise",
    ),
    (
        "matmul",
        r"gemm|cijk_|cutlass|matmul|(^|::|_)(b?add)?b?mm(_out)?($|[^a-z])|gemv|dot_(general|kernel)|addmm|xmma_gemm|splitkreduce"
        r"|cublas|nvjet|einsum|fused_moe|marlin|mul_mat|linear(?!_algebra|iz)",
    ),
    ("norm", r"soft_?max"),
    (
        "elementwise",
        r"elementwise|vectorized|unrolled|catarray|copy|fill|reduce|dropout|triton|fusion|eigenmetakernel|pool|activation|relu|gelu|silu"
        r"|sigmoid|tanh|random|philox|transpose|cast|mul|add|sub|div|pow|sqrt|exp|sum|mean|clamp|threshold|where|op_?tensor|subtensor"
        r"|loss|permute|zero_|bernoulli|sigm|elu|cat$|sort|scan|distribution",
    ),
)
_MATH = ("matmul", "conv", "attention")
_MATRIX_UNIT = (
    r"tensorop|1688|16816|884|_h?mma|imma|bf16|fp16|_f16|f16f16|bf16bf16|hgemm|h\d+gemm|hcudnn|fp8|e4m3|e5m2|wgmma|gmma|nvjet"
    r"|flash_(fwd|bwd)|flash::|tf32|mi\d+x\d+x\d+|_mfma|gtcx|xdl|s161616|half|__nv_bfloat16|cutlass::bfloat16|cutlass::half|xdlops|warpgroup"
)
_VECTOR_UNIT = (
    r"ffma|sgemm|scudnn|<float|f32f32_f32f32|simt|winograd.*float|_float|computeoffsets|^(volta|maxwell|pascal|turing)_s"
)
_CPU_OPS = r"^(aten|mkldnn|onednn|quantized|torch)::"
_LAYOUT = r"nchw_?(to|2)_?nhwc|nhwc_?(to|2)_?nchw|batched_transpose|tensor_?transform|transpose_readwrite|convert_layout"

_compiled = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASS_PATTERNS)
_matrix = re.compile(_MATRIX_UNIT, re.IGNORECASE)
_vector = re.compile(_VECTOR_UNIT, re.IGNORECASE)
_cpu_op = re.compile(_CPU_OPS)
_layout = re.compile(_LAYOUT, re.IGNORECASE)
_ARGUMENTS = re.compile(r"\((?!anonymous|int\)|bool\)|unsigned).*", re.DOTALL)
_ELEMENTWISE_HEAD = re.compile(
    r"^(void )?at::native::(\(anonymous namespace\)::)?(vectorized|unrolled|legacy_)?_?(elementwise|reduce)_kernel"
    r"|EigenMetaKernel|^(void )?Eigen::"
)


def kernel_class(name: str) -> str:
    """Return what a kernel does.

    >>> [kernel_class(name) for name in ("volta_sgemm_64x64_nt", "ncclKernel_AllReduce_RING_LL_Sum_float()", "attn_fwd")]
    ['matmul', 'communication', 'attention']
    """
    if _ELEMENTWISE_HEAD.match(name):
        return "norm" if "softmax" in name.lower() else "elementwise"
    short = _ARGUMENTS.sub("", name, count=1) if "(" in name else name
    for found, pattern in _compiled:
        if pattern.search(short):
            return found
    return "other"


def math_unit(name: str) -> str:
    """Return which unit a matmul, convolution or attention kernel used: `matrix`, `fp32` or `unknown`; `none` for all others.

    >>> [math_unit(name) for name in ("volta_sgemm_64x64_nt", "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1", "attn_fwd")]
    ['fp32', 'matrix', 'unknown']
    """
    if kernel_class(name) not in _MATH:
        return "none"
    if "ffma" in name:
        return "fp32"
    short = name[:400]
    if _matrix.search(short):
        return "matrix"
    if _vector.search(short):
        return "fp32"
    return "fp32" if _cpu_op.match(name) else "unknown"


def is_layout_change(name: str) -> bool:
    """Return whether a kernel only converts NCHW to NHWC or back."""
    return _layout.search(name) is not None


def class_ids(names: Sequence[str], used: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Return the class of each row that uses one of the names, as an index into `CLASSES`."""
    return _each(names, used, lambda name: CLASSES.index(kernel_class(name)))


def unit_ids(names: Sequence[str], used: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Return the unit of each row that uses one of the names, as an index into `UNITS`."""
    return _each(names, used, lambda name: UNITS.index(math_unit(name)))


def _each(names: Sequence[str], used: npt.NDArray[np.int32], judge: Callable[[str], int]) -> npt.NDArray[np.int8]:
    table = np.zeros(len(names) + 1, dtype=np.int8)
    for number in np.unique(used):
        table[number] = judge(names[number])
    return table[used]
