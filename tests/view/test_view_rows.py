"""Rows of a recording in pages: what the index answers is what the reader of recordings reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from view_results import LAYERS, record

from jumar.recording import Recording
from jumar.view.data.building import empty, extended
from jumar.view.data.index import _by_number
from jumar.view.data.rows import PAGE_ROWS, Asked, RowTable, step_files

COLUMNS = ("step", "rank", "seq", "kind", "phase", "module_path", "name", "source", "duration_us")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("rows") / "run", steps=12)


def expected(folder: Path) -> list[tuple]:
    return [tuple(getattr(row, name) for name in COLUMNS) for row in Recording.open(folder).iter_rows()]


def open_table(folder: Path) -> RowTable:
    table = RowTable(folder)
    table.refresh(step_files(folder))
    assert table.wait(30)
    return table


def every(table: RowTable, **asked: object) -> list[tuple]:
    rows: list[tuple] = []
    while True:
        found = table.page(Asked(first=len(rows), **asked))
        assert found is not None
        rows += [tuple(getattr(row, name) for name in COLUMNS) for row in found.rows]
        if len(rows) == found.count:
            return rows
        assert len(found.rows) == PAGE_ROWS


def test_pages_in_the_order_of_the_recording_are_its_rows(folder: Path) -> None:
    table = open_table(folder)
    assert every(table) == expected(folder)
    assert len(expected(folder)) == 12 * (len(LAYERS) + 2)


@pytest.mark.parametrize("sort", ["kind", "phase", "module_path", "name", "source", "duration_us"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_sorted_table_has_the_same_rows_in_order(folder: Path, sort: str, descending: bool) -> None:
    at = COLUMNS.index(sort)
    inner = sorted(expected(folder), key=lambda row: row[at])
    assert every(open_table(folder), sort=sort, descending=descending) == (inner[::-1] if descending else inner)


@pytest.mark.parametrize(
    ("asked", "keep"),
    [
        ({"step": 3}, lambda row: row[0] == 3),
        ({"kind": "loss"}, lambda row: row[3] == "loss"),
        ({"phase": "optimizer"}, lambda row: row[4] == "optimizer"),
        ({"words": "LAYERS.1"}, lambda row: "layers.1" in row[5]),
        ({"words": "tanh head"}, lambda row: row[5] == "head" and "tanh" in row[6]),
        ({"words": "train.py:2", "step": 1}, lambda row: row[7] == "train.py:2" and row[0] == 1),
        ({"words": "100%_'; DROP"}, lambda row: False),
        ({"rank": 1}, lambda row: False),
    ],
)
def test_a_filter_keeps_what_fits(folder: Path, asked: dict, keep) -> None:
    table = open_table(folder)
    kept = [row for row in expected(folder) if keep(row)]
    assert every(table, **asked) == kept


def test_numbers_are_sorted_with_those_that_are_missing_last() -> None:
    values = np.random.default_rng(0).lognormal(size=5000).astype(np.float32)
    values[::7], values[1], values[2] = np.nan, 0.0, 3e38
    order = _by_number(values)
    assert np.array_equal(order, np.argsort(values, kind="stable"))


def test_the_first_page_and_a_steps_page_need_no_index(folder: Path) -> None:
    table = RowTable(folder, step_files(folder))
    first, step = table.page(Asked()), table.page(Asked(step=5, sort="duration_us", descending=True))
    assert first is not None
    assert (first.rows[0].step, first.count) == (0, None)
    assert step is not None
    assert {row.step for row in step.rows} == {5}
    assert step.rows[0].duration_us == max(row[8] for row in expected(folder))
    assert table.page(Asked(sort="name")) is None


def test_totals_add_up(folder: Path) -> None:
    totals = {name: (calls, time) for name, calls, time in open_table(folder).totals(Asked(), "module_path")}
    rows = expected(folder)
    assert totals["layers.0.mlp"] == (12, pytest.approx(sum(row[8] for row in rows if row[5] == "layers.0.mlp")))


def test_a_new_step_is_read_and_the_others_are_not_read_again(tmp_path: Path, folder: Path) -> None:
    run = record(tmp_path / "run", steps=2)
    old, _ = extended(empty(), step_files(run))
    shutil.copy(folder / "steps" / "step-000007-rank-0.parquet", run / "steps")
    files = step_files(run)
    for file in files[:2]:
        file.path.write_bytes(b"")  # who reads it again finds it damaged
    new, damaged = extended(old, files)
    assert damaged == {}
    assert [file.step for file in new.files] == [0, 1, 7]
    assert new.page(Asked(step=1), 50) == old.page(Asked(step=1), 50)
    assert new.num_rows == 3 * (len(LAYERS) + 2)


def test_a_table_that_is_open_takes_a_step_that_was_written(tmp_path: Path, folder: Path) -> None:
    run = record(tmp_path / "run", steps=2)
    table = open_table(run)
    shutil.copy(folder / "steps" / "step-000007-rank-0.parquet", run / "steps")
    table.refresh(step_files(run))
    assert table.wait(30)
    assert {row[0] for row in every(table)} == {0, 1, 7}


@pytest.mark.parametrize("name", ["a [1]", "what?", "star*", "it's", "plus+and(more)", "ünï"])
def test_any_name_of_a_folder_is_read(tmp_path: Path, name: str) -> None:
    run = record(tmp_path / name / "run", steps=2)
    assert len(every(open_table(run))) == 2 * (len(LAYERS) + 2)


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
    rows = every(table)
    assert {row[0] for row in rows} == {0, 1, 3}
    assert list(table.damaged) == [bad]


def test_columns_that_an_older_release_did_not_write_are_empty(tmp_path: Path) -> None:
    run = record(tmp_path / "run", steps=2)
    old = run / "steps" / "step-000000-rank-0.parquet"
    pq.write_table(pq.read_table(old).drop_columns(["source", "duration_us"]), old)
    rows = every(open_table(run))
    assert len(rows) == 2 * (len(LAYERS) + 2)
    assert {row[7:] for row in rows if row[0] == 0} == {("", None)}
    assert all(row[8] for row in rows if row[0] == 1)
