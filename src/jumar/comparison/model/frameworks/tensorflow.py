"""TensorFlow's and Keras' names for what PyTorch has, too: `WORDS`.

The same word need not mean the same. Batch norm's `momentum` is 1 minus PyTorch's. `weight_decay` is decoupled from the
gradient in every optimizer of Keras, in PyTorch in AdamW alone. Nadam changes its momentum by another rule than
PyTorch's NAdam and is no partner of it. The defaults differ in truth (`epsilon` is 1e-7), which is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.comparison.model.frameworks.form import (
    IN_ROOT,
    UNCORRECTED,
    Lists,
    Settings,
    Words,
    same_padding,
)
from jumar.comparison.model.renames import EPSILON_FORM
from jumar.operators.layers import CLASSES

_SAME_CLASSES = frozenset({"Embedding", "Dropout", "Flatten", "Softmax", "ReLU", "LeakyReLU", "ELU", "LSTM", "GRU"})

ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "leaky_relu": "LeakyReLU", "elu": "ELU", "selu": "SELU", "celu": "CELU",
    "gelu": "GELU", "silu": "SiLU", "swish": "SiLU", "mish": "Mish", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "softplus": "Softplus", "softsign": "Softsign", "softmax": "Softmax", "log_softmax": "LogSoftmax",
    "log_sigmoid": "LogSigmoid",
}  # fmt: skip
"""Names of `activation`, and PyTorch's modules for the same. (`hard_sigmoid` of Keras 2 has another slope.)"""
LINEAR = frozenset({"", "linear", "None"})
"""Names of `activation` that change nothing."""
FORMS = {"Adam": UNCORRECTED, "AdamW": UNCORRECTED, "RMSprop": IN_ROOT, "Adagrad": IN_ROOT}
"""Where Keras adds `epsilon`, by PyTorch's class, in another place than PyTorch."""


_OPTIMIZERS = {
    "GradientDescentOptimizer": "SGD", "GradientDescent": "SGD", "MomentumOptimizer": "SGD", "Momentum": "SGD",
    "AdamOptimizer": "Adam", "AdagradOptimizer": "Adagrad", "AdadeltaOptimizer": "Adadelta",
    "RMSPropOptimizer": "RMSprop", "RMSProp": "RMSprop",
}  # fmt: skip
_OPTIMIZER_SETTINGS = {
    "learning_rate": "lr", "epsilon": "eps", "use_nesterov": "nesterov", "beta_1": "beta1", "beta_2": "beta2",
}  # fmt: skip
_IMPLIED: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.0, "nesterov": False, "dampening": 0.0},
    "Adam": {"amsgrad": False},
    "AdamW": {"amsgrad": False},
    "Adagrad": {"lr_decay": 0.0},
    "RMSprop": {"momentum": 0.0, "centered": False},
}
"""Settings that TensorFlow 1 or Keras has no word for, with the value that its update stands for."""


def optimizer(name: str, settings: Lists) -> tuple[str, Lists]:
    """Return class and settings as PyTorch means them.

    `decay` is the mean's in RMSprop (TensorFlow 1), and else Keras' own decay of the learning rate, which the recorded
    rate holds. A weight decay is decoupled: Adam with one is AdamW; with plain gradient descent it makes no difference.
    """
    num = max(map(len, settings.values()), default=0)
    found: Lists = {**settings, "weight_decay": settings.get("weight_decay") or [0.0] * num}
    decay = found.pop("decay", None)
    mean = found.pop("rho", None) if name == "RMSprop" else None
    if name == "RMSprop" and (mean or decay):
        found["alpha"] = mean or decay or []
    if any(found["weight_decay"]):
        name = "AdamW" if name == "Adam" else name
        is_plain = name == "SGD" and not any(found.get("momentum", ()))
        if name != "AdamW" and not is_plain:
            found["weight_decay"] = [f"{value} (decoupled)" if value else value for value in found["weight_decay"]]
    for setting, value in _IMPLIED.get(name, {}).items():
        found.setdefault(setting, [value] * num)
    if name in FORMS and "eps" in found:
        found[EPSILON_FORM] = [FORMS[name]] * num
    return name, found


_CONVOLUTION = {
    "kernel_size": "kernel_size", "strides": "stride", "dilation_rate": "dilation", "groups": "groups",
    "use_bias": "bias", "output_padding": "output_padding", "activation": "activation",
}  # fmt: skip
_DEPTHWISE = {name: word for name, word in _CONVOLUTION.items() if name != "groups"}
_POOLING = {"pool_size": "kernel_size", "strides": "stride"}
_RECURRENT = {
    "units": "hidden_size", "use_bias": "bias", "activation": "activation", "reset_after": "reset_after",
    "recurrent_activation": "recurrent_activation",
}  # fmt: skip
_DROPOUT = {"rate": "p"}

