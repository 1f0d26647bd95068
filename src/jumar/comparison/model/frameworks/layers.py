"""Compares the settings that layers were made with, PyTorch's with MindSpore's too: `layer_differences`.

A recording lists the layers of its framework (`RunInfo.layers`): class and settings by the framework's own names.
MindSpore's are put in PyTorch's words here. Settings that only one side lists are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jumar.comparison.model.correspondence import LayerDiff
from jumar.comparison.model.renames import CLASSES
from jumar.recording import RunInfo

Settings = Mapping[str, Any]


def layer_differences(reference: RunInfo, target: RunInfo, place_of: Callable[[str], str]) -> list[LayerDiff]:
    """Return the settings that differ; `place_of` gives the reference's path for one of the target."""
    of_target = {place_of(path): in_torch_words(settings) for path, settings in target.layers.items()}
    found = []
    for path, settings in reference.layers.items():
        other = of_target.get(path)
        if other is None:
            continue
        one = in_torch_words(settings)
        kind = str(one.get("type", ""))
        if one.get("type") != other.get("type"):
            found.append(LayerDiff(path=path, kind=kind, name="class", reference=kind, target=other.get("type")))
            continue
        found += [
            LayerDiff(path=path, kind=kind, name=name, reference=one[name], target=other[name])
            for name in one
            if name in other and name not in _NOT_COMPARED and not _equal(one[name], other[name])
        ]
    return found


def in_torch_words(settings: Settings) -> dict[str, Any]:
    """Return the settings of a layer by PyTorch's names; those of a layer of PyTorch as they are."""
    kind = str(settings.get("type", ""))
    found: dict[str, Any] = {"type": CLASSES.get(kind, kind)}
    words = _WORDS.get(kind, {})
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
    """Return the padding on each side that a mode of MindSpore stands for; `same` where that depends on the input."""
    mode, given = str(settings["pad_mode"]).lower(), settings.get("padding", 0)
    if mode == "valid":
        return 0
    if mode == "same":
        kernel, stride = (_single(settings.get(name)) for name in ("kernel_size", "stride"))
        dilation = _single(settings.get("dilation", 1)) or 1
        span = dilation * (kernel - 1) if isinstance(kernel, int) else 1
        if not span:
            return 0
        return span // 2 if stride == 1 and not span % 2 else "same (more at the end)"
    return _single(given)


def _single(value: Any) -> Any:
    """Return the one number of a list of equal ones."""
    if isinstance(value, (list, tuple)) and value and all(item == value[0] for item in value):
        return value[0]
    return value


def _equal(one: Any, other: Any) -> bool:
    first, second = _single(one), _single(other)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, float) or isinstance(second, float):
        numbers = isinstance(first, (int, float)) and isinstance(second, (int, float))
        return numbers and abs(first - second) <= _SAME * max(abs(first), abs(second))
    return bool(first == second)


_SAME = 1e-6
"""Relative difference of one number in float32 and in float64, and of 1 - 0.9 and 0.1."""
SHOWN_BY_VALUES = frozenset({
    "kernel_size", "stride", "padding", "dilation", "groups", "output_padding", "ceil_mode", "count_include_pad",
    "bias", "batch_first", "dim", "num_groups", "normalized_shape", "num_layers", "bidirectional", "hidden_size",
    "negative_slope", "approximate", "reduction",
})  # fmt: skip
"""Settings whose effect shows in every result of the layer, where they have one: a layer that agrees is not accused."""
_NOT_COMPARED = frozenset({"inplace", "return_indices", "in_channels", "out_channels", "in_features", "out_features"})
"""Sizes show in the shapes of the parameters."""

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

_WORDS: dict[str, dict[str, str]] = {
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
"""By class in either framework: its settings that are compared, MindSpore's or PyTorch's name first, PyTorch's after.
What a class of this table does not name is not compared."""
