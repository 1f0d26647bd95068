"""The general path of an operator call: listeners, and device indices above 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def run(plan: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run one operator call in full generality."""
    raise NotImplementedError
