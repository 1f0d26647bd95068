"""Two recordings of different frameworks: which class each module is of, in PyTorch's words: `Foreign`.

Modules of one place are one, whatever a program's own classes are called. Where one framework's layer applies an
activation itself (Keras' `Dense(activation="relu")`), its result is compared with that of the other side's activation,
see `built_in`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumar.comparison.model.calls import Call, plain_path
from jumar.comparison.model.frameworks.layers import alike, in_torch_words
from jumar.comparison.model.frameworks.partners.built_in import Joined, join
from jumar.comparison.model.frameworks.partners.padded import without_padded
from jumar.comparison.model.frameworks.tables import words_of
from jumar.comparison.model.kinds import LOSSES, SINGLE_LAYERS
from jumar.operators.layers import CLASSES
from jumar.recording import RunInfo
from jumar.recording.schema import CallRow

CONTAINERS = frozenset({"Sequential", "ModuleList"})
STATELESS = frozenset({
    "Flatten", "Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ReLU", "ReLU6", "LeakyReLU", "ELU",
    "SELU", "CELU", "GELU", "SiLU", "Mish", "Tanh", "Sigmoid", "Softplus", "Softsign", "Softmax", "LogSoftmax",
    "LogSigmoid", "Hardswish", "Hardsigmoid", "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "ZeroPad2d", "Upsample", "Activation", "Reshape", "Permute", "Add",
    "Concatenate", "Multiply", "Subtract", "Average", "Maximum", "Minimum", "Rescaling", "InputLayer", "Lambda",
    "TFOpLambda",
})  # fmt: skip
"""Classes without parameters: a program may call a function in their stead."""
LAYERS = (SINGLE_LAYERS | LOSSES | STATELESS | {*CLASSES.values()} | {"LSTM", "GRU", "RNN"}) - CONTAINERS
"""Classes that are one calculation each, in PyTorch's words."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """What the layers of both runs (0 the reference, 1 the target) are, in PyTorch's words."""

    classes: tuple[Mapping[str, str], Mapping[str, str]]
    """By path; a layer of which PyTorch has no counterpart is not in it."""
    activations: tuple[Mapping[str, str], Mapping[str, str]]
    """By path, of layers that apply an activation to their result themselves."""

    def class_of(self, row: CallRow, side: int) -> str:
        """Return PyTorch's class of the module of a row; the program's own class of others."""
        known = self.classes[side].get(plain_path(row.module_path), "")
        return known or CLASSES.get(row.module_type, row.module_type)

    def layer_of(self, row: CallRow, side: int) -> str:
        """Return PyTorch's class of a layer; empty for a program's own class and for containers."""
        kind = self.class_of(row, side)
        return kind if kind in LAYERS else ""

    def prepare(self, reference: Sequence[Call], target: Sequence[Call]) -> Joined:
        """Return the calls of both sides in the form in which modules of two frameworks can be compared."""
        first = [self._named(call, 0) for call in reference]
        second = _of_one_place(first, [self._named(call, 1) for call in target])
        sides, padded = without_padded((first, second))
        joined = join(sides, self.activations)
        return replace(joined, sentences=(*padded, *joined.sentences))

    def _named(self, call: Call, side: int) -> Call:
        if call.row.kind != "module":
            return call
        kind = self.class_of(call.row, side)
        if kind == call.operator == call.layer:
            return call
        return replace(call, operator=kind, row=replace(call.row, module_type=kind))


def foreign(reference: RunInfo, target: RunInfo) -> Foreign | None:
    """Return what is known of the layers of two frameworks; None for two recordings of one."""
    if reference.framework == target.framework:
        return None
    infos = reference, target
    classes = tuple(
        {
            path: kind
            for path, settings in info.layers.items()
            if (kind := str(in_torch_words(settings, info.framework).get("type", "")))
        }
        for info in infos
    )
    activations = tuple(
        {
            path: kind
            for path, settings in info.layers.items()
            if (kind := words_of(info.framework).built_in_activation(settings))
        }
        for info in infos
    )
    return Foreign((classes[0], classes[1]), (activations[0], activations[1]))


def _of_one_place(reference: Sequence[Call], target: Sequence[Call]) -> list[Call]:
    """Return the target's calls, modules of one place under the reference's class unless both are other layers."""
    classes = {call.place: call.operator for call in reference if call.row.kind == "module"}
    return [_under(call, classes.get(call.place, "")) if call.row.kind == "module" else call for call in target]


def _under(call: Call, kind: str) -> Call:
    if not kind or kind == call.operator or ({kind, call.operator} <= LAYERS and not alike(kind, call.operator)):
        return call
    return replace(call, operator=kind)
