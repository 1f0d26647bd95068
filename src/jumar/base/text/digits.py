"""Numbers as people read them: four significant digits, grouped thousands, NaN and Inf by name; counted words.

`page.js` of the HTML pages holds the same rule for rows that it draws later; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

Cell = None | bool | int | float | str
"""A value in a table."""

SIGNIFICANT = 4
_GREATEST_PLAIN = 1e15
"""From here on an integer is not exact in JavaScript, and its digits are too many to count."""
_LEAST_PLAIN = 1e-4

NO_VALUE = "–"


def cell_text(value: Cell, significant: int = SIGNIFICANT) -> str:
    """Return the text of a table cell: a dash for None, yes or no for a bool, else the number or string."""
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number_text(value, significant)


def number_text(value: int | float, significant: int = SIGNIFICANT) -> str:
    """Return `value` rounded to `significant` digits (at least 1), half away from zero.

    Whole numbers keep all their digits below 1e15. Trailing zeros stay only where the value was
    rounded, so that `0.5` is exact and `0.5000` is not.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if abs(value) >= _GREATEST_PLAIN or abs(value) < _LEAST_PLAIN:
        return _exponential(value, significant)
    if value == int(value):
        return f"{int(value):,}"
    # The exponent after rounding: 0.99999 has as many digits as the 1.000 it is shown as.
    exponent = _rounded(value, _exponent(value) - significant + 1).adjusted()
    rounded = _rounded(value, min(0, exponent - significant + 1))
    return _without_zeros(f"{rounded:,f}") if _is_exact(rounded, value) else f"{rounded:,f}"


def is_rounded(value: Cell, significant: int = SIGNIFICANT) -> bool:
    """Tell whether `cell_text` shows fewer digits than the number has (so that the rest belongs in a tooltip)."""
    if value is None or isinstance(value, bool | str) or not math.isfinite(value):
        return False
    return not _is_exact(Decimal(number_text(value, significant).replace(",", "")), value)


def decimal_text(value: Decimal) -> str:
    """Return an axis label with all digits of `value`: plain where short, else as mantissa and exponent."""
    if value == 0:
        return "0"
    if Decimal("1e-5") <= abs(value) < Decimal("1e7"):
        return f"{value:,f}"
    digits = value.normalize()
    exponent = digits.adjusted()
    return f"{digits.scaleb(-exponent):f}e{exponent}"


def _exponent(value: int | float) -> int:
    # The shortest form that reads back as the value, as JavaScript's toExponential has it: 0.1 is
    # slightly more than a tenth in binary, and other values are slightly less than their name.
    return Decimal(repr(value)).adjusted()


def _rounded(value: int | float, exponent: int) -> Decimal:
    return Decimal(value).quantize(Decimal(1).scaleb(exponent), ROUND_HALF_UP)


def _is_exact(rounded: Decimal, value: int | float) -> bool:
    """Tell whether the text of `rounded` reads back as `value`."""
    return float(rounded) == value if isinstance(value, float) else rounded == value


def _exponential(value: int | float, significant: int) -> str:
    rounded = _rounded(value, _exponent(value) - significant + 1)
    exponent = rounded.adjusted()  # 9.9999e-7 rounds to 1.000e-6
    mantissa = f"{rounded.scaleb(-exponent):.{significant - 1}f}"
    if _is_exact(rounded, value):
        mantissa = _without_zeros(mantissa)
    return f"{mantissa}e{exponent}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def listing(items: Iterable[str], limit: int = 3) -> str:
    """Return `a, b, c and 4 more`: the first `limit` items, and how many others there are."""
    names = list(items)
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 row`, `2,000 rows`; `plural` for a noun that takes no s: `2 policies`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
