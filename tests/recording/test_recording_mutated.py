"""Recordings and dumps of other tools with one damage each: a right result or one sentence, whatever is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_samples as samples
import h5py
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from mutations import mutated

from jumar.base.errors import JumarError, RecordingError
from jumar.recording import Recording
from jumar.recording.foreign import open_foreign
from jumar.recording.foreign.recognise import opened
from jumar.recording.foreign.safe import array_of
from jumar.recording.row_checks import checked_table

SEEDS = range(12)


def read_all(path: Path) -> None:
    """Read everything; tensors that are not there are no end."""
    found: Any = opened(path)
    found.losses()
    for rank in found.ranks:
        for step in found.steps(rank):
            for row in found.rows(step, rank):
                try:
                    found.tensors(row)
                except RecordingError as error:
                    assert "\n" not in str(error)  # noqa: PT017 - a refusal is a right answer


MAKERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "x.h5": ("x.h5", lambda folder: samples.hdf5(folder / "x.h5")),
    "x.pth": ("x.pth", lambda folder: samples.checkpoint(folder / "x.pth")),
    "step0/rank0/dump.json": (".", samples.msprobe),
    "step0/rank0/stack.json": (".", samples.msprobe),
    "step0/rank0/construct.json": (".", samples.msprobe),
    "rank0/torch_api_dump_info.csv": (".", samples.troubleshooter),
    "rank0/torch_api_dump_stack.json": (".", samples.troubleshooter),
    "rank0/torch_api_dump/NN_Linear_0_forward_output.npy": (".", samples.troubleshooter),
    "20240808163566/0/Pooling.pool1.1147.1589195081588018.output.0.npy": (".", samples.npy),
    "recording/run.json": ("recording", lambda folder: samples.recording(folder / "recording")),
    "recording/end-rank-0.json": ("recording", lambda folder: samples.recording(folder / "recording")),
    "recording/steps/step-000000-rank-0.parquet": (
        "recording", lambda folder: samples.recording(folder / "recording")
    ),
    "recording/tensors/step-000000-rank-0.h5": ("recording", lambda folder: samples.recording(folder / "recording")),
}  # fmt: skip
"""The file that is damaged, what is opened, and what makes both."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name.startswith("recording/") else name for name in MAKERS]
)
def test_one_damage_is_one_sentence_or_read(tmp_path: Path, name: str) -> None:
    root, make = MAKERS[name]
    make(tmp_path)
    good = (tmp_path / name).read_bytes()
    for seed in SEEDS:
        (tmp_path / name).write_bytes(good)
        (tmp_path / name).write_bytes(mutated(tmp_path / name, seed))
        try:
            read_all(tmp_path / root)
        except JumarError as error:
            assert "\n" not in str(error), seed  # noqa: PT017 - a refusal is a right answer
            assert len(str(error)) < 700, seed  # noqa: PT017 - as above


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema_version", True), ("schema_version", "3"), ("levels", "op"), ("levels", [1]), ("steps", [1]),
        ("device", 3), ("steps", {"a": 1}), ("num_ranks", "two"), ("num_ranks", 1.5), ("settings", []),
        ("command", "train.py"), ("environment", None), ("values", "everything"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_in_run_json_is_named(tmp_path: Path, field: str, value: Any) -> None:
    samples.recording(tmp_path / "recording", values="stats")
    path = tmp_path / "recording" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(RecordingError, match=rf"{field}.* must be|not written by Jumar"):
        Recording.open(tmp_path / "recording")


def test_a_step_file_that_declares_far_more_rows_than_it_holds_is_left_out(tmp_path: Path) -> None:
    """Rows that are all alike take no room in the file, and as much memory and time as any."""
    samples.recording(tmp_path / "recording", values="stats")
    path = next((tmp_path / "recording" / "steps").iterdir())
    num = 200_000
    narrow = pq.read_table(path).slice(0, 1).drop_columns(["inputs", "outputs"])
    bomb = pa.table({name: pa.repeat(narrow[name][0], num) for name in narrow.column_names}, narrow.schema)
    pq.write_table(bomb, path, compression="zstd", use_dictionary=True, write_statistics=False)
    assert path.stat().st_size < num // 2
    found = Recording.open(tmp_path / "recording")
    assert found.steps() == []
    assert "is cut short or damaged and is left out" in found.warnings[0]


def cast(name: str, kind: pa.DataType, values: Any = None) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        column = pa.array([values] * table.num_rows, kind)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return change


@pytest.mark.parametrize(
    "change",
    [
        cast("name", pa.string()), cast("seq", pa.string(), "x"), cast("inputs", pa.int64(), 1),
        cast("kind", pa.list_(pa.int8()), []), cast("outputs", pa.list_(pa.struct({"name": pa.int8()})), []),
        cast("start_us", pa.binary(), b"x"), cast("draws", pa.string(), "?"),
    ],
)  # fmt: skip
def test_a_column_of_another_type_is_no_traceback(tmp_path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    samples.recording(tmp_path / "recording", values="stats")
    path = next((tmp_path / "recording" / "steps").iterdir())
    pq.write_table(change(pq.read_table(path)), path)
    found = Recording.open(tmp_path / "recording")
    assert found.steps() == []
    assert "left out" in found.warnings[0]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("arguments", "[" * 3000 + "]" * 3000, "arguments are damaged"), ("arguments", "[]", "arguments are damaged"),
        ("arguments", '{"a": ' * 200 + "1" + "}" * 200, "nested too deeply"), ("arguments", "{", "are damaged"),
        ("kind", "virus", "kind is 'virus'"), ("phase", "", "phase is ''"), ("seq", -1, "seq is -1"),
        ("occurrence", -2, "occurrence is -2"), ("step", -3, "step is -3"),
    ],
)  # fmt: skip
def test_a_value_that_no_row_has_leaves_the_step_out(tmp_path: Path, name: str, value: Any, problem: str) -> None:
    samples.recording(tmp_path / "recording", values="stats")
    path = next((tmp_path / "recording" / "steps").iterdir())
    table = pq.read_table(path)
    column = pa.array([*table[name].to_pylist()[:-1], value], table.schema.field(name).type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), path)
    with pytest.raises(pa.ArrowInvalid, match=re.escape(problem)):
        checked_table(path)
    found = Recording.open(tmp_path / "recording")
    assert found.steps() == []
    assert "left out" in found.warnings[0]


