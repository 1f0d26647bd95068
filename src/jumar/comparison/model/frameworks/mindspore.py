"""MindSpore's names for what PyTorch has, too: `WORDS`."""

from __future__ import annotations

from typing import Any

from jumar.comparison.model.frameworks.form import Settings, Words, same_padding, single
from jumar.operators.layers import CLASSES

_OPTIMIZERS = {
    "Momentum": "SGD", "AdamWeightDecay": "AdamW", "FusedAdamW": "AdamW", "FusedAdam": "Adam", "RMSProp": "RMSprop",
    "AdaMax": "Adamax", "Ftrl": "FTRL", "LazyAdam": "Adam",
}  # fmt: skip
_OPTIMIZER_SETTINGS = {
    "learning_rate": "lr", "epsilon": "eps", "use_nesterov": "nesterov", "use_amsgrad": "amsgrad", "decay": "alpha",
}  # fmt: skip

_CONVOLUTION = {
    "in_channels": "in_channels", "out_channels": "out_channels", "kernel_size": "kernel_size", "stride": "stride",
    "padding": "padding", "dilation": "dilation", "group": "groups", "has_bias": "bias",
    "output_padding": "output_padding",
}  # fmt: skip
_POOLING = {
    "kernel_size": "kernel_size", "stride": "stride", "padding": "padding", "dilation": "dilation",
    "ceil_mode": "ceil_mode", "count_include_pad": "count_include_pad",
}  # fmt: skip
_RECURRENT = {
    "hidden_size": "hidden_size", "num_layers": "num_layers", "has_bias": "bias", "batch_first": "batch_first",
    "dropout": "dropout", "bidirectional": "bidirectional",
}  # fmt: skip
_BATCH_NORM = {"eps": "eps", "momentum": "momentum", "num_features": "num_features"}
_LOSS = {"reduction": "reduction", "ignore_index": "ignore_index", "label_smoothing": "label_smoothing"}

_LAYERS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), _CONVOLUTION),
    **dict.fromkeys(("Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose"), _CONVOLUTION),
    **dict.fromkeys(("MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d"), _POOLING),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"), _BATCH_NORM),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "BCELoss", "SmoothL1Loss"), _LOSS),
    **dict.fromkeys(("BCEWithLogitsLoss", "KLDivLoss", "HuberLoss", "SoftmaxCrossEntropyWithLogits"), _LOSS),
    "LayerNorm": {"epsilon": "eps", "eps": "eps", "normalized_shape": "normalized_shape"},
    "GroupNorm": {"eps": "eps", "num_groups": "num_groups", "num_channels": "num_channels"},
    "Dense": {"in_channels": "in_features", "out_channels": "out_features", "has_bias": "bias"},
    "Embedding": {
        "vocab_size": "num_embeddings", "embedding_size": "embedding_dim", "num_embeddings": "num_embeddings",
        "embedding_dim": "embedding_dim", "padding_idx": "padding_idx",
    },
    "Dropout": {"p": "p"}, "Dropout1d": {"p": "p"}, "Dropout2d": {"p": "p"}, "Dropout3d": {"p": "p"},
    "GELU": {"approximate": "approximate"},
    "Softmax": {"axis": "dim", "dim": "dim"}, "LogSoftmax": {"axis": "dim", "dim": "dim"},
    "LeakyReLU": {"alpha": "negative_slope", "negative_slope": "negative_slope"},
    "ELU": {"alpha": "alpha"}, "CELU": {"alpha": "alpha"},
}  # fmt: skip
"""By class its settings that are compared, with PyTorch's names. What a class of this table does not name is not
compared. (The `momentum` of BatchNorm is recorded as PyTorch defines it.)"""


def layer(settings: Settings) -> dict[str, Any]:
    """Return the settings of a layer in PyTorch's words."""
    kind = str(settings.get("type", ""))
    found: dict[str, Any] = {"type": CLASSES.get(kind, kind)}
    words = _LAYERS.get(kind, {})
    known = {*words, *words.values()}
    for name, value in settings.items():
        if name == "type" or (words and name not in known):
            continue
        found[words.get(name, name)] = value
    if "pad_mode" in settings:
        found.pop("padding", None)
        if (padding := _padding(settings)) is not None:
            found["padding"] = padding
    return found


def _padding(settings: Settings) -> Any:
    """Return the padding on each side that a mode stands for; a text where that depends on the input."""
    mode = str(settings["pad_mode"]).lower()
    if mode == "valid":
        return 0
    if mode == "same":
        return same_padding(settings.get("kernel_size"), settings.get("stride"), settings.get("dilation", 1))
    return single(settings.get("padding", 0))


WORDS = Words(
    optimizers=_OPTIMIZERS,
    optimizer_settings=_OPTIMIZER_SETTINGS,
    layer=layer,
)
