"""Which operators are tuned, and why others are not.

Tuned are the operators that a model spends its time in, that are pure (same inputs, same outputs,
nothing written) and whose inputs may hold any random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from jumar.findings import Json

SPATIAL = frozenset(
    {
        "convolution",
        "conv2d",
        "conv3d",
        "max_pool2d",
        "avg_pool1d",
        "adaptive_avg_pool2d",
        "batch_norm",
        "group_norm",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "avg_pool2d",
        "avg_pool3d",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "native_group_norm",
        "upsample_nearest2d",
        "upsample_bilinear2d",
    }
)
"""Operators over images and volumes: channels may be stored first or last."""

PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear"})
ATTENTION = frozenset(
    {
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_attention_math",
        "scaled_dot_product_attention",
    }
)
ROWWISE = frozenset(
    {
        "_softmax",
        "_log_softmax",
        "softmax",
        "log_softmax",
        "native_layer_norm",
        "layer_norm",
        "gelu",
        "silu",
        "mean",
        "sum",
    }
)
TUNABLE = SPATIAL | PRODUCTS | ATTENTION | ROWWISE
"""Base names, in aten."""

RANDOM_ARGUMENTS = ("dropout_p", "dropout")
"""Arguments that make an operator draw random numbers when they are not zero."""


def reason_not_tuned(operator: str, arguments: Mapping[str, Json]) -> str:
    """Return why a call is no task, as the end of the sentence "… is not tuned: "; empty when it is one."""
    namespace, _, rest = operator.rpartition("::")
    if namespace != "aten" or rest.partition(".")[0] not in TUNABLE:
        return "it is not among the operators that are tuned so far"
    for name in RANDOM_ARGUMENTS:
        if arguments.get(name):
            return f"it draws random numbers ({name} is {arguments[name]})"
    return ""
