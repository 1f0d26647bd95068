"""What `scripts/version_matrix.py` reads from runs, and that the page of versions has the table of the kept data."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from version_matrix import DATA, TARGET, Verdict, database_verdict, page_with, port_verdict, suite_verdict, table


def row(date: str, **says: str) -> dict[str, Verdict]:
    return {part.replace("_", " "): {"says": text, "date": date} for part, text in says.items()}


def test_a_suite_is_its_count_its_folders_and_the_tests_that_failed() -> None:
    lines = [
        "FAILED tests/a/test_b.py::test_c[1] - AssertionError: assert 1 == 2",
        "ERROR tests/a/test_d.py",
        "1 failed, 203 passed, 2 deselected, 1 error in 114.55s (0:01:54)",
    ]
    assert suite_verdict("\n".join(lines), ["tests/a"]) == {
        "says": "1 failed, 203 passed, 2 deselected, 1 error (tests/a)",
        "failed": ["tests/a/test_b.py::test_c[1]", "tests/a/test_d.py"],
    }
    assert suite_verdict("5 passed in 0.10s\n", ["tests/a", "tests/b"]) == {"says": "5 passed (tests/a tests/b)"}


@pytest.mark.parametrize("output", ["", "Segmentation fault", "5 passed so far\n!! interrupted !!"])
def test_a_suite_without_a_count_at_its_end_did_not_end(output: str) -> None:
    assert suite_verdict(output, ["tests"]) == {"says": "did not end"}


def test_the_main_job_is_equal_only_where_it_says_so() -> None:
    said = "x/train.py trains on the NPU (3 steps and 3 losses compared).\n"
    assert port_verdict(said) == "3 steps and 3 losses"
    assert port_verdict(f"{said}Losses are bit for bit the same.\n") == "3 steps and 3 losses, bit for bit"
    said = said.replace(" (", " as on the reference: ")
    assert port_verdict(said) == "3 steps and 3 losses"
    assert port_verdict("Losses are bit for bit the same.\n") is None


def test_what_the_emulator_does_not_have_is_told_from_what_is_wrong() -> None:
    found = {"num_agreeing": 3, "num_tried": 3, "num_wrong": 0, "num_not_emulated": 0}
    assert database_verdict(found) == "3 of 3 agree"
    found = {"num_agreeing": 1, "num_tried": 4, "num_wrong": 2, "num_not_emulated": 1}
    assert database_verdict(found) == "1 of 4 agree, 2 wrong, 1 not emulated"


def test_rows_stand_by_version_and_say_what_was_not_run() -> None:
    rows = {
        "2.13.0 | CPU | 3.11.7": row("2026-11-26", recording="the reference"),
        "2.6.0 | CUDA 12.4 | 3.11.7": {**row("2026-11-24", main_job="same"), **row("2026-11-25", operators="2 of 2")},
    }
    assert table(rows).splitlines()[2:] == [
        "| 2.6.0 | CUDA 12.4 | 3.11.7 | same | not run | 2 of 2 | not run | 2026-11-24 to 2026-11-25 |",
        "| 2.13.0 | CPU | 3.11.7 | not run | not run | not run | the reference | 2026-11-26 |",
    ]


def test_the_page_has_the_table_of_the_kept_data() -> None:
    page = TARGET.read_text("utf-8")
    assert page == page_with(page, json.loads(DATA.read_text("utf-8")))
