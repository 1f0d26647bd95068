"""Checkpoints as recordings: each tensor is the output of a call `parameter::NAME` of its module."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import RecordingError
from jumar.operators.layers import names_of
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.formats.mindspore.checkpoint import is_mindspore, load_mindspore, training_state
from jumar.recording.foreign.safe import array_of, load_safetensors, load_torch
from jumar.recording.foreign.values import bare_row, tensor_row
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = {".pth", ".pt", ".bin", ".ckpt", ".tar", ".safetensors"}

RENAMED = names_of("mindspore")["parameters"]
"""MindSpore's name of a parameter to PyTorch's (MindSpore's guide of differences)."""

WITHOUT_COUNTERPART = frozenset({"num_batches_tracked"})
"""Only PyTorch has these parameters."""

MODEL_KEYS = ("state_dict", "model_state_dict", "model", "module", "network", "net")
"""Under these keys checkpoints keep the model's own table."""


def is_checkpoint(path: Path) -> bool:
    """Return whether a file is a checkpoint: by its name and its first bytes."""
    if path.suffix not in SUFFIXES:
        return False
    return path.suffix == ".safetensors" or zipfile.is_zipfile(path) or _is_pickle(path) or is_mindspore(path)


def open_checkpoint(path: Path) -> Dump:
    """Return the tensors of a checkpoint: the model's as step 0, all others (an optimizer's state) as step 1.

    Raises RecordingError where it is damaged, holds code, or holds no tensor.
    """
    model, others, names = _tables(_loaded(path))
    if not model and not others:
        raise RecordingError(f"{path} holds no tensor; save a state_dict.")
    parts = {(step, 0): _part(tensors) for step, tensors in enumerate((model, others)) if tensors}
    dump = Dump(path, "checkpoint", parts)
    dump.original_names = names
    return dump


def _part(tensors: Mapping[str, Any]) -> Part:
    names = list(tensors)

    def rows() -> list[CallRow]:
        return [_row(name, *_array(tensors[name])) for name in names]

    return Part(rows=rows, tensors=lambda row: {"output.0": _array(tensors[names[row.seq]])[0]})


def _loaded(path: Path) -> Any:
    if path.suffix == ".safetensors":
        return load_safetensors(path)
    if is_mindspore(path):
        return _split(load_mindspore(path))
    return load_torch(path)


def _split(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the model's arrays under `model`, and the optimizer's beside it, as PyTorch's checkpoints hold them."""
    state = training_state({name: array.shape for name, array in found.items()})
    model = {name: array for name, array in found.items() if name not in state}
    return {"model": model, **{name: found[name] for name in found if name in state}} if state else found


def _is_pickle(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(1) == b"\x80"
    except OSError:
        return False


def _array(tensor: Any) -> tuple[np.ndarray, str]:
    if hasattr(tensor, "detach"):
        return array_of(tensor)
    return tensor, str(tensor.dtype)


def _row(name: str, array: np.ndarray, dtype: str) -> CallRow:
    path, _, last = name.rpartition(".")
    return bare_row(f"parameter::{last}", (), (tensor_row("output.0", array, dtype),), module_path=path)


def _tables(found: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return the model's tensors by PyTorch's names, the others by their keys, and the names that were changed."""
    if not isinstance(found, Mapping):
        return dict(_flat("", found)), {}, {}
    key = next((key for key in MODEL_KEYS if isinstance(found.get(key), Mapping)), None)
    table = found if key is None else found[key]
    named = {name: tensor for name, tensor in _flat("", table) if _counts(name)}
    model = {canonical(name): tensor for name, tensor in named.items()}
    rest = {} if key is None else {other: value for other, value in found.items() if other != key}
    return model, dict(_flat("", rest)), {canonical(name): name for name in named if canonical(name) != name}


MOST_VALUES = 1_000_000
"""So many values are looked at. A list that holds one list many times is a small file, and many values."""


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a value by their paths. Raises RecordingError for more than `MOST_VALUES` values."""
    counted = count(1)

    def walk(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
        if next(counted) > MOST_VALUES:
            raise RecordingError(f"it holds more than {MOST_VALUES:,} values; save a state_dict.")
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            yield prefix or "tensor", value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from walk(f"{prefix}.{key}" if prefix else str(key), item)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from walk(f"{prefix}.{index}" if prefix else str(index), item)

    return walk(prefix, value)


def _counts(name: str) -> bool:
    return name.rpartition(".")[2] not in WITHOUT_COUNTERPART


def canonical(name: str) -> str:
    """Return PyTorch's name of a parameter: `bn1.gamma` is `bn1.weight`."""
    path, dot, last = name.rpartition(".")
    return f"{path}{dot}{RENAMED.get(last, last)}"


FORMAT = DumpFormat(
    "a checkpoint (.pt, .pth, .ckpt, .safetensors)",
    lambda path: path.is_file() and is_checkpoint(path),
    open_checkpoint,
)