def test_a_negative_size_leaves_the_step_out(tmp_path: Path) -> None:
    samples.recording(tmp_path / "recording", values="stats")
    path = next((tmp_path / "recording" / "steps").iterdir())
    table = pq.read_table(path)
    rows = table.to_pylist()
    next(row for row in rows if row["inputs"])["inputs"][0]["shape"] = [2, -2]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    with pytest.raises(pa.ArrowInvalid, match=re.escape("inputs.shape is -2")):
        checked_table(path)


def test_arguments_in_an_hdf5_file_that_are_no_object_are_passed_over(tmp_path: Path) -> None:
    path = samples.hdf5(tmp_path / "x.h5")
    with h5py.File(path, "r+") as file:
        for place in ("aten::mul.Tensor/1", "aten::neg/1"):
            file[place].attrs["arguments"] = "[" * 2000 if "neg" in place else '{"alpha": 2}'
    found = open_foreign(path)
    assert found is not None
    assert {row.name: row.arguments for row in found.rows(0, 0) if row.occurrence == 0} == {
        "aten::mul.Tensor": '{"alpha": 2}', "aten::neg": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(1).expand(1 << 33), torch.empty(1 << 33, device="meta"),
        torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (1 << 33,), check_invariants=True),
    ],
    ids=["expanded", "meta", "coo"],
)  # fmt: skip
def test_a_tensor_that_stands_for_far_more_than_is_stored_is_not_made(tmp_path: Path, tensor: torch.Tensor) -> None:
    with pytest.raises(RecordingError, match=r"stands for a few|has no values"):
        array_of(tensor)


def test_names_that_cannot_be_shown_are_spelled(tmp_path: Path) -> None:
    torch.save({"a.\ud800": torch.ones(1), "\udcff.b": torch.ones(1)}, tmp_path / "x.pth")
    found = opened(tmp_path / "x.pth")
    assert [(row.module_path, row.name) for row in found.rows(0, 0)] == [
        ("a", "parameter::\\ud800"), ("\\udcff", "parameter::b"),
    ]  # fmt: skip
    assert [list(found.tensors(row)) for row in found.rows(0, 0)] == [["output.0"]] * 2


@pytest.mark.parametrize(
    "table",
    [{"a": [["x"], [["f"]]]}, {"a": [[["x"]], ["f"]]}, {"a": [{"x": 1}, {"y": 2}]}, [], 3, {"a": "b"}, {"a": [1, 2]}],
)
def test_lists_where_tables_belong_in_a_stack_file_are_passed_over(tmp_path: Path, table: Any) -> None:
    samples.msprobe(tmp_path)
    (tmp_path / "step0" / "rank0" / "stack.json").write_text(json.dumps(table))
    found = open_foreign(tmp_path)
    assert found is not None
    assert found.rows(0, 0)


def test_owners_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    samples.msprobe(tmp_path)
    path = tmp_path / "step0" / "rank0" / "construct.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), "a") | {"a": "b", "b": "a"}))
    found = open_foreign(tmp_path)
    assert found is not None
    with pytest.raises(RecordingError, match=r"leads from .* to no module"):
        found.rows(0, 0)
