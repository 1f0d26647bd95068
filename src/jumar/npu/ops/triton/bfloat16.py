"""bfloat16 in Triton's interpreter, which keeps such numbers as 16-bit integers and computes with those.

Here calculations are done in float32 and rounded to the nearest, as a chip does them. Triton's own cast from float32
cuts digits off.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

_RESULT_LIKE = {"unary_op": 0, "binary_op": 0, "ternary_op": 2, "create_fma": 2, "create_dot": 2}
"""Methods of the builder, with the position of the operand whose dtype the result has."""


def compute_in_float32(module: ModuleType) -> None:
    """Change `triton.runtime.interpreter`: operands of bfloat16 are widened, and results rounded."""
    builder, halves = module.InterpreterBuilder, _Halves(module)
    for name, like in _RESULT_LIKE.items():
        if hasattr(builder, name):
            setattr(builder, name, halves.computing(getattr(builder, name), like))
    builder.cast_impl = halves.casting(builder.cast_impl)
    builder.create_atomic_rmw = halves.refusing(builder.create_atomic_rmw)


class _Halves:
    """Makes methods of the interpreter's builder that know bfloat16 from ones that do not."""

    def __init__(self, module: Any) -> None:
        self._handle, language = module.TensorHandle, module.tl
        self._bfloat16, self._float32, self._bool = language.bfloat16, language.float32, language.int1

    def _holds(self, value: Any) -> bool:
        return isinstance(value, self._handle) and value.dtype.scalar == self._bfloat16

    def _widened(self, value: Any) -> Any:
        if not self._holds(value):
            return value
        return self._handle((value.data.astype(np.uint32) << 16).view(np.float32), self._float32)

    def _rounded(self, value: Any) -> Any:
        data = value.data
        if data.dtype == np.bool_:  # of a comparison
            return self._handle(data, self._bool)
        if data.dtype.kind == "f":
            halves = torch.from_numpy(np.ascontiguousarray(data)).to(torch.bfloat16)
            data = halves.view(torch.int16).numpy().view(np.uint16)
        return self._handle(data, self._bfloat16)

    def computing(self, method: Callable[..., Any], like: int) -> Callable[..., Any]:
        """Return an arithmetic method whose result has the dtype of the operand `like`."""

        @functools.wraps(method)
        def call(builder: Any, *args: Any) -> Any:
            if not any(map(self._holds, args)):
                return method(builder, *args)
            result = method(builder, *map(self._widened, args))
            return self._rounded(result) if self._holds(args[like]) else result

        return call

    def casting(self, cast: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method that casts."""

        @functools.wraps(cast)
        def call(builder: Any, source: Any, target: Any) -> Any:
            if target.scalar == self._bfloat16 and not self._holds(source):
                return self._rounded(cast(builder, source, self._float32))
            if self._holds(source) and target.scalar != self._bfloat16:
                wide = self._widened(source)
                return wide if target.scalar == self._float32 else cast(builder, wide, target)
            return cast(builder, source, target)

        return call

    def refusing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method of atomic operations, which Triton's C++ does on 16-bit integers."""

        @functools.wraps(method)
        def call(builder: Any, operation: Any, pointer: Any, value: Any, *args: Any) -> Any:
            if self._holds(value):
                raise NotImplementedError(
                    "Triton's interpreter has no atomic operations on bfloat16; add into a float32 tensor."
                )
            return method(builder, operation, pointer, value, *args)

        return call
