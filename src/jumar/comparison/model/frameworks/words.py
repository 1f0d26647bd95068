"""Reads a recording of another framework in PyTorch's words: `in_common_words`.

Put in PyTorch's words are the classes of optimizers and their settings, by the framework's table (`tables`). Modules,
layers and parameters keep their names; the same tables tell which belong together. Optimizers of two frameworks group
parameters each in its own way: both sides are read as if each parameter had a group of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jumar.comparison.model.calls import plain_path
from jumar.comparison.model.frameworks.form import Words
from jumar.comparison.model.frameworks.tables import words_of
from jumar.comparison.model.renames import torch_parameter
from jumar.recording.history.model import HistoryStep, Settings
from jumar.recording.history.reader import History
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow


def in_common_words(recording: RecordingLike, other: RecordingLike) -> RecordingLike:
    """Return the recording as it is to be compared with another one: itself where both are of PyTorch."""
    if recording.info.framework == other.info.framework == "torch":
        return recording
    return InWords(recording)


class InWords:
    """A recording in PyTorch's words; everything else is the recording's own."""

    def __init__(self, recording: RecordingLike) -> None:
        self._recording = recording
        self._words = words_of(recording.info.framework)

    def __getattr__(self, name: str) -> Any:
        """Return what the recording has."""
        return getattr(self._recording, name)

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Return the rows of a step, each parameter in a group of its own."""
        return _by_parameter(_renamed(self._recording.rows(step, rank), self._words))

    def history(self, rank: int = 0) -> Any:
        """Return the numbers of every step, settings that are the same for all parameters only."""
        found = getattr(self._recording, "history", lambda _: None)(rank)
        return None if found is None else HistoryInWords(found, self._words)


class HistoryInWords:
    """A history with optimizers in PyTorch's words; everything else is the history's own."""

    def __init__(self, history: History, words: Words) -> None:
        self._history, self._words = history, words

    def __getattr__(self, name: str) -> Any:
        """Return what the history has."""
        return getattr(self._history, name)

    def read(self, step: int) -> HistoryStep:
        """Return one step, see `History.read`."""
        return _common(self._history.read(step), self._words)

    def __iter__(self) -> Iterator[HistoryStep]:
        """Yield the steps in order."""
        return (_common(step, self._words) for step in self._history)

    def settings(self, step: int) -> Settings:
        """Return the settings of a step without reading its values."""
        return _common_settings(self._history.settings(step), self._words)


def _renamed(rows: Sequence[CallRow], words: Words) -> list[CallRow]:
    """Return the rows with optimizers and their settings in PyTorch's words."""
    classes: dict[str, str] = {}
    found: dict[int, CallRow] = {}
    for row in (row for row in rows if row.kind == "optimizer"):
        classes[row.name], settings = torch_optimizer(row.name, _parsed(row.arguments), words)
        found[id(row)] = replace(row, name=classes[row.name], arguments=json.dumps(settings))
    known = {**words.optimizers, **classes}
    return [_of_optimizer(found.get(id(row), row), known) for row in rows]


def _of_optimizer(row: CallRow, classes: Mapping[str, str]) -> CallRow:
    """Return the row of a parameter with its optimizer's name in PyTorch's words."""
    if row.kind != "parameter" or not row.arguments:
        return row
    told = _parsed(row.arguments)
    name = str(told.get("optimizer"))
    if name not in classes:
        return row
    return replace(row, arguments=json.dumps({**told, "optimizer": classes[name]}))


def torch_optimizer(name: str, settings: Mapping[str, Any], words: Words) -> tuple[str, dict[str, Any]]:
    """Return class and settings of an optimizer, a list with one item a group each, by PyTorch's names."""
    found = {words.optimizer_settings.get(one, one): values for one, values in settings.items()}
    first, second = found.pop("beta1", None), found.pop("beta2", None)
    if isinstance(first, list) and isinstance(second, list):
        found["betas"] = [list(pair) for pair in zip(first, second, strict=False)]
    if all(scale == 1.0 for scale in _list(found.get("loss_scale"))):
        found.pop("loss_scale", None)
    return words.judge_optimizer(words.optimizers.get(name, name), found)


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
    return plain_path(row.module_path), torch_parameter(row.module_type, row.name)


def _common(step: HistoryStep, words: Words) -> HistoryStep:
    names = {owner: torch_optimizer(owner, of_owner, words)[0] for owner, of_owner in step.settings.items()}
    calls = {names.get(owner, words.optimizers.get(owner, owner)): num for owner, num in step.calls.items()}
    return replace(step, settings=_common_settings(step.settings, words), calls=calls)


def _common_settings(settings: Settings, words: Words) -> Settings:
    """Return the settings of optimizers in PyTorch's words, those that are the same for all groups."""
    return {
        name: {
            one: values[:1]
            for one, values in known.items()
            if isinstance(values, list) and all(value == values[0] for value in values)
        }
        for name, known in (torch_optimizer(owner, of_owner, words) for owner, of_owner in settings.items())
    }


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
