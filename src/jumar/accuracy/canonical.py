"""Operator names that mean the same calculation, and what kind of calculation each is.

Devices run one calculation under different names (`aten::convolution` on a CPU is
`aten::convolution_overrideable` below an accelerator's dispatcher). Comparing works on canonical
names: no namespace, no overload, no in-place underscore, one name for the variants of a kernel.
"""

from __future__ import annotations

from functools import lru_cache


def names(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())


VARIANTS: dict[str, tuple[str, ...]] = {
    "convolution": (
        "_convolution",
        "convolution_overrideable",
        "cudnn_convolution",
        "mkldnn_convolution",
        "miopen_convolution",
        "thnn_conv2d",
        "_slow_conv2d_forward",
        "_conv_depthwise2d",
        "npu_conv2d",
        "npu_convolution",
    ),
    "convolution_backward": (
        "convolution_backward_overrideable",
        "_slow_conv2d_backward",
        "npu_conv2d_backward",
        "npu_convolution_backward",
    ),
    "native_batch_norm": (
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "cudnn_batch_norm",
        "miopen_batch_norm",
    ),
    "native_batch_norm_backward": (
        "batch_norm_backward",
        "cudnn_batch_norm_backward",
        "miopen_batch_norm_backward",
    ),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
        "npu_fusion_attention",
    ),
    "scaled_dot_product_attention_backward": (
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_fused_attention_overrideable_backward",
        "npu_fusion_attention_grad",
    ),
    "softmax": ("_softmax", "_safe_softmax"),
    "softmax_backward": ("_softmax_backward_data",),
    "log_softmax": ("_log_softmax",),
    "log_softmax_backward": ("_log_softmax_backward_data",),
    "native_layer_norm": ("layer_norm", "npu_layer_norm_eval"),
    "native_dropout": ("_fused_dropout", "npu_dropout", "_npu_dropout"),
    "linear": ("mkldnn_linear", "_mkldnn_linear", "npu_linear"),
    "_to_copy": ("to", "npu_dtype_cast", "_npu_dtype_cast", "npu_format_cast", "_npu_format_cast"),
    "view": ("_unsafe_view", "reshape", "_reshape_alias"),
    "gelu": ("npu_gelu", "fast_gelu", "npu_fast_gelu"),
    "silu": ("npu_silu",),
    "linear_cross_entropy": ("npu_cross_entropy_loss",),
    "fused_adam": ("_fused_adam", "npu_apply_adam"),
    "fused_adamw": ("_fused_adamw", "npu_apply_adam_w"),
    "fused_sgd": ("_fused_sgd",),
}
"""Canonical name to the device-specific names of the same calculation."""

_CANONICAL = {variant: name for name, variants in VARIANTS.items() for variant in variants}

VIEWS = names(
    "view t transpose permute expand slice select unsqueeze squeeze detach alias as_strided split "
    "split_with_sizes chunk unbind narrow movedim swapaxes unfold diagonal view_as_real view_as_complex numpy_T "
    "lift_fresh flatten unflatten"
)
"""Outputs alias the input; nothing is calculated."""

COPIES = names("_to_copy clone contiguous copy pin_memory _pin_memory lift_fresh_copy")
"""The values are moved or cast, nothing else."""

TRANSPORT = VIEWS | COPIES
"""Operators that devices insert or leave out freely; a missing one is not worth a word."""

QUERIES = names(
    "_local_scalar_dense item _fused_sdp_choice is_same_size sym_size sym_stride sym_numel is_nonzero equal"
)
"""Nothing is calculated: the host asks for a number or a choice."""

UNINITIALISED = names("empty empty_like empty_strided new_empty new_empty_strided empty_permuted resize")
"""Outputs hold whatever was in memory."""

ADOPTING = names("set set_data _pin_memory")
"""Outputs show memory that came from elsewhere (a storage, another process): their inputs say nothing about it."""

