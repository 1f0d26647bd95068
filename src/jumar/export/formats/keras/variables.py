"""`variable_names`: what Keras 3 calls the variables of a layer, which its files only number."""

from __future__ import annotations

import re

_KERNEL = (("kernel",), ("kernel", "bias"))
_NORM = (("gamma", "beta"),)
_CELL = (("kernel", "recurrent_kernel"), ("kernel", "recurrent_kernel", "bias"))
_SEPARABLE = (("depthwise_kernel", "pointwise_kernel"), ("depthwise_kernel", "pointwise_kernel", "bias"))
_KNOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "batch_normalization": (("gamma", "beta", "moving_mean", "moving_variance"),),
    "layer_normalization": _NORM,
    "group_normalization": _NORM,
    "embedding": (("embeddings",),),
    "separable_conv1d": _SEPARABLE,
    "separable_conv2d": _SEPARABLE,
    "lstm_cell": _CELL,
    "gru_cell": _CELL,
    "simple_rnn_cell": _CELL,
    "cell": _CELL,
    "p_re_lu": (("alpha",),),
} | dict.fromkeys(
    ["dense", "einsum_dense", "conv1d", "conv2d", "conv3d", "conv1d_transpose", "conv2d_transpose",
     "conv3d_transpose", "depthwise_conv1d", "depthwise_conv2d", "query_dense", "key_dense", "value_dense",
     "output_dense", "_query_dense", "_key_dense", "_value_dense", "_output_dense"],
    _KERNEL,
)  # fmt: skip
"""Class in snake case to the variables that it can have, in the order in which Keras makes them."""


def variable_names(group: str, number: int) -> tuple[str, ...]:
    """Return the names of the `number` variables of the layer in a group; nothing where they are not certain.

    Keras names the group after the class: `dense`, `dense_1`. A normalisation without a scale or an offset has fewer
    variables, and which one is missing is not in the file: they keep their numbers.
    """
    kind = re.sub(r"_\d+$", "", group)
    return next((names for names in _KNOWN.get(kind, ()) if len(names) == number), ())
