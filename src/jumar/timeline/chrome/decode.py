"""Bytes of JSON -> events: typed and fast where the text is sound, slowly where it is not.

msgspec reads sound JSON into structs. The standard library's reader takes what msgspec refuses: raw control characters
in names, bytes that are no UTF-8, NaN. It also reads everything where msgspec is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from types import NoneType
from typing import Any, Literal

BRIEF = ("name", "cat", "ph", "ts", "dur", "pid", "tid")
FULL = (*BRIEF, "args")
Fields = Literal["brief", "full", "whole"]
"""Without arguments, with those that a timeline keeps, or as dictionaries of all that the file says."""

RAW = {
    "Input Dims": "dims", "Input type": "types", "Call stack": "stack", "Module Hierarchy": "module",
    "Input Strides": "strides", "Collective name": "collective", "In msg nelems": "in_elements",
    "Out msg nelems": "out_elements", "dtype": "dtype", "Group size": "group_size", "Process Group Name": "group",
    "name": "name", "labels": "labels",
}  # fmt: skip
"""Arguments that are kept as JSON text, and their attributes."""
NUMBERS = {
    "External id": "external", "correlation": "correlation", "Sequence number": "sequence", "Bytes": "bytes",
    "Total Allocated": "allocated", "Total Reserved": "reserved", "Device Type": "device_type",
    "Device Id": "device_id", "device": "device",
}  # fmt: skip
"""Arguments that are numbers, and their attributes. All other arguments are skipped."""


NO_ARGUMENTS = {"args": None}
SCALARS = (str, int, float, Decimal, NoneType)


class Slow:
    """An event that the standard library read: the attributes of a fast one."""

    __slots__ = FULL

    def __init__(self, fields: Mapping[str, Any]) -> None:
        for name in BRIEF:
            value = fields.get(name)
            setattr(self, name, value if isinstance(value, SCALARS) else json.dumps(value, default=str))
        arguments = fields.get("args")
        self.args = SlowArguments(arguments) if isinstance(arguments, dict) else None


class SlowArguments:
    """The arguments of a `Slow` event."""

    __slots__ = (*RAW.values(), *NUMBERS.values(), "numbers")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        for key, name in NUMBERS.items():
            setattr(self, name, fields.get(key))
        for key, name in RAW.items():
            setattr(self, name, json.dumps(fields[key], default=str).encode() if key in fields else b"")
        self.numbers = {key: float(value) for key, value in fields.items() if type(value) in {int, float, Decimal}}
        """All numbers: the values of a counter."""


def loosely(text: bytes) -> Any:
    """Return the value of JSON text that may hold control characters, bytes of other encodings, NaN; else ValueError.

    Numbers with a point are `Decimal`s: as float64, microseconds since 1970 lose their nanoseconds.
    """
    try:
        return json.loads(text.decode("utf-8", "replace"), strict=False, parse_float=Decimal)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def slow_events(text: bytes) -> list[Any]:
    """Return the events of a JSON array as `Slow`; raises ValueError where the text is no JSON array."""
    return [Slow(one) for one in loosely(text) if isinstance(one, dict)]


def whole_events(text: bytes) -> list[Any]:
    """Return the events of a JSON array as dictionaries; raises ValueError where the text is no JSON array."""
    return [one for one in loosely(text) if isinstance(one, dict)]


def brief_events(text: bytes) -> list[Any]:
    """Return the events of a JSON array without their arguments; raises ValueError as `slow_events` does."""
    return [Slow(one | NO_ARGUMENTS) for one in loosely(text) if isinstance(one, dict)]


SLOW: Mapping[Fields, Callable[[bytes], list[Any]]] = {
    "brief": brief_events,
    "full": slow_events,
    "whole": whole_events,
}


@cache
def fast_events(fields: Fields) -> Callable[[bytes], Sequence[Any]] | None:
    """Return the fast reader of a JSON array of events, which raises ValueError; None without msgspec."""
    if find_spec("msgspec") is None:
        return None
    import msgspec

    if fields == "whole":  # numbers with a point as the text that they are: a float would lose digits
        return msgspec.json.Decoder(list[dict[str, Any]], float_hook=str).decode
    place = int | str | None
    number = int | float | str | None
    kinds: list[tuple[Any, ...]] = [
        ("name", str | int | float | None, None), ("cat", str | None, None), ("ph", str | None, None),
        ("ts", number, None), ("dur", number, None), ("pid", place, None), ("tid", place, None),
    ]  # fmt: skip
    if fields == "full":
        arguments = msgspec.defstruct(
            "Arguments",
            [*((name, msgspec.Raw, msgspec.Raw(b"")) for name in RAW.values()),
             *((name, number, None) for name in NUMBERS.values())],
            rename={name: key for key, name in (RAW | NUMBERS).items()}, gc=False,
        )  # fmt: skip
        kinds += [("args", arguments | None, None)]
    return msgspec.json.Decoder(list[msgspec.defstruct("Event", kinds, gc=False)]).decode  # type: ignore[misc]