OVERWRITING = names("copy fill zero bernoulli normal uniform random exponential cauchy log_normal geometric")
"""In place, these do not read the first argument."""

RANDOM = names(
    "bernoulli native_dropout rand rand_like randn randn_like randint randint_like randperm normal "
    "normal_functional uniform random exponential cauchy log_normal geometric multinomial poisson "
    "rrelu_with_noise"
)
"""Operators that draw from the device's random-number generator."""

EXACT = TRANSPORT | names(
    "relu neg abs sign zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full scalar_tensor "
    "fill zero arange cat stack flip roll repeat index index_select gather embedding masked_fill where clamp "
    "clamp_min clamp_max maximum minimum constant_pad_nd pad tril triu eye max_pool2d_with_indices max amax min "
    "amin eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not "
    "floor ceil round trunc isnan isinf isfinite any all argmax argmin sort topk bernoulli one_hot "
    "upsample_nearest2d hardtanh threshold threshold_backward masked_select nonzero unique local_scalar_dense "
    "_local_scalar_dense item"
)
"""Given equal inputs, every device must return equal outputs."""

MOVING = TRANSPORT | names(
    "relu neg abs cat stack flip roll repeat index_select embedding clamp clamp_min clamp_max maximum minimum "
    "constant_pad_nd pad tril triu masked_fill max amax min amin max_pool2d_with_indices upsample_nearest2d hardtanh"
)
"""No element of an output is off by more than the worst element of the inputs."""

SELECTIVE = names(
    "threshold_backward max_pool2d_with_indices_backward hardtanh_backward leaky_relu_backward eq ne lt le gt ge "
    "sign argmax argmin nonzero searchsorted bucketize floor ceil round trunc elu_backward hardswish_backward "
    "heaviside hardsigmoid_backward adaptive_max_pool2d_backward median mode where gather index scatter unique"
)
"""Not continuous: a rounding difference of the input may switch single elements of the output completely."""

DIVIDING = names("reciprocal rsqrt log log2 log10 log1p sqrt")
"""Ill-conditioned where the argument comes near zero."""

EXPONENTIAL = names("exp exp2 expm1 pow sin cos tan sinh cosh softmax log_softmax logsumexp sigmoid tanh erf gelu silu")
"""An absolute error of the argument becomes a relative error of the result."""


@lru_cache(maxsize=4096)
def canonical_name(name: str) -> str:
    """Return the canonical name of an operator: `aten::_foreach_add_.List` → `add`, `aten::_softmax` → `softmax`."""
    base = name.rsplit("::", 1)[-1].split(".", 1)[0]
    base = base.removeprefix("_foreach_")
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    return _CANONICAL.get(base, base)


@lru_cache(maxsize=4096)
def is_inplace(name: str) -> bool:
    """Return whether the operator writes into its first argument: `aten::add_.Tensor`."""
    base = name.rsplit("::", 1)[-1].split(".", 1)[0]
    return base.endswith("_") and not base.endswith("__")


@lru_cache(maxsize=4096)
def is_foreach(name: str) -> bool:
    """Return whether one call of the operator stands for one call for each tensor of its lists."""
    base = name.rsplit("::", 1)[-1]
    return base.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad"))


SILENT_WRITES = {"native_batch_norm": ("input.3", "input.4")}
"""Inputs that an operator writes without returning them: running statistics."""


SHUFFLING = names(
    "flip roll rot90 index index_select gather take take_along_dim sort scatter repeat_interleave index_put"
)
"""What these do wrong, statistics of their output do not show: the elements have only changed places."""

OPAQUE: dict[str, tuple[str, ...]] = {
    "mkldnn_rnn_layer": ("output.3",),
    "_cudnn_rnn": ("output.3", "output.4"),
    "scaled_dot_product_attention": tuple(f"output.{place}" for place in range(2, 9)),
}
"""Outputs that are a kernel's own notes for its backward: workspace, packed weights, the generator's state."""