_LAYERS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _CONVOLUTION),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _CONVOLUTION),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _DEPTHWISE),
    **dict.fromkeys(("MaxPooling1D", "MaxPooling2D", "MaxPooling3D"), _POOLING),
    **dict.fromkeys(("AveragePooling1D", "AveragePooling2D", "AveragePooling3D"), _POOLING),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), _RECURRENT),
    **dict.fromkeys(("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"), _DROPOUT),
    "BatchNormalization": {"epsilon": "eps", "momentum": "momentum"},
    "LayerNormalization": {"epsilon": "eps"},
    "GroupNormalization": {"epsilon": "eps", "groups": "num_groups"},
    "Dense": {"units": "out_features", "use_bias": "bias", "activation": "activation"},
    "Embedding": {"input_dim": "num_embeddings", "output_dim": "embedding_dim"},
    "MultiHeadAttention": {"num_heads": "num_heads", "dropout": "dropout", "use_bias": "bias"},
    "LeakyReLU": {"alpha": "negative_slope", "negative_slope": "negative_slope"},
    "ReLU": {"negative_slope": "negative_slope", "max_value": "max_value"},
    "ELU": {"alpha": "alpha"},
}  # fmt: skip
"""By class its settings that are compared, with PyTorch's names. What a class of this table does not name is not
compared."""


def layer(settings: Settings) -> dict[str, Any]:
    """Return the settings of a layer in PyTorch's words and meaning."""
    kind = str(settings.get("type", ""))
    words = _LAYERS.get(kind, {})
    found: dict[str, Any] = {words[name]: value for name, value in settings.items() if name in words}
    for begins, change in _MEANINGS.items():
        if kind.startswith(begins):
            change(kind, found, settings)
    return {"type": torch_class(settings), **found}


def torch_class(settings: Settings) -> str:
    """Return PyTorch's class for a layer; empty where it has none, as for a model."""
    kind = str(settings.get("type", ""))
    if kind == "Activation":
        return ACTIVATIONS.get(str(settings.get("activation", "")), "")
    if kind == "ReLU" and settings.get("max_value") == 6:
        return "ReLU6"
    if kind == "ReLU" and settings.get("negative_slope"):
        return "LeakyReLU"
    return CLASSES.get(kind, kind if kind in _SAME_CLASSES else "")


def built_in_activation(settings: Settings) -> str:
    """Return PyTorch's class of the activation that a layer applies to its result itself; empty where it has none.

    An activation without a class of PyTorch has its own name.
    """
    kind, name = str(settings.get("type", "")), str(settings.get("activation", ""))
    if kind in {"Activation", "LSTM", "GRU", "SimpleRNN"} or name in LINEAR:
        return ""
    return ACTIVATIONS.get(name, name)


def _of_convolution(kind: str, found: dict[str, Any], settings: Settings) -> None:
    mode = str(settings.get("padding", "")).lower()
    if mode == "valid":
        found["padding"] = 0
    elif mode == "same" and not kind.endswith("Transpose"):
        found["padding"] = same_padding(found.get("kernel_size"), found.get("stride", 1), found.get("dilation", 1))
    elif mode == "causal":
        found["padding"] = "causal (all at the start)"


def _of_pooling(kind: str, found: dict[str, Any], settings: Settings) -> None:
    if found.get("stride") is None and "kernel_size" in found:
        found["stride"] = found["kernel_size"]
    _of_convolution(kind, found, settings)
    if kind.startswith("Average") and found.get("padding"):
        found["count_include_pad"] = False


def _of_batch_norm(kind: str, found: dict[str, Any], settings: Settings) -> None:
    del kind
    if isinstance(found.get("momentum"), (int, float)):
        found["momentum"] = 1 - found["momentum"]
    if {"center", "scale"} <= settings.keys():
        found["affine"] = bool(settings["center"] and settings["scale"])


def _of_recurrent(kind: str, found: dict[str, Any], settings: Settings) -> None:
    del kind
    found["batch_first"] = not settings.get("time_major", False)


def _of_global_pooling(kind: str, found: dict[str, Any], settings: Settings) -> None:
    del kind, settings
    found["output_size"] = 1


_MEANINGS: dict[str, Callable[[str, dict[str, Any], Settings], None]] = {
    "Conv": _of_convolution,
    "DepthwiseConv": _of_convolution,
    "MaxPooling": _of_pooling,
    "AveragePooling": _of_pooling,
    "BatchNormalization": _of_batch_norm,
    "LSTM": _of_recurrent,
    "GRU": _of_recurrent,
    "SimpleRNN": _of_recurrent,
    "Global": _of_global_pooling,
}

WORDS = Words(
    optimizers=_OPTIMIZERS,
    optimizer_settings=_OPTIMIZER_SETTINGS,
    judge_optimizer=optimizer,
    built_in_activation=built_in_activation,
    layer=layer,
)
