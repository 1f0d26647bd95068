"""Patterns over row keys as users give them. Imports no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from jumar.base.errors import UsageError

_NUM_PARTS = 5
"""Of a row's key: kind, phase, module path, name, occurrence."""


def split_step(text: str) -> tuple[int | None, str]:
    """Return the step a pattern is meant for (None for all) and its key or glob."""
    match = re.fullmatch(r"(?:(\d+):)?(.+)", text.strip(), re.DOTALL)
    if match is None:
        raise UsageError("a pattern of --tensors-of is empty. Try --tensors-of 'op/forward/blocks.1*/aten::gelu/*'.")
    return (int(match[1]) if match[1] else None), match[2]


def read_patterns(given: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of `--tensors-of`: each value is a pattern, or a file with a JSON list of them.

    Raises UsageError for a file that holds something else and for a pattern that cannot match any key.
    """
    patterns: list[str] = []
    for value in given:
        path = Path(value)
        patterns += _of_file(path) if value.endswith(".json") or path.is_file() else [value]
    for pattern in patterns:
        _check(pattern)
    return tuple(dict.fromkeys(pattern.strip() for pattern in patterns))


def _of_file(path: Path) -> list[str]:
    advice = "Give the file that `jumar compare --suspects` wrote, or a pattern."
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--tensors-of {path} cannot be read: {error.strerror}. {advice}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--tensors-of {path} holds no JSON ({error}). {advice}") from error
    if not isinstance(found, list) or not found or not all(isinstance(item, str) for item in found):
        raise UsageError(f"--tensors-of {path} must hold a list of row keys; got {str(found)[:60]}. {advice}")
    return found


def _check(pattern: str) -> None:
    _, key = split_step(pattern)
    if "*" not in key and "?" not in key and len(key.split("/")) != _NUM_PARTS:
        raise UsageError(
            f'"--tensors-of {pattern}" is neither the key of a row (kind/phase/module path/name/occurrence) nor a '
            f"pattern. Try --tensors-of '*/{key}/*'."
        )
