"""`keep`: what is kept of a checkpoint beside its weights, in the form that the output's format has for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.errors import OutputError
from jumar.export.formats import MINDSPORE, PYTORCH, SAFETENSORS, format_of
from jumar.export.formats.document import Document
from jumar.export.formats.nested import plain, without
from jumar.export.state.beside import beside, packed, place, unpacked
from jumar.export.state.moments import moments
from jumar.export.tensors import Deferred

MINDSPORE_STATE = "mindspore_state"
"""Where the optimizer's tensors of a MindSpore file are kept in a file of PyTorch."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """What is written beside the weights."""

    root: Any = None
    """The whole value of a PyTorch file; None: the weights alone."""
    more: dict[str, Deferred] = field(default_factory=dict)
    """Further tensors of the same file."""
    file: Path | None = None
    """A second file."""
    tensors: dict[str, Deferred] = field(default_factory=dict)
    text: str = ""
    """What the second file holds."""
    names: tuple[str, ...] = ()
    """Entries of the input that were kept."""
    reason: str = ""
    """Why something was left behind."""


def with_kept_state(document: Document, source: Path) -> Document:
    """Return a `.safetensors` document with the state that lies beside the file, if any. Raises InputError."""
    file = beside(source)
    if document.kind != "safetensors" or not file.is_file():
        return document
    weights = document.root
    root = unpacked(file, weights)
    return Document(root, document.framework, document.kind, _way_to(root, weights))


def keep(
    document: Document, found_under: str, state: Mapping[str, Any], output: Path, names: Mapping[str, str]
) -> Kept:
    """Return what is kept with the weights `state`, that were found under a dotted path.

    `names` are the output's names of the weights by the bare ones. Raises InputError for a value that is neither a
    tensor nor plain, OutputError for a format that has no place for it.
    """
    known = format_of(output)
    if known not in {PYTORCH, SAFETENSORS, MINDSPORE}:
        raise OutputError(
            f"{output.name} can hold weights only; write a .pt or .safetensors file, or leave out --with-state."
        )
    rest = plain(_rest(document, found_under, state))
    if not rest:
        return Kept(reason="the file holds weights alone")
    top = tuple(map(str, rest))
    if known is MINDSPORE:
        return _for_mindspore(rest, state, names)
    if known is PYTORCH:
        return Kept(root=_around(document, found_under, rest, dict(state)), names=top)
    tensors, text = packed(_around(document, found_under, rest, place()))
    return Kept(file=beside(output), tensors=tensors, text=text, names=top)


def _rest(document: Document, found_under: str, state: Mapping[str, Any]) -> Any:
    if found_under:
        return without(document.root, found_under)
    if document.framework != "mindspore":
        return {}
    training = {key: value for key, value in document.root.items() if key in _training(document)}
    return {MINDSPORE_STATE: training} if training and not set(training) <= set(state) else {}


def _training(document: Document) -> set[str]:
    from jumar.recording.foreign.formats.mindspore.checkpoint import training_state

    return training_state({key: tuple(value.shape) for key, value in document.root.items()})


def _around(document: Document, found_under: str, rest: Any, weights: Any) -> Any:
    """Return the value with the weights in their place, in the order of the input."""
    if not found_under:
        return {"model": weights, **rest}
    first = next(key for key in document.root if found_under == key or found_under.startswith(f"{key}."))
    inner = found_under[len(first) + 1 :]
    around = rest.get(first, {})
    whole = weights if not inner else _put(around, inner, weights)
    order = dict.fromkeys(document.root)
    return {key: whole if key == first else rest[key] for key in order if key == first or key in rest}


def _put(rest: Any, way: str, weights: Any) -> Any:
    """Return a mapping with the weights put in at a path that `without` took away."""
    key = next((one for one in rest if way.startswith(f"{one}.")), way.partition(".")[0])
    if way == key or not isinstance(rest.get(key, {}), dict):
        return {**rest, way: weights}
    return {**rest, key: _put(rest.get(key, {}), way[len(key) + 1 :], weights)}


def _for_mindspore(rest: Any, state: Mapping[str, Any], names: Mapping[str, str]) -> Kept:
    by_own = {own: state[name] for own, name in names.items() if name in state}
    found = moments(rest, by_own, names)
    taken = {key: tensor for key, tensor in found.tensors.items() if key not in state}
    left = [key for key in map(str, rest) if key != found.taken]
    reason = found.reason or (f"MindSpore has no place for {', '.join(left)}" if left else "")
    return Kept(more=taken, names=(found.taken,) if taken else (), reason=reason)


def _way_to(root: Any, wanted: Any, way: str = "", depth: int = 0) -> str | None:
    if root is wanted:
        return way or None
    if not isinstance(root, dict) or depth > 10:
        return None
    for key, item in root.items():
        found = _way_to(item, wanted, f"{way}.{key}" if way else str(key), depth + 1)
        if found:
            return found
    return None
