"""Kernels of our own for optimizers that PyTorch has no fused one for: float32 and float64 on the CPU.

They are C++ (`update.cpp`), compiled where they run and kept in the cache of libraries. Without a compiler, or
with JUMAR_FLAT_NATIVE=0, formulas go through the memory in blocks of PyTorch's operators instead.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from jumar.amp.flat.run import Run
from jumar.base.native import CompilerError, cached_library, compiled

_SOURCE = Path(__file__).parent / "update.cpp"
_FLAGS = ("-fno-trapping-math", "-fopenmp-simd")
_SUFFIXES = {torch.float32: "f32", torch.float64: "f64"}
_WORTH = 1 << 18
"""Elements from which a run is worth the seconds that compiling takes; a smaller one uses a library that is there."""
_TABLES = ("starts", "lengths", "rows")


def update(name: str, run: Run, states: Sequence[str | None], options: Sequence[float], *, tables: int = 0) -> bool:
    """Update a run by the kernel of this name; return False where there is none for it.

    `states` names the states in the kernel's order, None for one that the options do without; `options` are in the
    order that the kernel documents. With `tables` the kernel takes that many tables of the run's pieces.
    """
    suffix = _SUFFIXES.get(run.parameter.dtype)
    if suffix is None or run.parameter.device.type != "cpu":
        return False
    library = _library(run.parameter.numel() >= _WORTH)
    if library is None:
        return False
    kernel = getattr(library, f"{name}_{suffix}")
    given: list[Any] = [torch.get_num_threads(), ctypes.c_int64(run.parameter.numel())]
    given += [_pointer(run.parameter), _pointer(run.gradient)]
    given += [_pointer(None if state is None else run.state[state]) for state in states]
    given.append((ctypes.c_double * len(options))(*options))
    if tables:
        given += [ctypes.c_int64(len(run.pieces)), *map(_pointer, _tables(run)[:tables])]
    kernel(*given)
    return True


def _pointer(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _tables(run: Run) -> list[torch.Tensor]:
    """Return where each piece of a run starts, its length, and its rows: 0 below two dimensions; 1-D int64."""
    if _TABLES[0] not in run.kept:
        rows = [piece.shape[0] if len(piece.shape) > 1 else 0 for piece in run.pieces]
        of_pieces = zip(_TABLES, zip(*((piece.start, piece.length) for piece in run.pieces), strict=True), strict=False)
        run.kept.update({name: torch.tensor(values) for name, values in of_pieces})
        run.kept["rows"] = torch.tensor(rows)
    return [run.kept[name] for name in _TABLES]


def _library(is_worth_compiling: bool) -> ctypes.CDLL | None:
    if os.environ.get("JUMAR_FLAT_NATIVE") == "0":
        return None
    return _compiled() if is_worth_compiling else _cached() or _found()


_LOADED: list[ctypes.CDLL] = []


def _found() -> ctypes.CDLL | None:
    return _LOADED[0] if _LOADED else None


@cache
def _cached() -> ctypes.CDLL | None:
    try:
        path = cached_library(_SOURCE, flags=_FLAGS)
        return None if path is None else _load(path)
    except (CompilerError, OSError):
        return None


@cache
def _compiled() -> ctypes.CDLL | None:
    try:
        return _load(compiled(_SOURCE, flags=_FLAGS))
    except (CompilerError, OSError):
        return None


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    _LOADED.append(library)
    return library
