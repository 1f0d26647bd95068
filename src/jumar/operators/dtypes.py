"""Element types: `Dtype` holds the bytes and limits of one.

`dtype("torch.float16")`, `dtype("fp16")` and `dtype("HALF")` are the same.
Limits follow from the layout (IEEE 754, OCP 8-bit floating point specification 1.0): the bits of exponent and mantissa,
the bias, and what the highest exponent is used for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

Kind = Literal["bool", "int", "float", "complex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """One element type, by PyTorch's name.

    `largest` is the greatest finite number, `lowest` the least one, `smallest_normal` the least positive normal number
    and `epsilon` the distance from 1 to the next number (both 0 for integers and bool). A complex type
    has those of its parts.
    """

    name: str
    short: str
    size_bytes: int
    kind: Kind
    largest: float
    lowest: float
    smallest_normal: float = 0.0
    epsilon: float = 0.0
    mantissa_bits: int = 0

    @property
    def is_floating_point(self) -> bool:
        """True for real floating types, as in PyTorch."""
        return self.kind == "float"

    @property
    def is_half(self) -> bool:
        """True for float16 and bfloat16."""
        return self.kind == "float" and self.size_bytes == 2


_HIGHEST: Mapping[str, int] = {"ieee": 2, "fn": 1, "fnuz": 1}
"""Where the highest exponent of a finite number lies below all ones plus one: IEEE 754 keeps all ones for Inf."""


def _float(name: str, short: str, exponent: int, mantissa: int, form: str = "ieee", size_bytes: int = 0) -> Dtype:
    bias = 2 ** (exponent - 1) - (0 if form == "fnuz" else 1)
    highest = 2**exponent - _HIGHEST[form] - bias
    steps = 2**mantissa - (2 if form == "fn" else 1)  # `fn` keeps the last mantissa of the highest exponent for NaN
    largest = 2.0**highest * (1.0 + steps / 2**mantissa)
    return Dtype(
        name=name,
        short=short,
        size_bytes=size_bytes or (1 + exponent + mantissa) // 8,
        kind="float",
        largest=largest,
        lowest=-largest,
        smallest_normal=2.0 ** (1 - bias),
        epsilon=2.0**-mantissa,
        mantissa_bits=mantissa,
    )


def _integer(name: str, short: str) -> Dtype:
    bits, is_signed = int(name.removeprefix("u").removeprefix("int")), not name.startswith("u")
    lowest = float(-(2 ** (bits - 1)) if is_signed else 0)
    largest = float(2 ** (bits - is_signed) - 1)
    return Dtype(name=name, short=short, size_bytes=bits // 8, kind="int", largest=largest, lowest=lowest)


def _complex(name: str, short: str, part: Dtype) -> Dtype:
    return Dtype(
        name=name,
        short=short,
        size_bytes=2 * part.size_bytes,
        kind="complex",
        largest=part.largest,
        lowest=part.lowest,
        smallest_normal=part.smallest_normal,
        epsilon=part.epsilon,
        mantissa_bits=part.mantissa_bits,
    )


_HALF, _SINGLE = _float("float16", "fp16", 5, 10), _float("float32", "fp32", 8, 23)
_DOUBLE = _float("float64", "fp64", 11, 52)
DTYPES: Mapping[str, Dtype] = {
    item.name: item
    for item in (
        _DOUBLE,
        _SINGLE,
        _HALF,
        _float("bfloat16", "bf16", 8, 7),
        _float("float8_e4m3fn", "fp8_e4m3", 4, 3, "fn"),
        _float("float8_e4m3fnuz", "fp8_e4m3fnuz", 4, 3, "fnuz"),
        _float("float8_e5m2", "fp8_e5m2", 5, 2),
        _float("float8_e5m2fnuz", "fp8_e5m2fnuz", 5, 2, "fnuz"),
        _complex("complex128", "c128", _DOUBLE),
        _complex("complex64", "c64", _SINGLE),
        _complex("complex32", "c32", _HALF),
        *(_integer(f"int{bits}", f"i{bits}") for bits in (64, 32, 16, 8)),
        *(_integer(f"uint{bits}", f"u{bits}") for bits in (64, 32, 16, 8)),
        Dtype(name="bool", short="bool", size_bytes=1, kind="bool", largest=1.0, lowest=0.0),
    )
}
"""By PyTorch's name."""

_OTHER_NAMES: Mapping[str, str] = {
    "half": "float16",
    "f16": "float16",
    "float": "float32",
    "f32": "float32",
    "single": "float32",
    "double": "float64",
    "f64": "float64",
    "bf16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "fp8_e4m3fn": "float8_e4m3fn",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "boolean": "bool",
    "bool_": "bool",
}


@lru_cache(maxsize=256)
def dtype(name: str) -> Dtype | None:
    """Return the element type that `name` means; None for an unknown name.

    A name is that of PyTorch, with or without `torch.`, or a short one; case does not matter. `float` and `int` are
    those of C and of ONNX: float32 and int32.
    """
    found = DTYPES.get(name)
    if found is None:
        word = name.removeprefix("torch.").lower().removeprefix("dt_")
        found = DTYPES.get(_OTHER_NAMES.get(word, word)) or _by_short().get(word)
    return found


def size_bytes(name: str, otherwise: int = 4) -> int:
    """Return the bytes of one element; `otherwise` for a type that is not known."""
    found = dtype(name)
    return otherwise if found is None else found.size_bytes


def epsilon(name: str) -> float:
    """Return the distance from 1 to the next number; 0 for integers, bool and unknown types."""
    found = dtype(name)
    return 0.0 if found is None else found.epsilon


def largest(name: str) -> float | None:
    """Return the greatest finite number of a floating type (of its parts for a complex one); None for other types."""
    found = dtype(name)
    return found.largest if found is not None and found.epsilon else None


@cache
def _by_short() -> Mapping[str, Dtype]:
    return {item.short: item for item in DTYPES.values()}
