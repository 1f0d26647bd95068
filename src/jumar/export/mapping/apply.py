"""`apply_map`: the target's tensors with the source's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from jumar.base.errors import InputError
from jumar.export.mapping.file import Map
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.transforms import apply_steps, shape_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a map made."""

    state: Mapping[str, torch.Tensor]
    """All tensors of the target, in its order."""
    kept: tuple[str, ...]
    """Targets without a source: they have the target's own values."""
    num_converted: int
    """Tensors that got another dtype, the target's."""


def check_map(mapping: Map, source: Side, target: Side) -> None:
    """Raise InputError, with the line, where an entry names what there is not or makes another shape."""
    for entry in mapping.entries:
        if entry.target not in target.tensors:
            mapping.refuse(entry.target, f"{target.label} has no such tensor; correct the name, or remove the line")
        for name in entry.sources:
            if name not in source.tensors:
                mapping.refuse(entry.target, f"{source.label} has no tensor {name!r}; correct from")
        try:
            made = shape_after(entry.steps, [source.tensors[name].shape for name in entry.sources])
        except InputError as error:
            mapping.refuse(entry.target, error)
        wanted = target.tensors[entry.target].shape
        if made != wanted:
            mapping.refuse(entry.target, f"the shape must be {list(wanted)}; got {list(made)}; correct from or how")
    for name in mapping.dropped:
        if name not in source.tensors:
            raise InputError(f"{mapping.source}: [drop] names {name!r}, which {source.label} has not; remove it.")


def apply_map(mapping: Map, source: Side, target: Side) -> Applied:
    """Return the target's tensors with the values that the map gives them, in the target's dtypes.

    Raises InputError as `check_map` does.
    """
    check_map(mapping, source, target)
    entries = {entry.target: entry for entry in mapping.entries}
    state: dict[str, torch.Tensor] = {}
    kept = []
    num_converted = 0
    for name, info in target.tensors.items():
        entry = entries.get(name)
        if entry is None:
            kept.append(name)
            state[name] = target.read(name)
            continue
        made = apply_steps(entry.steps, [source.read(one) for one in entry.sources])
        dtype: torch.dtype = getattr(torch, info.dtype)
        num_converted += bool(entry.sources) and made.dtype != dtype
        state[name] = made.to(dtype).contiguous().clone()
    for name, first in target.ties.items():
        if name in entries and first in entries and torch.equal(state[name], state[first]):
            state[name] = state[first]
    return Applied(state=state, kept=tuple(kept), num_converted=num_converted)
