"""Numbers in text as vendors write them: exact nanoseconds, tabs behind numbers, `N/A`, units in the heading."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_TEXT_IS_NOTHING = frozenset({"", "n/a", "na", "nan", "null", "none", "-", "inf", "-inf"})
_FURTHEST_NS = 2**62
"""Times of 1970 to 2116 fit; what lies further off is damage."""
_DECIMAL = re.compile(r"([+-]?)(\d{1,19})(?:\.(\d{0,30}))?")
_UNIT = re.compile(r"\(([^()]*)\)\s*$")
_NS_OF = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_BYTES_OF = {"b": 1, "byte": 1, "bytes": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


def is_nothing(text: str) -> bool:
    """Return whether a cell says that there is no value: empty, `N/A`."""
    return text.strip().lower() in _TEXT_IS_NOTHING


def nanoseconds(text: object, unit_ns: int = 1000) -> int | None:
    """Return a time in whole nanoseconds, exact to the last digit; None where `text` is no number of this world.

    `unit_ns` is the length of the text's unit. No float is used: at 1.7e15 microseconds its grid is 250 ns.
    """
    if unit_ns == 1000 and isinstance(text, str):
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if len(fraction) == 3 and len(digits) < 19 and digits.isascii() and digits.isdigit():
            return int(digits)  # what nearly all times of a trace look like
    plain = _DECIMAL.fullmatch(str(text).strip())
    if plain is not None and unit_ns in (1000, 1_000_000, 1_000_000_000):
        places = len(str(unit_ns)) - 1
        fraction = (plain[3] or "").ljust(places + 1, "0")
        value = int(plain[2]) * unit_ns + int(fraction[:places]) + (fraction[places] >= "5")
        value = -value if plain[1] == "-" else value
    else:
        exact = decimal(text)
        if exact is None or abs(exact) > _FURTHEST_NS:
            return None
        value = round(exact * unit_ns)
    return value if abs(value) < _FURTHEST_NS else None


def decimal(text: object) -> Decimal | None:
    """Return a finite number, or None. Thousands' commas and a percent sign are not part of it."""
    try:
        value = Decimal(str(text).strip().rstrip("%").replace(",", ""))
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 30 else None


def number(text: object) -> float | None:
    """Return a number as float, or None where `text` is none."""
    value = decimal(text)
    return None if value is None else float(value)


def integer(text: object) -> int | None:
    """Return a whole number, or None where `text` is none."""
    value = decimal(text)
    return int(value) if value is not None and value == int(value) else None


def time_unit(heading: str, default: str = "us") -> int:
    """Return the length in nanoseconds of the unit in a heading's brackets: `Duration(us)` is 1000."""
    return _NS_OF.get(_unit(heading), _NS_OF[default])


def size_unit(heading: str, default: str = "mb") -> int:
    """Return the bytes of the unit in a heading's brackets: `Size(KB)` is 1024."""
    return _BYTES_OF.get(_unit(heading), _BYTES_OF[default])


def _unit(heading: str) -> str:
    found = _UNIT.search(heading)
    return found[1].strip().lower().replace("µ", "u").replace("μ", "u") if found else ""
