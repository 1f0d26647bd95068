"""How `TestCase` compares numbers, tensors and collections of them."""

# ruff: noqa: PT009 (these are the methods that unittest's tests call)

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch

from jumar.npu.api.testing.common_utils import is_iterable, iter_indices

_SMALLEST = {np.dtype(np.float16): 6e-8}
_SMALLEST_OTHER = 1e-9
_COMPARED = ("bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def complaint(x: Any, y: Any, tolerance: float) -> str:
    """Return why two arrays do not agree, or "".

    They agree when every element is within the tolerance relatively, or every one absolutely, or when the
    elements that are not, by one of the two, are no larger part of all than the tolerance itself.
    """
    for what in ("shape", "dtype"):
        if getattr(x, what) != getattr(y, what):
            return f"{what} error: {getattr(x, what)} and {getattr(y, what)}"
    if x.dtype.name not in _COMPARED:
        return f"required dtype in {list(_COMPARED)}; got {x.dtype}"
    if x.dtype == np.bool_:
        return "" if np.array_equal(x, y) else "result error"
    missing = np.isnan(x)
    if not np.array_equal(missing, np.isnan(y)):
        return "NaNs are not in the same places"
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(np.where(missing, 0, y - x))
        scale = np.maximum(np.abs(x), np.abs(y)) + _SMALLEST.get(x.dtype, _SMALLEST_OTHER)
        num_absolute = int(np.sum(~(difference <= tolerance)))
        num_relative = int(np.sum(~(difference / np.where(missing, 1, scale) <= tolerance)))
    if min(num_absolute, num_relative) <= x.size * tolerance:
        return ""
    worst = np.unravel_index(int(np.argmax(difference)), x.shape)
    at = tuple(int(index) for index in worst)
    return (
        f"result error: {num_relative} of {x.size} elements differ relatively, {num_absolute} absolutely, by more than "
        f"{tolerance:g}; the greatest difference is {difference[worst]:g} at {at}: {x[worst]:g} and {y[worst]:g}"
    )


Tensor = torch.Tensor
_UnittestCase: Any = object
"""What the mixins stand before: `unittest.TestCase`."""


class SparseTensors(_UnittestCase):  # type: ignore[misc]
    """Sparse tensors for tests; mixed into a `unittest.TestCase`."""

    def genSparseTensor(
        self, size: Sequence[int], sparse_dim: int, nnz: int, is_uncoalesced: bool, device: Any = "cpu"
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a random sparse tensor, its indices and its values; uncoalesced ones hold each index twice."""
        if not (all(size[dim] > 0 for dim in range(sparse_dim)) or nnz == 0):
            raise RuntimeError("invalid arguments")
        values = torch.randn(nnz, *size[sparse_dim:], device=device)
        limits = torch.tensor(size[:sparse_dim], device=device, dtype=torch.float32).unsqueeze(1)
        indices = (torch.rand(sparse_dim, nnz, device=device) * limits).long()
        if is_uncoalesced:
            values = torch.cat([values, torch.randn_like(values)], 0)
            indices = torch.cat([indices, indices], 1)
        made = torch.sparse_coo_tensor(indices, values, torch.Size(size), check_invariants=False)
        made = made.detach().clone() if is_uncoalesced else made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeCoalesce(self, t: Tensor) -> Tensor:
        """Return `t.coalesce()` after holding it against sums made element by element."""
        coalesced = t.coalesce()
        super().assertTrue(coalesced.is_coalesced())
        sums: dict[tuple[int, ...], Any] = defaultdict(int)
        for index, value in zip(t._indices().t().tolist(), t._values(), strict=True):
            sums[tuple(index)] = sums[tuple(index)] + value
        super().assertEqual(sorted(sums), [tuple(index) for index in coalesced._indices().t().tolist()])
        for index, value in zip(sorted(sums), coalesced._values(), strict=True):
            self.assertEqual(sums[index], value)
        return coalesced

    def safeToDense(self, t: Tensor) -> Tensor:
        """Return `safeCoalesce(t)` as a dense tensor."""
        return self.safeCoalesce(t).to_dense()


class Comparisons(SparseTensors):
    """Comparisons within a tolerance; mixed into a `unittest.TestCase`."""

    precision = 1e-5
    exact_dtype = False

    def assertRtolEqual(
        self,
        x: Any,
        y: Any,
        prec: float = 1e-4,
        prec16: float = 1e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        """Compare two tensors, arrays or numbers, or sequences of them, by the rule of `relative`.

        `prec16` is the tolerance of 16-bit types, `prec` that of all others.
        """
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            for one, other in zip(x, y, strict=True):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        if auto_trans_dtype and isinstance(x, Tensor) and isinstance(y, Tensor):
            x = x.to(y.dtype)
        is_bfloat16 = any(isinstance(value, Tensor) and value.dtype == torch.bfloat16 for value in (x, y))
        first, second = _array(x, y), _array(y, x)
        tolerance = prec16 if is_bfloat16 or first.dtype == np.float16 else prec
        found = complaint(first, second, tolerance)
        if found:
            self.fail(f"{message}: {found}" if message else found)

    def assertEqual(
        self,
        x: Any,
        y: Any,
        prec: float | str | None = None,
        message: str = "",
        allow_inf: bool | None = False,
        exact_dtype: bool | None = None,
    ) -> None:
        """Compare within `prec`, by default `self.precision`; infinities are equal only with `allow_inf`."""
        if isinstance(prec, str) and not message:
            message, prec = prec, None
        tolerance = self.precision if prec is None else float(prec)
        exact = self.exact_dtype if exact_dtype is None else exact_dtype
        self._compare(x, y, tolerance, message, bool(allow_inf), exact)

    def _compare(self, x: Any, y: Any, prec: float, message: str, allow_inf: bool, exact: bool) -> None:
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            self._compare_tensors(x, y, prec, message, allow_inf, exact)
        elif isinstance(x, (Number, np.bool_)) or isinstance(y, (Number, np.bool_)):
            self._compare_numbers(_number(x), _number(y), prec, message, allow_inf)
        elif isinstance(x, (str, bytes, set)) or isinstance(y, (str, bytes, set)):
            super().assertEqual(x, y, message)
        elif isinstance(x, dict) and isinstance(y, dict):
            super().assertEqual(set(x), set(y), message)
            for key in x:
                self._compare(x[key], y[key], prec, message, allow_inf, exact)
        elif is_iterable(x) and is_iterable(y):
            super().assertEqual(len(x), len(y), message)
            for one, other in zip(x, y, strict=True):
                self._compare(one, other, prec, message, allow_inf, exact)
        else:
            super().assertEqual(x, y, message)

    def _compare_numbers(self, x: Any, y: Any, prec: float, message: str, allow_inf: bool) -> None:
        if float("inf") in (abs(x), abs(y)):
            if not allow_inf:
                self.fail(f"Expected finite numeric values - x={x}, y={y}")
            super().assertEqual(x, y, message)
        else:
            super().assertLessEqual(abs(x - y), prec, message)

    def _compare_tensors(self, x: Tensor, y: Tensor, prec: float, message: str, allow_inf: bool, exact: bool) -> None:
        super().assertEqual((x.is_sparse, x.is_quantized), (y.is_sparse, y.is_quantized), message)
        if x.is_sparse:
            x, y = self.safeCoalesce(x), self.safeCoalesce(y)
            self._compare_tensors(x._indices(), y._indices(), prec, message, allow_inf, exact)
            x, y = x._values(), y._values()
        if x.is_quantized:
            super().assertEqual(x.qscheme(), y.qscheme(), message)
            x, y = x.dequantize(), y.dequantize()
        super().assertEqual(x.size(), y.size(), message)
        if exact:
            super().assertEqual(x.dtype, y.dtype, message)
        if x.numel() == 0:
            return
        if (x.dtype == torch.bool) != (y.dtype == torch.bool):
            raise TypeError("Was expecting both tensors to be bool type.")
        greatest = _greatest_difference(self, x.detach().cpu(), y.detach().cpu(), message, allow_inf)
        super().assertLessEqual(greatest, prec, message)

    def assertAlmostEqual(
        self,
        x: Any,
        y: Any,
        places: int | None = None,
        msg: Any = None,
        delta: float | None = None,
        allow_inf: bool | None = None,
    ) -> None:
        """Compare within `delta`, or within ten to the minus `places`."""
        prec = 10.0 ** (-places) if places else delta
        self.assertEqual(x, y, prec, msg or "", allow_inf)

    def assertNotEqual(self, x: Any, y: Any, prec: float | str | None = None, message: str = "") -> None:
        """Fail when `assertEqual` would not."""
        try:
            self.assertEqual(x, y, prec, message, allow_inf=True)
        except (self.failureException, TypeError):
            return
        self.fail(message or f"{x!r} and {y!r} do not differ")

    def assertTensorsSlowEqual(self, x: Tensor, y: Tensor, prec: float | None = None, message: str = "") -> None:
        """Compare element by element."""
        super().assertEqual((x.size(), x.dtype), (y.size(), y.dtype), message)
        if x.dtype == torch.bool:
            self.assertEqual(x, y)
            return
        greatest = max((abs(x[index] - y[index]).item() for index in iter_indices(x)), default=0)
        super().assertLessEqual(greatest, self.precision if prec is None else prec, message)


def _array(value: Any, other: Any) -> Any:
    """Return a value as a NumPy array, in the dtype of the tensor it is compared with where it is a sequence."""
    if isinstance(value, Sequence) and isinstance(other, Tensor):
        value = torch.as_tensor(value, dtype=other.dtype)
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return np.asarray(value)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.bool_)) else value


def _greatest_difference(test: Any, x: Tensor, y: Tensor, message: str, allow_inf: bool) -> float:
    wide = torch.complex128 if x.is_complex() or y.is_complex() else torch.float64
    first, second = x.to(wide), y.to(wide)
    missing = torch.isnan(first)
    test.assertTrue(torch.equal(missing, torch.isnan(second)), message)
    difference = (first - second).abs().masked_fill(missing, 0)
    if allow_inf and not first.is_complex():
        infinite = torch.isinf(first)
        same = torch.equal(first[infinite], second[infinite]) and torch.equal(infinite, torch.isinf(second))
        test.assertTrue(same, message)
        difference = difference.masked_fill(infinite, 0)
    greatest = difference.max()
    return float("inf") if torch.isnan(greatest) else float(greatest)
