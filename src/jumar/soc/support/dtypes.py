"""Which dtypes the arguments of an operator may have on a SoC, and under which name the vendor's library checks them.

The table says what the aclnn functions themselves check; an operator or argument that is not in it has no limit
that is known. Halves are taken wherever float32 is: where the vendor's list names one half only, that is not held
against the other. bfloat16 is on no list of a chip that has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from jumar.soc.profiles import SocProfile
from jumar.soc.support.data import table

TORCH_NAMES = {
    "FLOAT": "float32",
    "FLOAT16": "float16",
    "BF16": "bfloat16",
    "DOUBLE": "float64",
    "COMPLEX32": "complex32",
    "FLOAT8_E4M3FN": "float8_e4m3fn",
    "FLOAT8_E5M2": "float8_e5m2",
}
"""CANN's dtype names → PyTorch's; the others are PyTorch's in capitals."""

_ACL_NAMES = {torch: acl for acl, torch in TORCH_NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeLimit:
    """What one argument of an operator may be."""

    argument: str
    """Name in PyTorch's schema."""
    function: str
    """The aclnn function that checks it."""
    parameter: str
    """Its name there."""
    dtypes: tuple[str, ...]
    """PyTorch names, in the order in which the vendor's message lists them."""


def dtype_limits(profile: SocProfile, operator: str) -> tuple[DtypeLimit, ...]:
    """Return the limits of `aten::mm` and the like on a chip; none for chips whose lists are not public (310B, 950)."""
    column = _column(profile)
    data = table("npu_dtypes")
    rows = data["operators"].get(operator.removeprefix("aten::"), {}) if column is not None else {}
    return tuple(
        DtypeLimit(
            argument=argument,
            function=row[0],
            parameter=row[1],
            dtypes=tuple(TORCH_NAMES.get(name, name.lower()) for name in data["lists"][row[column]]),
        )
        for argument, row in rows.items()
        if row[column] is not None
    )


def acl_name(dtype: str) -> str:
    """Return CANN's name of a PyTorch dtype: `DT_DOUBLE` for `float64`. bfloat16 is spelled out, as in its messages."""
    return "DT_BFLOAT16" if dtype == "bfloat16" else f"DT_{_ACL_NAMES.get(dtype, dtype.upper())}"


def _column(profile: SocProfile) -> int | None:
    if profile.family in ("A2", "A3"):
        return 3
    return 2 if not profile.has_bfloat16 else None
