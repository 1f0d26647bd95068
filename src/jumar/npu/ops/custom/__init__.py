"""The vendor's custom operators (`torch_npu.npu_rms_norm`, `torch.ops.npu.npu_rms_norm`) on the emulated NPU.

Every operator the vendor declares is there with its schema. `mechanism` tells how one is written,
`jumar docs emulator-custom-operators` which are; the others raise NotImplementedError, which names what works.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

import torch

from jumar.npu.ops.mechanism import implement as mechanism
from jumar.npu.ops.mechanism import registration, schemas

__all__ = ["function", "install", "is_implemented", "names"]


def install() -> None:
    """Define the operators and register their kernels. Called once, when the device comes up."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    mechanism.complete()
    registration.register_all()


def names() -> frozenset[str]:
    """Return every custom operator, by name without overload."""
    return frozenset(schema.base for schema in schemas.schemas().values())


def is_implemented(name: str) -> bool:
    """Return whether an operator, or any overload of it, can be called; `name` has no library prefix."""
    return any(name in (known, known.partition(".")[0]) for known in (*mechanism.IMPLEMENTATIONS, *mechanism.OWN))


def function(name: str) -> Any:
    """Return what `torch_npu.<name>` is: the operator. Raises AttributeError when the vendor has none of that name."""
    if name not in names():
        raise AttributeError(f"torch_npu has no operator {name!r}")
    if name in mechanism.FUNCTIONS:
        return mechanism.FUNCTIONS[name]
    operator = getattr(getattr(torch.ops, schemas.NAMESPACE), name)
    outs = next((schema.written for schema in schemas.schemas().values() if schema.name == f"{name}.out"), ())
    return _with_out(operator, outs) if len(outs) > 1 else operator


def _with_out(operator: Any, names: tuple[str, ...]) -> Any:
    """Return the operator with `out=(...)`, which the vendor's bindings take for several outputs."""

    @functools.wraps(operator)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        given = {} if out is None else dict(zip(names, out, strict=True))
        return operator(*args, **kwargs, **given)

    return call


def __getattr__(name: str) -> Any:
    if name == "IMPLEMENTED":
        return frozenset((*mechanism.IMPLEMENTATIONS, *mechanism.OWN))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
