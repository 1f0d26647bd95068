"""JSON as its standard has it, for servers: they refuse the `NaN` and `Infinity` that Python writes.

A float that JSON has not (the error of a candidate that returned NaN, the least value of a mask) is an object with
one key, `{"not finite": "inf"}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_MARK = "not finite"


def dumps(value: Any) -> str:
    """Return JSON values as text."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_marked(value), allow_nan=False)


def loads(text: str | bytes) -> Any:
    """Return what `dumps` wrote. Raises json.JSONDecodeError."""
    return json.loads(text, object_hook=_unmarked)


def _marked(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK: str(value)}
    if isinstance(value, Mapping):
        return {name: _marked(item) for name, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list | tuple) else value


def _unmarked(found: dict[str, Any]) -> Any:
    return float(found[_MARK]) if found.keys() == {_MARK} else found
