"""`ExportFormat`: a file format of exported weights. `format_of` returns the one that a path's suffix names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import OutputError
from jumar.base.plugins import Group, instance_of
from jumar.export.load import require_safetensors
from jumar.export.mindspore import read_mindspore, write_mindspore

State = Mapping[str, Any]
"""Names to CPU tensors, in the order of the model. A checkpoint may hold plain values, too (`_extra_state`)."""


def _needs_nothing(_path: Path) -> None:
    """Do nothing: the format needs no package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """How weights are written to a file and read back.

    Another distribution adds one with an entry point of the group `jumar.export_formats` that names an `ExportFormat`.
    After each export `read` is called, and the file must give the same names, shapes, dtypes and bits.
    """

    name: str
    suffixes: tuple[str, ...]
    """Of the files, lower case with their dot. No two formats share one."""
    write: Callable[[Path, State], None]
    """Writes the file; the path has a temporary name without the suffix. Raises OSError or OutputError.

    It leaves the tensors as they are."""
    read: Callable[[Path], State]
    """Reads the file; the path has a temporary name. It runs nothing that is in the file."""
    holds_values: bool = False
    """Whether the file can hold values that are no tensors. If not, a checkpoint with such values is refused."""
    require: Callable[[Path], None] = _needs_nothing
    """Raises InputError, which says what to install, when the format needs a package that is missing."""


def format_of(path: Path) -> ExportFormat:
    """Return the format of the path's suffix; PyTorch's for a suffix that is none of a format."""
    suffix = path.suffix.lower()
    if suffix in PYTORCH.suffixes:
        return PYTORCH
    known = (*BUILT_IN, *INSTALLED.parts())
    return next((one for one in known if suffix in one.suffixes), PYTORCH)


def write(path: Path, output: Path, state: State) -> State:
    """Write `state` to the temporary `path` of `output` and return what is read back. Raises OutputError, OSError."""
    known = format_of(output)
    others = [key for key, value in state.items() if not isinstance(value, torch.Tensor)]
    if others and not known.holds_values:
        raise OutputError(f"{output.name} can hold tensors only, and {others[0]!r} is none; write a .pt file.")
    try:
        known.write(path, state)
    except RuntimeError as error:  # PyTorch's writer raises this for a full disk
        raise OutputError(f"{output} cannot be written ({str(error).splitlines()[0]}); make room.") from error
    return known.read(path)


def _write_pytorch(path: Path, state: State) -> None:
    torch.save(dict(state), path)


def _read_pytorch(path: Path) -> State:
    found: State = torch.load(path, map_location="cpu", weights_only=True)
    return found


def _write_safetensors(path: Path, state: State) -> None:
    # The format has no tied tensors: each key gets its own.
    own = {key: value.contiguous().clone() for key, value in state.items()}
    importlib.import_module("safetensors.torch").save_file(own, path, metadata={"format": "pt"})


def _read_safetensors(path: Path) -> State:
    found: State = importlib.import_module("safetensors.torch").load_file(path)
    return found


PYTORCH = ExportFormat(
    name="PyTorch", suffixes=(".pt", ".pth", ".bin"), write=_write_pytorch, read=_read_pytorch, holds_values=True
)
SAFETENSORS = ExportFormat(
    name="safetensors",
    suffixes=(".safetensors",),
    write=_write_safetensors,
    read=_read_safetensors,
    require=require_safetensors,
)
MINDSPORE = ExportFormat(name="MindSpore", suffixes=(".ckpt",), write=write_mindspore, read=read_mindspore)
BUILT_IN = (PYTORCH, SAFETENSORS, MINDSPORE)
INSTALLED: Group[ExportFormat] = Group(
    "export-format",
    instance_of(ExportFormat),
    lambda known: (known.name, *known.suffixes),
    lambda: (name for known in BUILT_IN for name in (known.name, *known.suffixes)),
)
"""The formats of other distributions."""
