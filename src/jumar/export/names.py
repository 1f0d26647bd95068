"""Names of parameters in MindSpore and PyTorch, told apart by what stands beside them: `Renaming`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from jumar.base.errors import InputError
from jumar.recording.foreign.formats.checkpoints import WITHOUT_COUNTERPART
from jumar.recording.foreign.formats.mindspore.checkpoint import training_state

NORM = {"weight": "gamma", "bias": "beta"}
STATISTICS = {"running_mean": "moving_mean", "running_var": "moving_variance"}
EMBEDDING = {"weight": "embedding_table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """A state dict under the other framework's names."""

    state: Mapping[str, Any]
    num_renamed: int = 0
    left_out: tuple[str, ...] = ()
    """Keys without a counterpart in the other framework."""
    undecided: tuple[str, ...] = ()
    """Keys that keep their name, though the module's class, which the file does not hold, may ask for another."""


def to_mindspore(state: Mapping[str, Any], embeddings: Sequence[str] = ()) -> Renaming:
    """Return tensors under MindSpore's names. `embeddings` are patterns of module paths whose table is renamed.

    `running_mean` beside `weight` is a batch normalisation; `weight` and `bias` of one shape are another
    normalisation. A matrix without a bias may be of an Embedding or of a Linear layer, a 1-d `weight` alone of a
    normalisation or a PReLU: they keep their names. Raises InputError for a pattern that no module fits, and where two
    keys would become one.
    """
    modules = _modules(state)
    for pattern in embeddings:
        if not any(fnmatchcase(path, pattern) and "weight" in own for path, own in modules.items()):
            raise InputError(f"no module with a weight is named {pattern!r}; name the Embedding's path.")
    names: dict[str, str] = {}
    undecided: list[str] = []
    for path, own in modules.items():
        table = EMBEDDING if any(fnmatchcase(path, pattern) for pattern in embeddings) else _table(own)
        names |= {_joined(path, last): _joined(path, table.get(last, last)) for last in own}
        if not table and _may_be_another(own):
            undecided.append(_joined(path, "weight"))
    left_out = [key for key, value in state.items() if _has_no_place(key, value)]
    return _renamed(state, names, left_out, undecided)


def to_pytorch(state: Mapping[str, Any]) -> Renaming:
    """Return tensors under PyTorch's names, without the optimizer's. Raises InputError where two keys would be one.

    `gamma` is a `weight` only where `beta` of the same shape stands beside it: alone it is a parameter of its own.
    """
    left_out = training_state({key: tuple(value.shape) for key, value in state.items()})
    names: dict[str, str] = {}
    for path, own in _modules({key: value for key, value in state.items() if key not in left_out}).items():
        table = {theirs: ours for ours, theirs in (STATISTICS | EMBEDDING).items()}
        if _same_shape(own, "gamma", "beta"):
            table |= {theirs: ours for ours, theirs in NORM.items()}
        names |= {_joined(path, last): _joined(path, table.get(last, last)) for last in own}
    return _renamed(state, names, [key for key in state if key in left_out], [])


def _modules(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by module path the tensors that it holds itself, by their last names."""
    modules: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in state.items():
        path, _, last = key.rpartition(".")
        modules[path][last] = value
    return modules


def _table(own: Mapping[str, Any]) -> Mapping[str, str]:
    if "running_mean" in own:
        return NORM | STATISTICS
    return NORM if _same_shape(own, "weight", "bias") else {}


def _may_be_another(own: Mapping[str, Any]) -> bool:
    weight = own.get("weight")
    return weight is not None and "bias" not in own and len(weight.shape) in (1, 2)


def _same_shape(own: Mapping[str, Any], first: str, second: str) -> bool:
    return first in own and second in own and bool(own[first].shape) and own[first].shape == own[second].shape


def _has_no_place(key: str, value: Any) -> bool:
    """Return whether MindSpore has no such tensor: its files cannot tell an empty vector from a number."""
    return key.rpartition(".")[2] in WITHOUT_COUNTERPART or getattr(value, "shape", None) == (0,)


def _joined(path: str, last: str) -> str:
    return f"{path}.{last}" if path else last


def _renamed(
    state: Mapping[str, Any], names: Mapping[str, str], left_out: Sequence[str], undecided: Sequence[str]
) -> Renaming:
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    gone = set(left_out)
    for key, value in state.items():
        if key in gone:
            continue
        name = names.get(key, key)
        if name in found:
            raise InputError(f"{origin[name]!r} and {key!r} would both become {name!r}; rename one of them.")
        found[name], origin[name] = value, key
    return Renaming(
        state=found,
        num_renamed=sum(name != key for name, key in origin.items()),
        left_out=tuple(left_out),
        undecided=tuple(undecided),
    )
