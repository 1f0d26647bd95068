"""Sizes in bytes have one writer and one parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import UsageError
from jumar.base.text import counted, listing, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("1 b", 1),
        ("16GB", 16 * 10**9),
        ("16G", 16 * 10**9),
        ("16GiB", 16 * 2**30),
        (" 16 gib ", 16 * 2**30),
        ("0.5 MiB", 2**19),
        ("2TB", 2 * 10**12),
        ("3Ki", 3 * 2**10),
    ],
)
def test_gb_are_powers_of_1000_and_gib_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["nothing", "GB", "16 apples", "-1GB", "0", "0.2", "1e3", "10ib", "1,000"])
def test_what_is_no_size_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"^\"--memory .*must be a size such as 32GB or 512MiB\. Try --memory 32GB\.$"):
        parse_size(text, "--memory")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (640, "640 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (12.34 * 2**20, "12.3 MiB"),
        (64 * 2**20, "64 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (100 * 2**30, "100 GiB"),
        (2**30 - 1, "1 GiB"),
        (5 * 2**40, "5 TiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_a_size_has_three_significant_digits(size: float, text: str) -> None:
    assert size_text(size) == text


@given(st.integers(1, 2**52))
def test_a_written_size_is_read_back_to_three_digits(size: int) -> None:
    assert parse_size(size_text(size)) == pytest.approx(size, rel=0.005)


def test_nouns_are_counted() -> None:
    assert [counted(1, "row"), counted(2000, "row"), counted(2, "policy", "policies")] == [
        "1 row",
        "2,000 rows",
        "2 policies",
    ]


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), ([*"abcde"], "a, b, c and 2 more")],
)
def test_a_list_names_the_first_and_counts_the_rest(names: list[str], text: str) -> None:
    assert listing(iter(names)) == text
