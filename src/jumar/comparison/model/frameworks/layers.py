"""Compares the settings that layers were made with, of two frameworks too: `layer_differences`.

A recording lists the layers of its framework (`RunInfo.layers`): class and settings by the framework's own names. They
are put in PyTorch's words (`tables`). Settings that only one side lists are not compared, and neither are classes of
which PyTorch has no counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jumar.comparison.model.correspondence import LayerDiff
from jumar.comparison.model.frameworks.form import single
from jumar.comparison.model.frameworks.tables import words_of
from jumar.recording import RunInfo

Settings = Mapping[str, Any]


def layer_differences(reference: RunInfo, target: RunInfo, place_of: Callable[[str], str]) -> list[LayerDiff]:
    """Return the settings that differ; `place_of` gives the reference's path for one of the target."""
    of_target = {place_of(path): in_torch_words(settings, target.framework) for path, settings in target.layers.items()}
    found = []
    for path, settings in reference.layers.items():
        other = of_target.get(path)
        if other is None:
            continue
        one = in_torch_words(settings, reference.framework)
        kind = str(one.get("type", ""))
        if not alike(kind, str(other.get("type", ""))):
            found.append(LayerDiff(path=path, kind=kind, name="class", reference=kind, target=other.get("type")))
            continue
        found += [
            LayerDiff(path=path, kind=kind, name=name, reference=one[name], target=other[name])
            for name in one
            if name in other and name not in _NOT_COMPARED and not _equal(one[name], other[name])
        ]
    return found


def in_torch_words(settings: Settings, framework: str = "torch") -> dict[str, Any]:
    """Return the settings of a layer by PyTorch's names. `type` is empty where PyTorch has no such class."""
    return words_of(framework).layer(settings)


def alike(one: str, other: str) -> bool:
    """Return whether two classes of PyTorch may stand for one layer. One that is not known may be any.

    Keras has one class of batch norm and of dropout for all numbers of dimensions.
    """
    return not one or not other or one == other or plain_class(one) == plain_class(other)


def plain_class(kind: str) -> str:
    """Return a class without its number of dimensions, where Keras has one class for all."""
    return re.sub(r"^(BatchNorm|Dropout)[123]d$", r"\1", kind)


def _equal(one: Any, other: Any) -> bool:
    first, second = single(one), single(other)
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
    "negative_slope", "approximate", "reduction", "activation", "recurrent_activation", "reset_after", "output_size",
    "max_value", "num_heads",
})  # fmt: skip
"""Settings whose effect shows in every result of the layer, where they have one: a layer that agrees is not accused."""
_NOT_COMPARED = frozenset(
    {"type", "inplace", "return_indices", "in_channels", "out_channels", "in_features", "out_features"}
)
"""Sizes show in the shapes of the parameters."""
