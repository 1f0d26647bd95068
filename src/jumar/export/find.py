"""Find the model's weights in what a checkpoint holds, and give their keys the names of the bare model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.export.tensors import is_tensor

USUAL_KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "module", "weights")
"""Keys under which training scripts keep the weights, the most explicit first."""
StateDict = dict[str, Any]
_DEEPEST = 3
_MOST_VALUES = 1_000_000
"""So many values are looked at. A table that holds one table many times is a small file, and many values."""


def is_state_dict(value: object) -> bool:
    """Return whether `value` maps names to tensors (and perhaps a little extra state)."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(key, str) for key in value):
        return False
    num_tensors = sum(is_tensor(item) for item in value.values())
    return num_tensors > 0 and num_tensors >= len(value) - sum(key.endswith("_extra_state") for key in value)


def find_state_dict(loaded: Any, only: str | None, path: Path) -> tuple[str, StateDict, tuple[str, ...]]:
    """Return the dotted path of the weights (empty: the whole file), the weights, and the other candidates' paths.

    Raises InputError when there are none, when `only` is none, or when several are and none has a usual name.
    """
    candidates = dict(_candidates(loaded, "", 0, count()))
    if only is not None:
        if only not in candidates:
            raise InputError(f"{path} has no weights under {only!r}; {_choices(candidates)}.")
        chosen = only
    elif not candidates:
        raise InputError(f"{path} holds no state dict (names to tensors) but {_kind(loaded)}; save model.state_dict().")
    else:
        chosen = _usual(list(candidates), path)
    others = tuple(name for name in candidates if name != chosen)
    return chosen, dict(candidates[chosen]), others


def _candidates(value: Any, name: str, depth: int, seen: Iterator[int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if next(seen) > _MOST_VALUES:
        return
    if is_state_dict(value):
        yield name, value
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for key, item in value.items():
            if isinstance(key, str):
                yield from _candidates(item, f"{name}.{key}" if name else key, depth + 1, seen)


def _usual(names: Sequence[str], path: Path) -> str:
    if len(names) == 1:
        return names[0]
    for key in USUAL_KEYS:
        fitting = [name for name in names if name.rpartition(".")[2] == key]
        if len(fitting) == 1:
            return fitting[0]
    raise InputError(f"{path} holds several state dicts; name one with --only: {', '.join(names)}.")


def _choices(candidates: Mapping[str, Any]) -> str:
    named = [name for name in candidates if name]
    if named:
        return f"it has them under {', '.join(named)}"
    return "the whole file is one state dict, so leave --only out" if candidates else "it has none at all"


def _kind(loaded: Any) -> str:
    if isinstance(loaded, Mapping):
        keys = ", ".join(str(key) for key in list(loaded)[:6])
        return f"a mapping with {keys or 'nothing in it'}"
    return f"a {type(loaded).__name__}"


def strip_prefixes(state: Mapping[str, Any], prefixes: Sequence[str], path: Path) -> tuple[StateDict, dict[str, int]]:
    """Return the weights under keys without `prefixes`, and how many keys carried each.

    Only keys that carry a prefix are changed. Raises InputError when two keys would become one.
    """
    stripped: StateDict = {}
    origin: dict[str, str] = {}
    counts: dict[str, int] = {}
    for key, value in state.items():
        name, found = _bare(key, prefixes)
        if name in origin:
            raise InputError(
                f"{path} has {origin[name]!r} and {key!r}, which would both become {name!r}; "
                "strip fewer prefixes with --strip-prefix, or none with --keep-prefix."
            )
        stripped[name], origin[name] = value, key
        for prefix in found:
            counts[prefix] = counts.get(prefix, 0) + 1
    return stripped, counts


def _bare(key: str, prefixes: Sequence[str]) -> tuple[str, list[str]]:
    found: list[str] = []
    while prefix := next((prefix for prefix in prefixes if key.startswith(prefix) and key != prefix), None):
        key = key.removeprefix(prefix)
        if prefix not in found:
            found.append(prefix)
    return key, found
