"""The data file of a graph: its weights and one set of variable inputs, by their place among the inputs.

A dictionary written by `torch.save`, read into mapped memory, so that a process that measures one candidate pays
for the weights it touches only.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch

from jumar.base.files import write_atomically
from jumar.tune.model.errors import TuneError


def save(path: Path, tensors: Mapping[int, torch.Tensor]) -> None:
    """Write `tensors` by their places. Strides stay; a tensor that shares memory is written by itself.

    Raises TuneError when the folder cannot be written or its disk is full; then no part of a file is left.
    """
    held = {int(place): _alone(tensor) for place, tensor in tensors.items()}
    try:
        write_atomically(path, lambda part: torch.save(held, part))
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError on a full disk
        raise TuneError(
            f"the weights of the graph cannot be written to {path}: {str(error).splitlines()[0]}. "
            "Make room, or name another folder."
        ) from error


def load(path: Path) -> dict[int, torch.Tensor]:
    """Return the tensors of a data file, on the CPU, in mapped memory that is this process's own.

    Raises TuneError for a file that is missing or that Jumar did not write.
    """
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TuneError(f"{path} holds no weights of a graph ({reason}); capture the model again.") from error
    if not isinstance(found, dict) or not all(
        isinstance(place, int) and isinstance(tensor, torch.Tensor) for place, tensor in found.items()
    ):
        raise TuneError(f"{path} holds no weights of a graph; capture the model again.")
    return found


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as a plain one that holds no memory besides its own."""
    plain = torch.Tensor._make_subclass(torch.Tensor, tensor.detach()) if type(tensor) is not torch.Tensor else tensor
    plain = plain.detach()
    if plain.layout is not torch.strided or plain.untyped_storage().nbytes() <= _span_bytes(plain):
        return plain
    made = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device)
    distinct = made
    source = plain
    for dimension, stride in enumerate(plain.stride()):
        if stride == 0 and plain.shape[dimension]:
            distinct, source = distinct.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
    distinct.copy_(source)
    return made


def _span_bytes(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
