"""Opens files of other tools without running anything in them, and explains how a file is broken."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from jumar.base.errors import RecordingError
from jumar.base.outside.archives import check_size
from jumar.recording import documents

_SPARE = 64 << 20
"""A tensor may have so many elements however few of them its memory has: one that is expanded repeats them."""


def load_json(path: Path) -> Any:
    """Return a JSON file; NaN, Infinity and -Infinity are read as numbers. Raises RecordingError."""
    try:
        return documents.read(path)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except documents.DocumentError as error:
        raise RecordingError(f"{path} is cut short or no JSON ({_short(error)}); dump it again.") from error


def load_npy(path: Path) -> np.ndarray:
    """Return an array, mapped from the file where its type allows that; never unpickled. Raises RecordingError."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except Exception as error:  # what NumPy's header reader raises depends on which byte is damaged
        raise RecordingError(
            f"{path} is cut short or no .npy file of numbers ({_short(error)}); dump it again."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcbiu":
        raise RecordingError(
            f"{path} holds {getattr(array, 'dtype', type(array).__name__)}, not numbers; leave it out."
        )
    return array


def load_torch(path: Path) -> Any:
    """Return a `.pt` or `.pth` file, tensors on the CPU, only tensors and plain values. Raises RecordingError."""
    import torch

    try:
        check_size(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except Exception as error:  # what the unpickler raises depends on which byte is damaged
        text = str(error)
        if "weights_only" in text or "Unsupported" in text or "GLOBAL" in text:
            raise RecordingError(
                f"{path} holds something else than tensors, which is not loaded because loading it can run code; save "
                "the tensors alone (a state_dict)."
            ) from error
        raise RecordingError(f"{path} is cut short or no PyTorch file ({_short(error)}); copy it again.") from error


def load_safetensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a `.safetensors` file. Raises RecordingError, also where the package is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise RecordingError(f"{path} needs the safetensors package; pip install safetensors.")
    package, torch_part = (importlib.import_module(name) for name in ("safetensors", "safetensors.torch"))
    try:
        found: dict[str, Any] = torch_part.load_file(path, device="cpu")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except (package.SafetensorError, ValueError) as error:
        raise RecordingError(f"{path} is cut short or no safetensors file ({_short(error)}); copy it again.") from error
    return found


def array_of(tensor: Any) -> tuple[np.ndarray, str]:
    """Return a tensor as an array and PyTorch's name of its dtype; what NumPy lacks becomes float32."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    plain = tensor.detach()
    if plain.is_meta:
        raise RecordingError(
            "a tensor has no values, because it was saved from the device meta; save the loaded model."
        )
    if is_far_larger(plain):
        raise RecordingError(f"a tensor of {plain.numel():,} elements stands for a few that are stored; save it alone.")
    if plain.is_quantized:
        plain = plain.dequantize()
    if str(plain.layout) != "torch.strided":
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg()
    try:
        return plain.numpy(), dtype
    except TypeError:
        return plain.float().numpy(), dtype


def is_far_larger(tensor: Any) -> bool:
    """Tell whether a tensor stands for far more elements than its memory has: its copy would fill this machine's."""
    return bool(tensor.numel() > _SPARE + 100 * _held_bytes(tensor))


def _held_bytes(tensor: Any) -> int:
    if str(tensor.layout) == "torch.strided":
        return int(tensor.untyped_storage().nbytes())
    values = tensor._values() if tensor.is_sparse else tensor.values()
    return int(values.untyped_storage().nbytes())


def inside(folder: Path, name: str) -> Path | None:
    """Return the file `name` of `folder`, None where the name leads out of it (a dump is not trusted)."""
    if not name or name != Path(name).name or name in {".", ".."}:
        return None
    return folder / name


def _short(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return (text or type(error).__name__)[:100]
