"""`load_checkpoint`: read a checkpoint onto the CPU without running code from the file."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.base.errors import InputError
from jumar.base.outside.archives import check_size
from jumar.export.mindspore import read_mindspore
from jumar.recording.foreign.formats.mindspore.checkpoint import is_mindspore

_GLOBAL = re.compile(r"GLOBAL\s+([\w.]+)|(?:global|type)\s*:?\s+`?([\w]+(?:\.[\w]+)+)")
Allowed = type | Callable[..., Any] | tuple[Callable[..., Any], str]


def load_checkpoint(path: Path) -> Any:
    """Return what the file holds, tensors on the CPU.

    Raises InputError, with the name of the class where there is one, when the file is missing, cut short, of
    another kind, or holds code: nothing but tensors and plain values is ever built.
    """
    _check_input(path)
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    if is_mindspore(path):
        return read_mindspore(path)
    try:
        check_size(path)
        with torch.serialization.safe_globals(_harmless()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(_refused(path, error)) from error
    except PermissionError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    except Exception as error:  # what the unpickler raises depends on which byte is damaged
        raise InputError(_damaged(path, error)) from error


def _check_input(path: Path) -> None:
    """Raise InputError when `path` is not a file."""
    if path.is_dir():
        raise InputError(f"{path} must be a checkpoint file, and it is a folder; name the file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist; name a checkpoint that torch.save wrote.")


def _harmless() -> list[Allowed]:
    """Return classes that checkpoints often hold and that do nothing when they are built.

    torch_npu pickles a tensor of a device format as a call of its own function on the plain data.
    """
    numpy_dtypes = {type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?")}
    reconstruct: Any = np.array(0.0).__reduce__()[0]
    scalar: Any = np.float64(0).__reduce__()[0]
    named: list[Allowed] = [
        (_rebuild_npu_tensor, "torch_npu.utils.storage._rebuild_npu_tensor"),
        (scalar, "numpy.core.multiarray.scalar"),
        (reconstruct, "numpy.core.multiarray._reconstruct"),
    ]
    return [argparse.Namespace, np.dtype, np.ndarray, scalar, reconstruct, *numpy_dtypes, *named]


def _rebuild_npu_tensor(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, _npu_format: Any
) -> torch.Tensor:
    """Do what torch_npu's function of this name does, without an NPU: the storage holds the plain format."""
    tensor: torch.Tensor = torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)  # type: ignore[no-untyped-call]
    return tensor


def _refused(path: Path, error: Exception) -> str:
    text = str(error)
    with path.open("rb") as file:
        head = file.read(8)
    if head and not head.startswith((b"PK", b"\x80")):  # a zip archive, or a pickle
        return f"{path} is no PyTorch checkpoint: it begins with {head!r}; name a file that torch.save wrote."
    match = _GLOBAL.search(text)
    if match is None and "Unsupported" not in text and "GLOBAL" not in text:
        return _damaged(path, error)
    name = next((group for group in match.groups() if group), "") if match else "something other than tensors"
    return (
        f"{path} holds {name}, which Jumar does not build because loading it can run code; save the weights alone "
        "with torch.save(model.state_dict(), PATH) where you trust the file."
    )


def _damaged(path: Path, error: Exception) -> str:
    text = str(error)
    if "TorchScript" in text:
        return f"{path} is a TorchScript archive, not a checkpoint; export the state_dict of the model instead."
    if path.stat().st_size == 0:
        return f"{path} is empty; copy it again."
    first = text.splitlines()[0][:120] if text else type(error).__name__
    return f"{path} is cut short, damaged or no PyTorch checkpoint ({first}); copy it again from where it was saved."


def _load_safetensors(path: Path) -> Any:
    require_safetensors(path)
    package, torch_part = (importlib.import_module(name) for name in ("safetensors", "safetensors.torch"))
    try:
        return torch_part.load_file(path, device="cpu")
    except (package.SafetensorError, ValueError) as error:
        raise InputError(_damaged(path, error)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check its permissions.") from error


def require_safetensors(path: Path) -> None:
    """Raise InputError when the package for `.safetensors` files is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise InputError(f"{path.name} needs the safetensors package; pip install 'jumar[export]', or use a .pt file.")
