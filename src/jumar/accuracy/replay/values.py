"""Arguments that are not tensors, from the JSON of a row back to what the operator takes."""

from __future__ import annotations

from typing import Any

import torch

from jumar.accuracy.replay.refusal import NotReplayable

_REFUSED = ("Generator", "Stream", "__torch__", "Storage", "Dimname")


def decoded(value: Any, kind: str, name: str) -> Any:
    """Return the value of an argument of the schema's type `kind` (`Optional[ScalarType]`, `List[int]`).

    Raises NotReplayable for what JSON does not hold (a generator, packed parameters of a quantised layer).
    """
    if kind.startswith("Optional["):
        return None if value is None else decoded(value, kind[len("Optional[") : -1], name)
    if isinstance(value, (list, tuple)):
        inner = kind[len("List[") : -1] if kind.startswith("List[") else kind
        return [item if item is None else decoded(item, inner, name) for item in value]
    if not isinstance(value, str):
        return value
    if kind in _BY_NAME:
        return _named(value, kind, name)
    if kind == "Generator":
        return None
    if kind.startswith(_REFUSED):
        raise NotReplayable("not recorded", f"the argument {name} is a {value}, which a recording does not hold")
    return value if kind == "str" else _number(value, name)


_BY_NAME = ("ScalarType", "Layout", "MemoryFormat", "Device")


def _named(value: str, kind: str, name: str) -> Any:
    if kind == "Device":
        try:
            return torch.device(value)
        except RuntimeError:  # a device this process has no name for: the replay runs elsewhere anyway
            return torch.device("cpu")
    found = getattr(torch, value, None)
    if found is None:
        raise NotReplayable("not recorded", f"the argument {name} is {value}, which this PyTorch does not know")
    return found


def _number(value: str, name: str) -> complex:
    """Return the complex number that a row writes as text."""
    try:
        return complex(value)
    except ValueError as error:
        raise NotReplayable(
            "not recorded", f"the argument {name} was recorded as {value}, from which it cannot be rebuilt"
        ) from error
