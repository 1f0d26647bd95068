"""Python numbers in place of tensors.

PyTorch passes `2` in `x + 2` as a tensor marked as a wrapped number, which counts less in type
promotion than a tensor the user made, and hands it to Python kernels as `2` again. Calling on into C++
needs the marked tensor back. Nothing in Python makes one, but autograd saves them: the graph of
`x * 2.0` holds one, and `detach` and `set_` keep the mark.
"""

from __future__ import annotations

import math

import torch

Number = bool | int | float | complex

_DTYPES: dict[type, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}
_MAX_CACHED = 4096

_marked: dict[type, torch.Tensor] = {}
_cache: dict[tuple[type, Number, bool], torch.Tensor] = {}


def prepare() -> None:
    """Obtain one marked tensor of each type of number. Call before any kernel runs."""
    with torch.enable_grad():
        for kind in _DTYPES:
            leaf = torch.ones(1, device="cpu", dtype=torch.complex64 if kind is complex else None, requires_grad=True)
            _marked[kind] = (leaf * kind(1)).grad_fn._saved_other


def tensor_of(number: Number) -> torch.Tensor:
    """Return the 0-dim CPU tensor PyTorch makes of a Python number. It is shared: never write to it."""
    kind = type(number)
    key = (kind, number, kind is float and math.copysign(1.0, number) < 0)  # type: ignore[arg-type]
    found = _cache.get(key)
    if found is None or kind is complex:
        found = _marked[kind].detach()
        found.set_(torch.tensor(number, dtype=_DTYPES[kind], device="cpu"))  # type: ignore[call-overload]
        if len(_cache) < _MAX_CACHED:
            _cache[key] = found
    return found
