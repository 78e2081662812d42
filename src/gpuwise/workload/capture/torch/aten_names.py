"""Aten ops by kind of kernel, if the name alone determines it. `aten.py` has the rules for the others."""

from __future__ import annotations

__all__ = [
    "ADAPTIVE_POOLS",
    "COPIES",
    "FILLS",
    "HOST",
    "INDEXING",
    "LOSSES",
    "POINTWISE",
    "POOLS",
    "RANDOM",
    "REDUCTIONS",
    "RESIZES",
]

POINTWISE = frozenset(
    "native_dropout floor_divide native_dropout_backward threshold_backward gelu_backward silu_backward "
    "sigmoid_backward tanh_backward hardtanh_backward hardswish_backward hardsigmoid_backward leaky_relu_backward "
    "elu_backward softplus_backward mish_backward relu6 prelu _prelu_kernel _prelu_kernel_backward glu glu_backward "
    "where masked_fill tril triu lerp addcmul addcdiv polar view_as_complex clamp clamp_min "
    "clamp_max isin bucketize rot90 logical_and logical_or logical_not _amp_update_scale "
    "repeat_interleave _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _weight_norm_interface "
    "_thnn_fused_gru_cell _thnn_fused_gru_cell_backward "
    "_weight_norm_interface_backward hardswish mish gelu threshold log_sigmoid_forward log_sigmoid_backward "
    "softshrink_backward hardshrink_backward rrelu_with_noise rrelu_with_noise_backward rsub complex".split()
)
FILLS = (
    "fill_ zero_ fill zero zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange linspace eye "
    "tril_indices triu_indices scalar_tensor hann_window"
).split()
REDUCTIONS = frozenset(
    "sum mean amax amin max min any all prod var var_mean std norm linalg_vector_norm argmax argmin logsumexp cumsum "
    "cumprod cummax nansum count_nonzero frobenius_norm _cdist_forward cumsum_".split()
)
# A window slides over an image; its size is an argument of the forward op.
POOLS = (
    "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward max_pool3d_with_indices "
    "avg_pool3d avg_pool1d max_pool3d_with_indices_backward avg_pool3d_backward max_pool2d"
).split()
# The size of the result is an argument; the window follows from it.
ADAPTIVE_POOLS = (
    "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward adaptive_max_pool2d adaptive_max_pool2d_backward "
    "_adaptive_avg_pool3d _adaptive_avg_pool3d_backward adaptive_max_pool3d adaptive_max_pool3d_backward"
).split()
# How many image values contribute to one value of the result. Their backward passes have the suffix `_backward`.
RESIZES = {
    "upsample_nearest1d": 1,
    "upsample_nearest2d": 1,
    "upsample_nearest3d": 1,
    "_upsample_nearest_exact1d": 1,
    "_upsample_nearest_exact2d": 1,
    "_upsample_nearest_exact3d": 1,
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "_upsample_bilinear2d_aa": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
    "_upsample_bicubic2d_aa": 16,
    "grid_sampler_2d": 4,
    "grid_sampler_3d": 8,
    "torchvision::roi_align": 4,
}
LOSSES = (
    "nll_loss_forward nll_loss_backward binary_cross_entropy_with_logits nll_loss2d_forward nll_loss2d_backward "
    "binary_cross_entropy binary_cross_entropy_backward mse_loss mse_loss_backward smooth_l1_loss "
    "smooth_l1_loss_backward huber_loss huber_loss_backward _ctc_loss _ctc_loss_backward"
).split()
COPIES = (
    "cat stack constant_pad_nd reflection_pad1d reflection_pad2d replication_pad2d repeat roll flip index_select "
    "slice_backward select_backward unfold_backward pixel_shuffle pixel_unshuffle channel_shuffle slice_scatter "
    "select_scatter as_strided_scatter diagonal_copy tile narrow_copy reflection_pad1d_backward "
    "reflection_pad2d_backward diagonal_backward native_channel_shuffle split_with_sizes_copy unsafe_split contiguous "
    "expand_copy _unsafe_view_copy diag_embed"
).split()
INDEXING = (
    "index index_put index_put_ _index_put_impl_ gather scatter scatter_ scatter_add scatter_add_ index_add "
    "index_add_ take masked_select nonzero embedding_bag "
    "index_copy index_copy_ one_hot searchsorted scatter_reduce _unsafe_index "
    "gather_backward unique_dim _unique2 _unsafe_index_put index_fill masked_scatter histc "
    "bincount index_reduce scatter_value torchvision::nms"
).split()
RANDOM = (
    "bernoulli bernoulli_ normal_ uniform_ randn rand randint randn_like rand_like randint_like randperm multinomial exponential_"
).split()
# No kernel: metadata, allocation, host values.
HOST = (
    "empty empty_like empty_strided new_empty new_empty_strided detach lift_fresh lift_fresh_copy _local_scalar_dense "
    "alias is_same_size sym_size sym_numel sym_stride _unsafe_view resize_ set_ item equal is_pinned _pin_memory "
    "as_strided_ record_stream _assert_async _has_compatible_shallow_copy_type _version"
).split()
