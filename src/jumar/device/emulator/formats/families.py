"""Which operators treat formats alike: by aten name, without overload and the underscore of in-place forms.

From op-plugin's adapters (which format an adapter declares for a result) and the migration guide (which
kernels read which format). Where neither says, an operator is `GENERAL`: it reads dense formats, and its
result is declared in the format of its first argument, the adapters' default.
"""

from __future__ import annotations

import enum
import functools

import torch

from jumar.device.emulator.plans import PLANS


class Family(enum.Enum):
    """How operators of a kind choose formats; `rules` has the rule of each."""

    CONVOLUTION = "convolution"
    CONVOLUTION_BACKWARD = "convolution backward"
    MATMUL = "matmul"
    BLOCKED = "blocked"
    """Pooling and the like: the kernel reads NC1HWC0 only."""
    NORMALISATION = "normalisation"
    FOLLOWING = "following"
    """Element by element: the first argument's format."""
    LISTS = "lists"
    """Element by element over lists of tensors."""
    CONCATENATION = "concatenation"
    COPY = "copy"
    CLONE = "clone"
    CAST = "cast"
    DENSE = "dense"
    """Reads and gives dense formats."""
    GENERAL = "general"
    UNTOUCHED = "untouched"
    """Views, casts of formats and allocations: no kernel reads or writes memory in a format."""


_NAMES: dict[Family, str] = {
    Family.CONVOLUTION: "convolution _convolution convolution_overrideable mkldnn_convolution conv2d conv_transpose2d "
    "conv_depthwise2d _conv_depthwise2d slow_conv_transpose2d slow_conv_dilated2d npu_conv2d npu_conv_transpose2d",
    Family.CONVOLUTION_BACKWARD: "convolution_backward",
    Family.MATMUL: "mm addmm bmm baddbmm addbmm npu_bmmV2 npu_linear",
    Family.BLOCKED: "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward "
    "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward adaptive_max_pool2d adaptive_max_pool2d_backward",
    Family.NORMALISATION: "native_batch_norm native_batch_norm_backward _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update batch_norm_backward "
    "batch_norm_elemt batch_norm_backward_elemt batch_norm_stats batch_norm_backward_reduce",
    Family.FOLLOWING: "zero fill native_dropout dropout hardtanh_backward leaky_relu_backward elu_backward "
    "hardswish hardswish_backward hardsigmoid_backward softplus_backward hardshrink_backward softshrink_backward "
    "mish_backward prelu _prelu_kernel _prelu_kernel_backward _softmax _log_softmax _softmax_backward_data "
    "_log_softmax_backward_data npu_dtype_cast zeros_like ones_like full_like empty_like rand_like randn_like "
    "bernoulli sgd relu6",
    Family.CONCATENATION: "cat concat",
    Family.COPY: "copy _copy_from copy_memory",
    Family.CLONE: "clone",
    Family.CAST: "_to_copy",
    Family.DENSE: "max min median kthvalue argmax argmin sort argsort topk nll_loss_forward nll_loss2d_forward "
    "grid_sampler_2d grid_sampler_3d norm linalg_vector_norm masked_select prod stack std var var_mean std_mean sum "
    "mean any all nonzero unique_dim _unique _unique2 unique_consecutive isfinite isnan isinf equal index_put_impl "
    "logsumexp mse_loss binary_cross_entropy col2im im2col",
    Family.UNTOUCHED: "npu_format_cast _npu_format_cast get_npu_format get_storage_size empty_with_format "
    "unsafe_empty_with_format record_stream resize set_data",
}

_LISTED = {name: family for family, names in _NAMES.items() for name in names.split()}


@functools.cache
def family_of(operator: str) -> Family:
    """Return the family of an operator overload (`aten::add.Tensor`, `npu::npu_rms_norm`)."""
    plan = PLANS.get(operator)
    if plan is not None and plan.form == "view":
        return Family.UNTOUCHED
    base = operator.partition("::")[2].partition(".")[0]
    name = base if base.startswith("__") or len(base) < 2 else base.removesuffix("_")
    listed = _LISTED.get(name) or _LISTED.get(base)
    if listed is not None and not (name in ("max", "min") and operator.endswith(".other")):
        return listed
    if name.startswith(("_foreach_", "_fused_", "_amp_foreach_")):
        return Family.LISTS
    return Family.FOLLOWING if _is_pointwise(operator) else Family.GENERAL


def _is_pointwise(operator: str) -> bool:
    namespace, _, rest = operator.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    found = getattr(packet, overload or "default", None)
    return found is not None and torch.Tag.pointwise in found.tags
