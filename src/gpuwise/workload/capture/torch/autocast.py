"""Applies CUDA's autocast rules to fake CPU tensors.

The lists are those in `ATen/autocast_mode.h`, which CUDA registers in full; a test compares them with that header and with the
dispatcher. Rules that CPU autocast has in the same form remain torch's own (they keep its cache of cast weights), those that
differ are replaced, and those that only the CPU has are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["FP32", "FP32_OUTPUT", "LOW", "WIDEST", "install_autocast"]

# Run in fp16 or bf16.
LOW = (
    "_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm "
    "chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "_scaled_dot_product_flash_attention scaled_dot_product_attention cudnn_convolution cudnn_convolution_transpose"
).split()
# Their inputs are cast to fp32.
FP32 = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor "
    "pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim "
    "cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss "
    "smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss "
    "multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d "
    "_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d "
    "upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d "
    "_upsample_bicubic2d_aa"
).split()
# They get an fp32 output unless the caller requested another; most kernels then read the narrow input themselves.
FP32_OUTPUT = (
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList"
).split()
# The same for ops that take an output type only in another overload.
_OTHER_OVERLOAD = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
# Cast to fp32 if one of their inputs is fp32 already.
WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
_DIFFERS = frozenset("aten::prod aten::prod.dim_int aten::grid_sampler aten::binary_cross_entropy".split())
_CAST_FIRST = frozenset("cumprod cumsum".split())  # their CUDA kernels cast the whole input before they start
_CACHE = "mkldnn_rnn_layer"  # an op that no GPU has; its rule casts tensors through autocast's cache
_NARROW = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_NARROW)
_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast, and PyTorch refuses them on a GPU. "
    "Use binary_cross_entropy_with_logits or BCEWithLogitsLoss"
)

Rule = Callable[[Any], Callable[..., Any]]


def install_autocast(library: torch.library.Library) -> None:
    """Give the CPU the rules of CUDA, as far as this version of torch has them."""
    library.impl(_CACHE, lambda x, *others: (x, x, x, x), "AutogradCPU")
    for names, rule in ((LOW, _low), (FP32, _fp32), (FP32_OUTPUT, _fp32_output), (WIDEST, _widest)):
        for name in names:
            _replace(library, name, rule)
    for name in _OTHER_OVERLOAD:
        _replace(library, name, _appending)
    _replace(library, "binary_cross_entropy", lambda operator: _refuse)
    for name in list(_only_on_the_cpu()):
        library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):  # cuDNN's rule, which torch without CUDA does not have
        library.impl(f"{name}.input", _casting(_operator(f"{name}.input"), _to_low), "AutocastCPU")


def _replace(library: torch.library.Library, name: str, rule: Rule) -> None:
    full = f"aten::{name}"
    if _has(full, "AutocastCUDA") and (full in _DIFFERS or not _has(full, "AutocastCPU")):
        library.impl(name, rule(_operator(name)), "AutocastCPU")


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _has(name: str, key: str) -> bool:
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:  # not in this version
        return False


def _only_on_the_cpu() -> Iterator[str]:
    for name in torch._C._dispatch_get_all_op_names():
        plain = name.removeprefix("aten::")
        if name.startswith("aten::") and plain != _CACHE and _has(name, "AutocastCPU") and not _has(name, "AutocastCUDA"):
            yield plain


# ---------------------------------------------------------------- the rules


def _low(operator: Any) -> Callable[..., Any]:
    return _casting(operator, _to_low_once)


def _fp32(operator: Any) -> Callable[..., Any]:
    return _casting(operator, _to_fp32)


def _casting(operator: Any, cast: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        return _without_autocast(operator, *tree_map(cast, args), **tree_map(cast, kwargs))

    return run


def _fp32_output(operator: Any) -> Callable[..., Any]:
    arguments = operator._schema.arguments
    place = [argument.name for argument in arguments].index("dtype")
    by_name = arguments[place].kwarg_only
    first = operator._schema.name.removeprefix("aten::") in _CAST_FIRST

    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("dtype") if len(args) < place or by_name else args[place - 1]
        if given is None and x.dtype in _FLOATS:
            x, args = _to_fp32(x) if first else x, args if by_name else args[: place - 1]
            kwargs = {**kwargs, "dtype": torch.float32}
        return _without_autocast(operator, x, *args, **kwargs)

    return run


def _appending(operator: Any) -> Callable[..., Any]:
    wider = _operator(_OTHER_OVERLOAD[operator.name().removeprefix("aten::")])

    def run(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
        if x.dtype not in _FLOATS:
            return _without_autocast(operator, x, p, *(() if dim is None else (dim, keepdim)))
        return _without_autocast(wider, x, p, *(() if dim is None else (dim, keepdim)), dtype=torch.float32)

    return run


def _widest(operator: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.dtype is torch.float32 for tensor in tensors):
            args, kwargs = tree_map(_to_fp32, args), tree_map(_to_fp32, kwargs)
        return _without_autocast(operator, *args, **kwargs)

    return run


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(_UNSAFE)


def _without_autocast(operator: Any, *args: Any, **kwargs: Any) -> Any:
    with torch.autocast("cpu", enabled=False):
        return operator(*args, **kwargs)


# ---------------------------------------------------------------- casts


def _to_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value


def _to_low(value: Any) -> Any:
    low = torch.get_autocast_dtype("cpu")
    return value.to(low) if isinstance(value, torch.Tensor) and value.dtype in _FLOATS else value


def _to_low_once(value: Any) -> Any:
    """Cast a weight only once until the outermost autocast ends, as autocast does."""
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32 and value.requires_grad and value.is_leaf:
        return getattr(torch.ops.aten, _CACHE)(*[value] * 7, False, [], 0, 0, 0, False, False, False, False)[0]
    return _to_low(value)
