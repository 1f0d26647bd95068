"""The tensor file of a case: recorded inputs and outputs, in NumPy's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from jumar.accuracy.replay.memory import Array, to_tensor, torch_dtype
from jumar.accuracy.repro.calls import tensor_name
from jumar.accuracy.repro.case import Case

RAW = {"bfloat16": (torch.int16, np.uint16), "complex32": (torch.int32, np.uint32)}


def write(case: Case, path: Path) -> None:
    """Write the tensors of the case. Raises OSError."""
    prefix = f"{len(case.steps) - 1}." if len(case.steps) > 1 else ""
    arrays: dict[str, Array] = {}
    for position, step in enumerate(case.steps):
        for tensor in step.loaded:
            arrays[tensor_name(case, position, tensor)] = raw(step.inputs.arrays[tensor.name], tensor.dtype)
    for tensor in case.outputs:
        arrays[f"recorded.{prefix}{tensor.name}"] = raw(case.last.inputs.arrays[tensor.name], tensor.dtype)
        if case.exact is not None:
            arrays[f"exact.{prefix}{tensor.name}"] = case.exact[tensor.name]
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def raw(array: Array, dtype: str) -> Array:
    """Return the array as it is stored: dtypes that NumPy lacks as raw unsigned integers."""
    if dtype in RAW and array.dtype != RAW[dtype][1]:
        signed, unsigned = RAW[dtype]
        return to_tensor(array, torch_dtype(dtype)).view(signed).numpy().view(unsigned)
    if dtype.startswith("float8"):
        return to_tensor(array, torch_dtype(dtype)).view(torch.uint8).numpy()
    return np.asarray(array)
