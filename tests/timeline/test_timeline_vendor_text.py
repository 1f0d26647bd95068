"""Numbers, tables and lists of events as vendors write them, sound and damaged."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.timeline.vendor.text import documents, quantities, tables
from jumar.timeline.vendor.text.losses import Losses

COLUMNS = {"name": ("Name", "Op Name"), "time": ("Duration", "Task Duration"), "size": ("Size",)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1704161511420306.491", 1704161511420306491), ("1704161511420306.491\t", 1704161511420306491),
        (" 3.002 ", 3002), ("-1.5", -1500), ("0.0005", 1), ("1e3", 1_000_000), (7, 7000), (0.25, 250),
        ("N/A", None), ("", None), ("nan", None), ("inf", None), ("1e99", None), ("9" * 40, None), (None, None),
        ("12,5", 125_000), ([], None),
    ],
)  # fmt: skip
def test_times_are_exact_whole_nanoseconds(text: object, expected: int | None) -> None:
    assert quantities.nanoseconds(text) == expected


@given(st.integers(0, 2**61))
def test_every_nanosecond_survives_the_text_in_microseconds(time: int) -> None:
    assert quantities.nanoseconds(f"{time // 1000}.{time % 1000:03d}\t") == time
    assert quantities.nanoseconds(str(Decimal(time) / 1_000_000), 1_000_000) == time


@pytest.mark.parametrize(
    ("heading", "expected"),
    [("Duration(us)", 1000), ("Duration (µs)", 1000), ("Wait(ns)", 1), ("Elapse Time(ms)", 10**6)],
)
def test_a_unit_stands_in_the_heading(heading: str, expected: int) -> None:
    assert quantities.time_unit(heading) == expected


def read(path: Path, content: bytes) -> tuple[list[tuple[str, int | None]], list[str]]:
    path.write_bytes(content)
    losses = Losses()
    found = [(row.text("name"), row.ns("time")) for row in tables.rows(path, COLUMNS, ("name", "time"), losses)]
    return found, losses.sentences()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"Name,Duration(us)\na,1.5\t\n", [("a", 1500)]),
        (b"\xef\xbb\xbfTask Duration(ns),Op Name\r\n7 ,b\r\n", [("b", 7)]),
        (b"Name,Duration(us),\na,1,\n", [("a", 1000)]),
        (b'Name,Duration(us)\n"a,b",1\n', [("a,b", 1000)]),
        (b"Name,Duration(us)\na,1\nDuration(us),Name\n2,b\n", [("a", 1000), ("b", 2000)]),
        (b"Name,Duration(us)\na,1\nName,Duration(us)\nb,2\n", [("a", 1000), ("b", 2000)]),
        (b"Name,Duration(us)\na,N/A\n", [("a", None)]),
    ],
)
def test_columns_are_found_in_any_order_and_spelling(
    tmp_path: Path, content: bytes, expected: list[tuple[str, int | None]]
) -> None:
    assert read(tmp_path / "kernel.csv", content) == (expected, [])


@pytest.mark.parametrize(
    ("content", "num_rows", "sentence"),
    [
        (b"", 0, "the file is empty."),
        (b"Name,Size(KB)\na,1\n", 0, "no column Duration"),
        (b"Name,Duration(us)\na,1\nb\n", 1, "1 of 2 entries were passed over"),
        (b"Name,Duration(us)\na,1\nb,2", 2, "may be cut short"),
        (b"Name,Duration(us)\na\x01,1\n", 1, "1 lines hold control characters"),
        (b"Name,Duration(us)\na\xff,1\n", 1, "1 lines are not UTF-8"),
    ],
)
def test_every_loss_of_a_table_is_a_sentence(tmp_path: Path, content: bytes, num_rows: int, sentence: str) -> None:
    found, lost = read(tmp_path / "kernel.csv", content)
    assert len(found) == num_rows
    assert len(lost) == 1
    assert lost[0].startswith("kernel.csv: ")
    assert sentence in lost[0]


EVENTS = [{"ph": "X", "name": f"e{i}", "ts": f"{i}.125", "dur": 1, "args": {"n": [i, {"m": "]}"}]}} for i in range(5)]


def events(path: Path, content: bytes) -> tuple[list[str], list[str]]:
    path.write_bytes(content)
    losses = Losses()
    return [event["name"] for event in documents.events(path, losses)], losses.sentences()


@pytest.mark.parametrize("indent", [None, 1])
def test_all_events_of_a_trace_are_read(tmp_path: Path, indent: int | None) -> None:
    content = json.dumps(EVENTS, indent=indent).encode()
    assert events(tmp_path / "trace.json", content) == ([event["name"] for event in EVENTS], [])


@pytest.mark.parametrize("tail", ["", ', {"name": "b\x01", "ts": 1704161511420306.491}'])
def test_numbers_of_events_keep_their_digits(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'[{{"ts": 1704161511420306.491, "name": "a"}}{tail}]', "utf-8")
    times = [quantities.nanoseconds(event["ts"]) for event in documents.events(path, Losses())]
    assert set(times) == {1704161511420306491}


def test_damage_to_a_trace_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    content = json.dumps(EVENTS).encode()
    names, lost = events(tmp_path / "trace.json", content[: content.index(b'"e3"') + 20])
    assert names == ["e0", "e1", "e2"]
    assert len(lost) == 1
    assert lost[0].startswith("trace.json: ")
    assert events(tmp_path / "empty.json", b"")[0] == []


def test_control_characters_and_other_encodings_are_read(tmp_path: Path) -> None:
    names, _ = events(tmp_path / "trace.json", b'[{"name": "a\x01\tb", "ts": 1}, {"name": "\xff", "ts": 2}]')
    assert names == ["a\x01\tb", "�"]
