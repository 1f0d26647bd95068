"""State beside a `.safetensors` file: `NAME.state.safetensors`, with tensors by path, and JSON in its metadata."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import InputError, OutputError
from jumar.export.formats.document import damaged
from jumar.export.formats.registry import Sums, verify
from jumar.export.formats.safetensors import MOST_HEADER_BYTES, read_header, write_safetensors
from jumar.export.tensors import Deferred

KEY = "jumar_state"
"""Entry of the metadata with the structure."""
WEIGHTS = "$weights"
"""Where the weights of the other file belong."""
_DEEPEST = 200


def beside(path: Path) -> Path:
    """Return the place of the state of a file of weights."""
    return path.with_name(f"{path.name.removesuffix('.safetensors')}.state.safetensors")


def packed(rest: Any) -> tuple[dict[str, Deferred], str]:
    """Return the tensors of a plain value by name, and the structure as JSON. Raises OutputError where it is too large.

    What JSON lacks is a table of one key that begins with `$`: `$tensor`, `$tuple`, `$dict` (keys that are no texts),
    `$set`, `$bytes`, `$number` (not finite, complex), `$dtype`.
    """
    tensors: dict[str, Deferred] = {}
    text = json.dumps(_pack(rest, "", tensors), separators=(",", ":"), allow_nan=False)
    if len(text) > MOST_HEADER_BYTES // 2:
        raise OutputError("the state holds too many plain values for .safetensors; write a .pt file.")
    return tensors, text


def write_state(path: Path, output: Path, tensors: dict[str, Deferred], text: str) -> None:
    """Write the temporary `path` of `output` and verify it. Raises OutputError, OSError."""
    sums = Sums()
    write_safetensors(path, tensors, sums.add, {KEY: text})
    back, metadata = read_header(path)
    verify(tensors, back, sums, output)
    if metadata != {KEY: text}:
        raise OutputError(f"{output} did not come back with the values that were written; check the disk.")


def unpacked(path: Path, weights: Any) -> Any:
    """Return the whole value that was kept in a file beside `weights`. Raises InputError where it is damaged."""
    tensors, metadata = read_header(path)
    if KEY not in metadata:
        raise InputError(f"{path} holds no state that Jumar wrote; move it away, or leave out --with-state.")
    try:
        return _unpack(json.loads(metadata[KEY]), tensors, weights, 0)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(damaged(path, error, "state beside a .safetensors file")) from error


def _pack(value: Any, name: str, tensors: dict[str, Deferred]) -> Any:
    if isinstance(value, Deferred):
        own = name or "tensor"
        while own in tensors:
            own += "_"
        tensors[own] = value
        return {"$tensor": own}
    if isinstance(value, dict):
        pairs = [(key, _pack(item, f"{name}.{key}" if name else str(key), tensors)) for key, item in value.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return dict(pairs)
        return {"$dict": [[_pack(key, "", tensors), item] for key, item in pairs]}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, f"{name}.{at}" if name else str(at), tensors) for at, item in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    return _pack_scalar(value)


def _pack_scalar(value: Any) -> Any:
    if value is _PLACE:
        return {WEIGHTS: True}
    if isinstance(value, set):
        return {"$set": [_pack_scalar(item) for item in sorted(value, key=repr)]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return {"$number": str(value)}
    return value


_PLACE = object()
"""Stands where the weights belong."""


def place() -> object:
    """Return what stands in a value where the weights of the other file belong."""
    return _PLACE


def _unpack(value: Any, tensors: dict[str, Deferred], weights: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deep")
    if isinstance(value, list):
        return [_unpack(item, tensors, weights, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    if len(value) != 1 or not kind.startswith("$"):
        return {key: _unpack(item, tensors, weights, depth + 1) for key, item in value.items()}
    told = value[kind]
    if kind in {"$tensor", WEIGHTS}:
        return tensors[told] if kind == "$tensor" else weights
    if kind in _GROUPS:
        return _GROUPS[kind](_unpack(told, tensors, weights, depth + 1))
    return _scalar(kind, told)


_GROUPS: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$dict": dict}


def _scalar(kind: str, told: Any) -> Any:
    if kind == "$bytes":
        return base64.b64decode(told, validate=True)
    found = getattr(torch, told, None) if kind == "$dtype" and isinstance(told, str) else None
    if isinstance(found, torch.dtype):
        return found
    if kind != "$number" or not isinstance(told, str):
        raise ValueError(f"an unknown kind {kind[:20]!r}")
    return complex(told) if "j" in told else float(told)
