"""`profiler_info_N.json` and `profiler_metadata.json`: rank, versions, settings of the profiler, environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jumar.timeline.vendor.text import documents
from jumar.timeline.vendor.text.losses import Losses

_RANK = re.compile(r"(?:profiler_info|ascend_(?:pytorch|mindspore)_profiler)_(\d{1,6})\.(?:json|db)$")
_LONGEST_FACT = 2000


def rank_of(names: list[str]) -> int | None:
    """Return the rank in a file's name, `profiler_info_3.json` or `..._profiler_3.db`; None where none has one."""
    return next((int(found[1]) for found in map(_RANK.search, sorted(names, reverse=True)) if found), None)


def facts(path: Path, losses: Losses) -> dict[str, str]:
    """Return a file's settings under the last parts of their names: `with_stack` -> `true`. Raises OSError."""
    content = documents.document(path, losses)
    if not isinstance(content, dict):
        return {}
    return {name: text[:_LONGEST_FACT] for name, text in _leaves(content, 0)}


def _leaves(content: dict[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, dict) and depth < 6:
            yield from _leaves(value, depth + 1)
        elif isinstance(value, bool):
            yield str(key), str(value).lower()
        elif isinstance(value, list):
            yield str(key), ", ".join(str(item) for item in value[:50])
        else:
            yield str(key), "" if value is None else str(value)


def world_size(found: dict[str, str]) -> int:
    """Return the number of ranks that the settings name; 1 where they name none."""
    text = found.get("world_size") or found.get("WORLD_SIZE") or found.get("rank_size") or ""
    return int(text) if text.isdigit() and 0 < int(text[:7]) < 1_000_000 else 1
