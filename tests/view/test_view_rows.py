"""Rows of a recording in pages: what DuckDB answers is what the reader of recordings reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from view_results import LAYERS, record

from jumar.base.errors import InputError
from jumar.recording import Recording
from jumar.view.data.rows import COLUMNS, DEEPEST, PAGE_ROWS, Asked, RowTable, open_table

pytest.importorskip("duckdb", reason="the workbench needs jumar[view]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("rows") / "run", steps=12)


def expected(folder: Path) -> list[tuple]:
    return [tuple(getattr(row, name) for name in COLUMNS) for row in Recording.open(folder).iter_rows()]


def every(table: RowTable, **asked: object) -> list[tuple]:
    rows, first = [], 0
    while True:
        found = table.page(Asked(first=first, **asked))
        rows += found.rows
        first += PAGE_ROWS
        if not found.has_more:
            return rows


def test_pages_in_the_order_of_the_recording_are_its_rows(folder: Path) -> None:
    table = open_table(folder)
    assert every(table) == expected(folder)
    assert table.count(Asked()) == len(expected(folder)) == 12 * (len(LAYERS) + 2)


@pytest.mark.parametrize("sort", ["kind", "phase", "module_path", "name", "source", "duration_us"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_sorted_table_has_the_same_rows_in_order(folder: Path, sort: str, descending: bool) -> None:
    rows = every(open_table(folder), sort=sort, descending=descending)
    at = COLUMNS.index(sort)
    inner = sorted(expected(folder), key=lambda row: row[:3])
    assert rows == sorted(inner, key=lambda row: row[at], reverse=descending)


@pytest.mark.parametrize(
    ("asked", "keep"),
    [
        ({"step": 3}, lambda row: row[0] == 3),
        ({"kind": "loss"}, lambda row: row[3] == "loss"),
        ({"phase": "optimizer"}, lambda row: row[4] == "optimizer"),
        ({"words": "LAYERS.1"}, lambda row: "layers.1" in row[5]),
        ({"words": "tanh head"}, lambda row: row[5] == "head" and "tanh" in row[7]),
        ({"words": "train.py:2", "step": 1}, lambda row: row[8] == "train.py:2" and row[0] == 1),
        ({"words": "100%_'; DROP"}, lambda row: False),
        ({"rank": 1}, lambda row: False),
    ],
)
def test_a_filter_keeps_what_fits(folder: Path, asked: dict, keep) -> None:
    table = open_table(folder)
    kept = [row for row in expected(folder) if keep(row)]
    assert every(table, **asked) == kept
    assert table.count(Asked(**asked)) == len(kept)


def test_a_sorted_table_ends_where_sorting_would_take_seconds(folder: Path) -> None:
    with pytest.raises(InputError, match="Turn the order round"):
        open_table(folder).page(Asked(sort="name", first=DEEPEST))


def test_totals_add_up(folder: Path) -> None:
    totals = {name: (calls, time) for name, calls, time in open_table(folder).totals(Asked(), "module_path")}
    rows = expected(folder)
    assert totals["layers.0.mlp"] == (12, pytest.approx(sum(row[9] for row in rows if row[5] == "layers.0.mlp")))


def test_a_new_step_is_seen_when_the_table_is_opened_again(tmp_path: Path, folder: Path) -> None:
    run = record(tmp_path / "run", steps=2)
    assert open_table(run).steps == [0, 1]
    shutil.copy(folder / "steps" / "step-000007-rank-0.parquet", run / "steps")
    assert open_table(run).steps == [0, 1, 7]


@pytest.mark.parametrize("name", ["a [1]", "what?", "star*", "it's", "plus+and(more)", "ünï"])
def test_any_name_of_a_folder_is_read(tmp_path: Path, name: str) -> None:
    run = record(tmp_path / name / "run", steps=2)
    assert open_table(run).count(Asked()) == 2 * (len(LAYERS) + 2)


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign":
        pq.write_table(pa.table({"x": [1, 2]}), path)
    else:
        data[200:260] = bytes(60)
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "empty", "foreign", "changed"])
def test_a_damaged_step_is_left_out_and_named(tmp_path: Path, how: str) -> None:
    run = record(tmp_path / "run", steps=4)
    bad = run / "steps" / "step-000002-rank-0.parquet"
    damage(bad, how)
    table = open_table(run)
    table.begin_check()
    rows = every(table)
    assert {row[0] for row in rows} == {0, 1, 3}
    assert list(table.damaged) == [bad]
    assert table.count(Asked()) == len(rows)


def test_columns_that_an_older_release_did_not_write_are_empty(tmp_path: Path) -> None:
    run = record(tmp_path / "run", steps=2)
    old = run / "steps" / "step-000000-rank-0.parquet"
    pq.write_table(pq.read_table(old).drop_columns(["source", "duration_us"]), old)
    rows = every(open_table(run))
    assert len(rows) == 2 * (len(LAYERS) + 2)
    assert {row[8:] for row in rows if row[0] == 0} == {("", None)}
    assert all(row[9] for row in rows if row[0] == 1)
