"""A call of MindSpore's dump, and what its optimizers did to the parameters: `DumpedCall`, `updates`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.recording.foreign.safe import load_npy
from jumar.recording.foreign.values import bare_row, call_row
from jumar.recording.schema import CallRow, Phase

if TYPE_CHECKING:
    import numpy as np

_LAYER = re.compile(r"([A-Za-z_]\w*?)-([A-Za-z0-9]+)[_/]")
_WRAPPERS = frozenset({"network", "_backbone", "_network", "backbone"})
"""Attributes under which training cells hold the model."""


@dataclass(slots=True)
class DumpedCall:
    """The files of one call by tensor name."""

    type: str
    name: str
    time: int
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        """What the call works for."""
        if self.name.startswith("Gradients"):
            return "backward"
        updates = self.type.startswith("Apply") or re.search(r"(^|[_/])_?optimizer-", self.name)
        return "optimizer" if updates else "forward"

    @property
    def layers(self) -> list[tuple[str, str]]:
        """(name, class) of the layers around the call, the outermost first, wrappers of the training left out."""
        name = re.sub(r"^(Gradients[_/])?(recompute_)?Default[_/]", "", self.name)
        found = [(match[1], match[2]) for match in _LAYER.finditer(name)]
        root = ""
        while found and found[0][0] in _WRAPPERS:
            root = found.pop(0)[1]
        if root and not root.endswith(("LossCell", "StepCell", "ScaleCell")):
            found.insert(0, ("", root))  # the model itself
        if found and found[0][0] == "_loss_fn":  # beside the model, as a recording names it
            found[0] = (found[0][1], found[0][1])
        return found

    @property
    def path(self) -> str:
        """Path of the innermost layer."""
        return ".".join(name for name, _ in self.layers if name)


def updates(
    values: Sequence[DumpedCall], owners: dict[str, tuple[str, str]], operators: Sequence[DumpedCall]
) -> Iterator[tuple[CallRow, dict[str, Path]]]:
    """Yield the optimizer, then the parameters as the step left them; inputs and states of the optimizer are none."""
    those = [call for call in operators if call.type.startswith("Apply") or call.type in _ARGUMENTS]
    settings = list(dict.fromkeys(map(_settings_of, those)))
    kinds = {call.type for call in those}
    if settings and len(kinds) == 1:
        names = [name for name, _ in settings[0]]
        lists = {name: [dict(one).get(name) for one in settings] for name in names}
        row = bare_row(_OPTIMIZERS.get(those[0].type, those[0].type), (), (), kind="optimizer", phase="optimizer",
                       arguments=json.dumps(lists))  # fmt: skip
        yield row, {}
    for call in sorted(values, key=lambda one: one.name):
        owner = next((name for name in sorted(owners, key=len, reverse=True) if call.name.startswith(f"{name}_")), None)
        if owner is not None and "output.0" in call.files:
            yield _parameter(call, call.name[len(owner) + 1 :], owners[owner], those, settings)


def _parameter(
    call: DumpedCall, name: str, owner: tuple[str, str], updates: Sequence[DumpedCall], settings: Sequence[_Settings]
) -> tuple[CallRow, dict[str, Path]]:
    files = {"output.0": call.files["output.0"]}
    arrays = {"output.0": load_npy(files["output.0"])}
    told: dict[str, object] = {}
    update = _update_of(arrays["output.0"], updates)
    if update is not None and (gradient := _gradient(update, arrays["output.0"])) is not None:
        files["input.grad"], arrays["input.grad"] = gradient, load_npy(gradient)
        kind = _OPTIMIZERS.get(update.type, update.type)
        told = {"optimizer": kind, "occurrences": [0], "group": settings.index(_settings_of(update))}
    row = call_row(
        name,
        {key: array for key, array in arrays.items() if key == "input.grad"},
        {"output.0": arrays["output.0"]},
        kind="parameter",
        phase="optimizer",
        module_path=owner[0],
        module_type=owner[1],
    )
    return replace(row, arguments=json.dumps(told) if told else ""), files


def _update_of(value: np.ndarray, updates: Sequence[DumpedCall]) -> DumpedCall | None:
    """Return the operator that left this value; None where none did, or more than one."""
    left = [call for call in updates if "input.0" in call.files and _is_equal(load_npy(call.files["input.0"]), value)]
    return left[0] if len(left) == 1 else None


def _gradient(update: DumpedCall, value: np.ndarray) -> Path | None:
    """Return the gradient that an update read: its last input of the parameter's shape, or the one its type says."""
    if "gradient" in _ARGUMENTS.get(update.type, {}):
        return update.files.get(f"input.{_ARGUMENTS[update.type]['gradient']}")
    inputs = sorted((name for name in update.files if name.startswith("input.")), key=natural)
    same = [name for name in inputs[1:] if load_npy(update.files[name]).shape == value.shape]
    return update.files[same[-1]] if same else None


def _settings_of(update: DumpedCall) -> _Settings:
    """Return the settings of an update by MindSpore's names."""
    found = []
    for name, slot in _ARGUMENTS.get(update.type, {}).items():
        file = update.files.get(f"input.{slot}")
        array = load_npy(file) if file is not None and name != "gradient" else None
        if array is not None and array.size == 1:
            value = array.reshape(-1)[0]
            found.append((name, float(str(value)) if array.dtype.kind == "f" else value.item()))
    return tuple(found)


_Settings = tuple[tuple[str, float], ...]
_OPTIMIZERS = {"ApplyMomentum": "Momentum", "ApplyAdam": "Adam", "ApplyFtrl": "Ftrl", "ApplyRMSProp": "RMSProp"}
"""Operators that update a parameter, and the optimizer that makes them."""
_ARGUMENTS: dict[str, dict[str, int]] = {
    "ApplyMomentum": {"learning_rate": 2, "gradient": 3, "momentum": 4},
    "Adam": {"learning_rate": 5, "beta1": 6, "beta2": 7, "eps": 8, "gradient": 9},
    "ApplyAdam": {"learning_rate": 5, "beta1": 6, "beta2": 7, "eps": 8, "gradient": 9},
    "AdamWeightDecay": {"learning_rate": 3, "beta1": 4, "beta2": 5, "eps": 6, "weight_decay": 7, "gradient": 8},
    "SGD": {"gradient": 1, "learning_rate": 2, "momentum": 4},
    "Lamb": {}, "FusedAdam": {},
}  # fmt: skip
"""Where operators that update a parameter take what, by their published signatures; the parameter comes first."""


def _is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def natural(name: str) -> tuple[str, int]:
    """Return a key that sorts `input.10` after `input.9`."""
    side, _, index = name.partition(".")
    return side, int(index)
