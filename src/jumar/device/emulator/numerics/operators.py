"""What kind of work an operator is: does it compute, and does it add atomically."""

from __future__ import annotations

from collections.abc import Mapping

MOVEMENT = frozenset(
    """
    _efficientzerotensor _local_scalar_dense _reshape_alias _unsafe_index _unsafe_view alias arange argmax argmin
    argsort as_strided as_strided_scatter bitwise_and bitwise_not bitwise_or bitwise_xor cat channel_shuffle clone
    complex constant_pad_nd count_nonzero detach diag_embed diagonal_scatter embedding empty empty_like
    empty_permuted empty_strided eq equal expand eye fill fill_diagonal_ flip full full_like gather ge gt im2col
    index index_copy index_fill index_select isfinite isin isinf isnan isneginf isposinf kthvalue le lift_fresh
    linspace logical_and logical_not logical_or logical_xor logspace lt masked_fill masked_scatter masked_select
    max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d median mode msort multinomial
    nan_to_num nanmedian narrow_copy ne new_empty new_empty_strided new_full new_ones new_zeros nonzero ones
    ones_like permute pixel_shuffle pixel_unshuffle put rand rand_like randint randint_like randn randn_like
    randperm range record_stream reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d reshape resize resize_ roll rot90 scalar_tensor scatter
    searchsorted select_copy select_scatter set_ signbit slice_scatter sort split split_with_sizes stack t_copy
    take topk trace_copy transpose_copy tril tril_indices triu triu_indices unfold unfold_copy unique_consecutive
    unique_dim _unique2 view view_as_complex view_as_real view_copy where zero zeros zeros_like
    """.split()  # noqa: SIM905 - a page of names reads better without quotes
)
"""Operators that choose, compare, move or make values and compute none: what they pass on, they pass on as it is."""

ATOMIC_ADDS = frozenset(
    """
    _embedding_bag_backward _embedding_bag_dense_backward _index_put_impl convolution_backward
    embedding_dense_backward gather_backward grid_sampler_2d_backward grid_sampler_3d_backward index_add index_put
    index_reduce max_pool3d_with_indices_backward scatter_add scatter_reduce
    """.split()  # noqa: SIM905
)
"""Operators whose kernels add to one place of memory from several cores: what overflows there is an atomic overflow.

A convolution's weight gradient is the best known of them.
"""


MATMULS: Mapping[str, tuple[str, str]] = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "addmm": ("mat1", "mat2"),
    "_addmm_activation": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "addbmm": ("batch1", "batch2"),
    "baddbmm": ("batch1", "batch2"),
}
"""Matrix products: the two operands of the matrix unit, by operator name without overload and underscore."""

CONVOLUTIONS = frozenset({"convolution", "_convolution", "conv_tbc"})
"""Operators whose first two arguments are input and weight, and whose third is the bias."""

CONVOLUTION_BACKWARD = "convolution_backward"


def is_cube(name: str) -> bool:
    """Return whether an operator runs on the matrix unit."""
    base = base_name(name)
    return base in MATMULS or base in CONVOLUTIONS or base == CONVOLUTION_BACKWARD


def base_name(name: str) -> str:
    """Return an operator without namespace, overload and underscore of an in-place form: `addmm` for `aten::addmm_`."""
    base = name.rpartition("::")[2].partition(".")[0]
    return base if base in MOVEMENT else base.removesuffix("_")


def computes(name: str) -> bool:
    """Return whether an operator computes values that can overflow. Unknown operators do."""
    base = base_name(name).removeprefix("_foreach_")
    return base not in MOVEMENT and not (base == "copy" or base.endswith("_copy"))


def adds_atomically(name: str) -> bool:
    """Return whether an overflow of this operator counts as an atomic one."""
    return base_name(name) in ATOMIC_ADDS
