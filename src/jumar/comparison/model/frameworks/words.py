"""Reads a recording of another framework in PyTorch's words: `in_common_words`.

Put in PyTorch's words are the classes of optimizers and their settings; modules and parameters have their own table
(`renames`). Optimizers of two frameworks group parameters each in its own way: both sides are read as if each
parameter had a group of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jumar.comparison.model.calls import plain_path
from jumar.comparison.model.renames import PARAMETERS
from jumar.recording.history.model import HistoryStep
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

OPTIMIZERS = {
    "Momentum": "SGD", "AdamWeightDecay": "AdamW", "FusedAdamW": "AdamW", "FusedAdam": "Adam", "RMSProp": "RMSprop",
    "AdaMax": "Adamax", "Ftrl": "FTRL", "LazyAdam": "Adam",
}  # fmt: skip
"""Optimizers of MindSpore, and PyTorch's for the same update."""

SETTINGS = {
    "learning_rate": "lr", "epsilon": "eps", "use_nesterov": "nesterov", "use_amsgrad": "amsgrad", "decay": "alpha",
}  # fmt: skip
"""Settings of MindSpore's optimizers, and PyTorch's names for them."""


def in_common_words(recording: RecordingLike, other: RecordingLike) -> RecordingLike:
    """Return the recording as it is to be compared with another one: itself where both are of PyTorch."""
    if recording.info.framework == other.info.framework == "torch":
        return recording
    return InWords(recording)


class InWords:
    """A recording in PyTorch's words; everything else is the recording's own."""

    def __init__(self, recording: RecordingLike) -> None:
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        """Return what the recording has."""
        return getattr(self._recording, name)

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Return the rows of a step, each parameter in a group of its own."""
        return _by_parameter([_renamed(row) for row in self._recording.rows(step, rank)])

    def history(self, rank: int = 0) -> Any:
        """Return the numbers of every step, settings that are the same for all parameters only."""
        found = getattr(self._recording, "history", lambda _: None)(rank)
        return None if found is None else [_common(step) for step in found]


def _renamed(row: CallRow) -> CallRow:
    if row.kind == "optimizer":
        settings = torch_settings(_parsed(row.arguments))
        return replace(row, name=OPTIMIZERS.get(row.name, row.name), arguments=json.dumps(settings))
    if row.kind == "parameter" and row.arguments:
        told = _parsed(row.arguments)
        told["optimizer"] = OPTIMIZERS.get(str(told.get("optimizer")), told.get("optimizer"))
        return replace(row, arguments=json.dumps(told))
    return row


def torch_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an optimizer, a list with one item a group each, by PyTorch's names."""
    found = {SETTINGS.get(name, name): values for name, values in settings.items()}
    first, second = found.pop("beta1", None), found.pop("beta2", None)
    if isinstance(first, list) and isinstance(second, list):
        found["betas"] = [list(pair) for pair in zip(first, second, strict=False)]
    if all(scale == 1.0 for scale in _list(found.get("loss_scale"))):
        found.pop("loss_scale", None)
    return found


def _by_parameter(rows: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows with one group a parameter, in the order of the parameters' names."""
    told = {id(row): _parsed(row.arguments) for row in rows if row.kind == "parameter" and row.arguments}
    trained = sorted((row for row in rows if id(row) in told), key=_parameter_key)
    places: dict[int, int] = {}
    arguments: dict[int, str] = {}
    for optimizer in (row for row in rows if row.kind == "optimizer"):
        settings = _parsed(optimizer.arguments)
        own = [row for row in trained if told[id(row)].get("optimizer") == optimizer.name]
        groups = [told[id(row)].get("group") for row in own]
        if not own or not all(isinstance(group, int) for group in groups):
            continue
        places |= {id(row): place for place, row in enumerate(own)}
        each = {name: [_item(values, group) for group in groups] for name, values in settings.items()}
        arguments[id(optimizer)] = json.dumps(each)
    found = []
    for row in rows:
        if id(row) in places:
            found.append(replace(row, arguments=json.dumps(told[id(row)] | {"group": places[id(row)]})))
        else:
            found.append(replace(row, arguments=arguments[id(row)]) if id(row) in arguments else row)
    return found


def _parameter_key(row: CallRow) -> tuple[str, str]:
    return plain_path(row.module_path), PARAMETERS.get(row.name, row.name)


def _common(step: HistoryStep) -> HistoryStep:
    settings = {
        OPTIMIZERS.get(owner, owner): {
            name: values[:1]
            for name, values in torch_settings(of_owner).items()
            if isinstance(values, list) and all(value == values[0] for value in values)
        }
        for owner, of_owner in step.settings.items()
    }
    calls = {OPTIMIZERS.get(owner, owner): number for owner, number in step.calls.items()}
    return replace(step, settings=settings, calls=calls)


def _item(values: Any, group: Any) -> Any:
    return values[group] if isinstance(values, list) and group < len(values) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
