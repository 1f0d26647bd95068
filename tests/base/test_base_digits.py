from __future__ import annotations

import json
import math
import shutil
import subprocess
from decimal import Decimal
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.text.digits import cell_text, decimal_text, is_rounded, number_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (7, "7"),
        (1234567, "1,234,567"),
        (1234567.8, "1,234,568"),
        (0.1, "0.1"),
        (56.2999, "56.30"),
        (56.3, "56.3"),
        (0.99999987, "1.000"),
        (9999.6, "10,000"),
        (-0.0012346, "-0.001235"),
        (0.00001234, "1.234e-5"),
        (1e-7, "1e-7"),
        (9.9999e-7, "1.000e-6"),
        (5e-324, "4.941e-324"),
        (1.5e300, "1.5e300"),
        (10**400, "1e400"),
        (math.nan, "NaN"),
        (math.inf, "Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_a_number_has_four_significant_digits(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (True, "yes"), (False, "no"), ("x", "x"), (2.5, "2.5")])
def test_a_cell_that_is_no_number_has_its_word(value: str | None, text: str) -> None:
    assert cell_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_shown_number_is_within_half_a_unit_of_the_fourth_digit(value: float) -> None:
    shown = Decimal(number_text(value).replace(",", ""))
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - 3) if exact else Decimal(0)
    assert abs(shown - exact) <= unit * Decimal("0.5000001")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_is_not_marked_as_rounded_reads_back_as_itself(value: float) -> None:
    assert is_rounded(value) == (float(number_text(value).replace(",", "")) != value)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0"), ("0.50", "0.50"), ("1500", "1,500"), ("1E+8", "1e8"), ("-2.5E-7", "-2.5e-7"), ("1E-5", "0.00001")],
)
def test_an_axis_label_keeps_the_digits_of_its_step(value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script outside a browser")
def test_the_script_of_the_page_shows_numbers_as_python_does() -> None:
    powers = [10.0**exponent for exponent in range(-12, 18)]
    values = [
        sign * power * factor for power in powers for factor in (1, 1.0005, 1.23456, 9.99996, 2.5) for sign in (1, -1)
    ]
    values += [0.0, 1234.5, 2.5, 0.5, 5e-324, 1.7e308, 999_999_999_999_999.0, 123456.5]
    script = resources.files("jumar.show.html").joinpath("templates/page.js").read_text(encoding="utf-8")
    program = f"""{script}
    const both = (value) => [4, 7].map((significant) => module.exports.numberText(value, significant));
    console.log(JSON.stringify({json.dumps(values)}.map(both)));"""
    result = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(result.stdout) == [[number_text(value), number_text(value, 7)] for value in values]
