"""`SocProfile`: the facts of one chip; `load_profile` reads one from the user's TOML file."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from jumar.base.errors import DeviceError

Family = Literal["A1", "A2", "A3", "inference", "950"]
Overflow = Literal["saturation", "inf_nan"]

KIB, MIB, GIB = 2**10, 2**20, 2**30

_ACLNN_FROM = 220
"""torch_npu's number of Ascend910B1: from there on aclnn kernels are the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocProfile:
    """One chip. Sizes in bytes, `per_core` ones for each AI Core; bandwidths in bytes/s; peaks in FLOP/s."""

    name: str
    family: Family
    """A1: first training generation; A2, A3, 950: the later ones; inference: 310P and 310B."""
    torch_npu_order: int
    """torch_npu's own number of the chip; it compares these (`>= Ascend910B1`) to choose code paths."""
    num_cube_cores: int | None = None
    num_vector_cores: int | None = None
    """None where vector and cube units share one core, or where the count is not public."""
    frequency_mhz: int | None = None
    l0a_bytes: int | None = None
    l0b_bytes: int | None = None
    l0c_bytes: int | None = None
    l1_bytes: int | None = None
    unified_buffer_bytes: int | None = None
    l2_bytes: int | None = None
    """Of the whole chip; the other buffers are per core."""
    memory_bytes: int | None = None
    memory_bandwidth: float | None = None
    l2_read_bandwidth: float | None = None
    peak_float16: float | None = None
    peak_bfloat16: float | None = None
    peak_float32: float | None = None
    cube_dtypes: tuple[str, ...] = ()
    has_bfloat16: bool = False
    has_hf32: bool = False
    hf32_mantissa_bits: int | None = None
    """Explicit mantissa bits of HF32, where the chip has it and they are known."""
    overflow: Overflow = "saturation"
    """What an overflowing float16 result becomes by default: the largest number, or Inf."""
    overflow_modes: tuple[Overflow, ...] = ("saturation",)

    @property
    def is_aclnn_default(self) -> bool:
        """True where torch_npu calls aclnn kernels by default, and the graph compiler (`acl_op`) only on request."""
        return self.torch_npu_order >= _ACLNN_FROM

    @property
    def is_aclnn_only(self) -> bool:
        """True where the graph compiler is not there at all (Ascend950)."""
        return self.family == "950"

    @property
    def has_float32_cube(self) -> bool | None:
        """Whether the matrix unit multiplies float32 numbers; None where that is not known."""
        return "float32" in self.cube_dtypes if self.cube_dtypes else None


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CUBE_DTYPES = ("float16", "bfloat16", "float32", "int8")
"""What a matrix unit may multiply."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "family": get_args(Family),
    "overflow": get_args(Overflow),
    "overflow_modes": get_args(Overflow),
    "cube_dtypes": CUBE_DTYPES,
}
_FLOAT_MANTISSA_BITS = 23


def load_profile(path: Path, get_soc: Callable[[str], SocProfile]) -> SocProfile:
    """Return the profile in a TOML file: `base` (any name that `get_soc` knows) with the given fields changed.

    Raises DeviceError when it is no such file, or a field breaks its rule.
    """
    table = _read(path)
    base = get_soc(str(table.pop("base", "Ascend910B1")))
    known = {field.name: str(field.type) for field in fields(SocProfile)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise DeviceError(
            f"the SoC profile {path} must use the fields of SocProfile; got {', '.join(unknown)}: "
            f"use {', '.join(known)}."
        )
    changed = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for key, value in changed.items():
        wanted = _broken_rule(key, value, known[key])
        if wanted:
            raise DeviceError(f"the SoC profile {path} must give {key} {wanted}; got {value!r}: correct that line.")
    before = {name: getattr(base, name) for name in known}
    profile = SocProfile(**{**before, "name": path.stem, **changed})
    _check_together(path, profile)
    return profile


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceError(
            f"the SoC profile {path} must be a readable file; got {error.strerror}: check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceError(f"the SoC profile {path} must be TOML; got {error}: correct that line.") from error


def _broken_rule(key: str, value: object, declared: str) -> str:
    """Return what the field wants when `value` is not that, else nothing. `declared` is its annotation."""
    choices = _CHOICES.get(key)
    if declared.startswith("tuple"):
        is_right = isinstance(value, tuple) and bool(value) and all(item in (choices or ()) for item in value)
        return "" if is_right else f"a list of {', '.join(choices or ())}"
    if choices:
        return "" if value in choices else f"one of {', '.join(choices)}"
    if declared == "str":
        return "" if isinstance(value, str) and value.strip() else "a name"
    if declared == "bool":
        return "" if isinstance(value, bool) else "true or false"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if declared.startswith("int"):
        return "" if is_number and isinstance(value, int) and value > 0 else "a whole number above 0"
    return "" if isinstance(value, (int, float)) and is_number and 0 < value < math.inf else "a number above 0"


def _check_together(path: Path, profile: SocProfile) -> None:
    """Raise DeviceError when fields contradict each other."""
    bits = profile.hf32_mantissa_bits
    rules = (
        (profile.overflow in profile.overflow_modes, "overflow one of its overflow_modes", profile.overflow),
        (bits is None or bits < _FLOAT_MANTISSA_BITS, "hf32_mantissa_bits below float32's 23", bits),
    )
    for holds, wanted, value in rules:
        if not holds:
            raise DeviceError(f"the SoC profile {path} must give {wanted}; got {value!r}: correct that line.")
