"""Operator calls in one HDF5 file: `/<operator>/<number of the call>/input/<argument>` and `…/output/<result>`.

Calls of an operator are numbered from 1. Arguments are positions (`0`, `2.1` the second of a list) or
keywords. bfloat16 and float8, which HDF5 lacks, are raw unsigned integers; the attribute `dtype` of every
data set says what they are.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.base.errors import InputError
from jumar.base.files import explained, write_atomically
from jumar.npu.core.plans import Plan
from jumar.npu.dump.calls import OperatorCall
from jumar.recording.tensors.arrays import read_tensors, write_tensors
from jumar.recording.tensors.guard import Guard, damage_as_oserror

Tensor = torch.Tensor
_RAW = {1: torch.uint8, 2: torch.uint16}
_NEVER_FED = frozenset({"aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::_foreach_copy_"})
"""Copies: the kernel does not see which of them only move data between host and device, which are not in a file."""


class Calls:
    """Calls kept in memory until they are written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._arrays: dict[str, dict[str, np.ndarray]] = {}
        self._dtypes: dict[str, dict[str, str]] = {}

    def add(self, call: OperatorCall) -> str:
        """Copy the tensors of a call, and return its place in the file."""
        tensors = {**call.inputs, **call.outputs}
        arrays = {name: _raw(tensor) for name, tensor in tensors.items()}
        dtypes = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
        with self._lock:
            number = self._numbers[call.event.operator] = self._numbers.get(call.event.operator, 0) + 1
            key = f"{call.event.operator}/{number}"
            self._arrays[key], self._dtypes[key] = arrays, dtypes
        return key

    def write(self, file: Path) -> None:
        """Write the file, whole or not at all. Raises OutputError."""
        with explained(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lambda part: write_tensors(part, self._arrays, self._dtypes))


def _raw(tensor: Tensor) -> np.ndarray:
    plain = tensor.detach().resolve_conj().resolve_neg()
    try:
        return np.array(plain.numpy(), copy=True, order="C")
    except TypeError:
        return np.array(plain.contiguous().view(_RAW[plain.element_size()]).numpy(), copy=True)


class Recorded:
    """The inputs of a file, given to the operators as they run."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises InputError where it is no HDF5 file."""
        try:
            self._file = Guard(path)
        except OSError as error:
            raise InputError(
                f"load_file_path must be an HDF5 file that dumper has written; got {path} ({error}): check the path."
            ) from error
        self._path = path
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.hdf5.close()

    def feed(self, plan: Plan, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Tensor]:
        """Put the recorded inputs of the operator's next call in place of its arguments, and return them.

        An argument that the operator writes is overwritten with its recorded value first. Raises InputError
        where a recorded tensor has another shape than the argument.
        """
        if plan.name in _NEVER_FED:
            return {}
        with self._lock:
            number = self._numbers[plan.name] = self._numbers.get(plan.name, 0) + 1
            found = self._inputs(f"{plan.name}/{number}")
        fed: dict[str, Tensor] = {}
        for name, array in found.items():
            fed |= self._put(plan, name, torch.from_numpy(np.asarray(array)), args, kwargs)
        return fed

    def _inputs(self, key: str) -> Mapping[str, np.ndarray]:
        try:
            with damage_as_oserror(self._path):
                found = read_tensors(self._file, key)
        except KeyError:
            return {}
        except OSError as error:
            raise InputError(f"{self._path} is damaged at {key} ({error}): record it again.") from error
        return {name: array for name, array in found.items() if name.startswith("input.")}

    def _put(self, plan: Plan, name: str, value: Tensor, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Tensor]:
        _, place, *rest = name.split(".")
        holder: Any = args if place.isdecimal() else kwargs
        slot: Any = int(place) if place.isdecimal() else place
        if place.isdecimal() and slot >= len(args):
            return {}
        if rest and isinstance(holder[slot], (list, tuple)):
            holder[slot] = list(holder[slot])
            holder, slot = holder[slot], int(rest[0])
        present = holder[slot] if not isinstance(holder, dict) else holder.get(slot)
        if not isinstance(present, Tensor):
            return {}
        if present.shape != value.shape:
            raise InputError(
                f"{self._path} must hold inputs of this program; got shape {tuple(value.shape)} for {name} of "
                f"{plan.name}, which has {tuple(present.shape)}: record it again with the same model and batch size."
            )
        # NOTE: in the argument's own order of dimensions, in which a kernel may add up otherwise than in another.
        value = torch.empty_like(present).copy_(value)
        if plan.form in ("fresh", "view"):
            holder[slot] = value
        else:
            present.copy_(value)
        return {name: value}
