"""Rows in the form in which they are aligned: canonical names, and list operators taken apart.

An optimizer on one device calls `aten::_foreach_add_` once for all parameters, on another
`aten::add_` for each. The k-th item of the list operator is the k-th call of the single one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.accuracy.canonical import QUERIES, TRANSPORT, canonical_name, is_foreach
from jumar.recording.schema import CallRow, TensorRow


@dataclass(slots=True, eq=False)
class Call:
    """One row, or one item of a list operator's row."""

    row: CallRow
    operator: str
    """Canonical name."""
    path: str
    """Module path as it is compared (see `paths`)."""
    inputs: dict[str, TensorRow]
    """By name within the call: `input.0`, whichever item of a list it was."""
    outputs: dict[str, TensorRow]
    item: int | None = None

    @property
    def layout_only(self) -> bool:
        """Whether the call only moves, casts, views or asks for values."""
        return self.operator in TRANSPORT or self.operator in QUERIES

    @property
    def token(self) -> tuple[str, tuple[int, ...]]:
        """What two calls of one calculation have in common: the canonical name and the main shape."""
        for tensors in (self.outputs, self.inputs):
            for tensor in tensors.values():
                return self.operator, tensor.shape
        return self.operator, ()

    def scalars(self) -> tuple[float, ...]:
        """Return the numbers among the arguments, whatever they are called; without ones, a common default."""
        numbers = (v for v in self.arguments().values() if isinstance(v, int | float) and not isinstance(v, bool))
        return tuple(sorted(float(v) for v in numbers if v != 1))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that are not tensors, by name; lists of a list operator reduced to this item."""
        if not self.row.arguments or self.row.arguments == "{}":
            return {}
        values = json.loads(self.row.arguments)
        if not isinstance(values, dict):
            return {}
        if self.item is None:
            return values
        return {
            name: value[self.item] if isinstance(value, list) and len(value) > self.item else value
            for name, value in values.items()
        }


def calls_of(rows: Iterable[CallRow], strip: str = "") -> list[Call]:
    """Return the calls of `rows` in order; `strip` is a module path prefix to leave out."""
    return [call for row in rows for call in _calls(row, strip)]


def _calls(row: CallRow, strip: str) -> Iterator[Call]:
    path = plain_path(row.module_path, strip)
    operator = canonical_name(row.name) if row.kind == "op" else row.name
    if row.kind == "op" and is_foreach(row.name):
        yield from _items(row, operator, path)
    else:
        yield Call(row, operator, path, _by_name(row.inputs), _by_name(row.outputs))


def _by_name(tensors: Sequence[TensorRow]) -> dict[str, TensorRow]:
    return {tensor.name: tensor for tensor in tensors}


def _items(row: CallRow, operator: str, path: str) -> Iterator[Call]:
    items: dict[int, tuple[dict[str, TensorRow], dict[str, TensorRow]]] = {}
    shared: dict[str, TensorRow] = {}
    for side, tensors in enumerate((row.inputs, row.outputs)):
        for tensor in tensors:
            name, item = _split_item(tensor.name, is_output=side == 1)
            if item is None:
                shared[name] = tensor
            else:
                items.setdefault(item, ({}, {}))[side][name] = tensor
    for item in sorted(items):
        inputs, outputs = items[item]
        yield Call(row, operator, path, {**inputs, **shared}, outputs, item)


def _split_item(name: str, *, is_output: bool) -> tuple[str, int | None]:
    """Return the name within one item and the item: `input.0.3` → (`input.0`, 3), `output.3` → (`output.0`, 3)."""
    parts = name.split(".")
    if len(parts) == 3 and parts[2].isdigit():
        return f"{parts[0]}.{parts[1] if not is_output else '0'}", int(parts[2])
    if is_output and len(parts) == 2 and parts[1].isdigit():
        return "output.0", int(parts[1])
    return name, None


WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Names that wrappers (DDP, torch.compile, FSDP, checkpointing) add to a module path."""


def plain_path(path: str, strip: str = "") -> str:
    """Return the path without wrappers' names and without the prefix `strip`."""
    if "_" in path or "module" in path:
        parts = path.split(".")
        first = next((i for i, part in enumerate(parts) if part not in WRAPPERS), len(parts))
        path = ".".join(
            part for i, part in enumerate(parts) if i >= first and (part not in WRAPPERS or part == "module")
        )
    if strip and (path == strip or path.startswith(f"{strip}.")):
        return path[len(strip) + 1 :]
    return path


def extra_prefix(paths: set[str], others: set[str]) -> str:
    """Return the prefix that every path of `paths` has and `others` lack, e.g. `model`; empty when there is none.

    It is only a prefix if more paths are common without it than with it.
    """
    tops = {path.split(".", 1)[0] for path in paths if path}
    if len(tops) != 1:
        return ""
    (top,) = tops
    stripped = {plain_path(path, top) for path in paths}
    return top if len(stripped & others - {""}) > len(paths & others - {""}) else ""
