from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.recording import CallRow, TensorRow
from jumar.recording.row_checks import missing_columns
from jumar.recording.row_reader import table_to_rows
from jumar.recording.rows import TABLE_SCHEMA, rows_to_table

INTEGERS = st.integers(-(2**62), 2**62)
TEXT = st.text(max_size=20)
STATISTIC = st.none() | st.floats(allow_nan=False)
SHAPE = st.lists(INTEGERS, max_size=5).map(tuple)
TENSORS = st.lists(
    st.builds(
        TensorRow,
        name=TEXT,
        shape=SHAPE,
        dtype=TEXT,
        device=TEXT,
        stride=SHAPE,
        storage_offset=INTEGERS,
        contiguous=st.booleans(),
        format=TEXT,
        storage=INTEGERS,
        minimum=STATISTIC,
        maximum=STATISTIC,
        mean=STATISTIC,
        l2=STATISTIC,
        num_nan=st.none() | INTEGERS,
        num_inf=st.none() | INTEGERS,
    ),
    max_size=4,
).map(tuple)
SMALL = st.integers(0, 2**31 - 1)
ROWS = st.lists(
    st.builds(
        CallRow,
        step=SMALL,
        rank=SMALL,
        seq=SMALL,
        kind=st.sampled_from(["op", "module", "loss"]),
        phase=st.sampled_from(["forward", "backward", "optimizer"]),
        module_path=TEXT,
        module_type=TEXT,
        name=TEXT,
        occurrence=SMALL,
        source=TEXT,
        arguments=TEXT,
        autocast=TEXT,
        start_us=st.floats(allow_nan=False),
        duration_us=st.floats(allow_nan=False),
        inputs=TENSORS,
        outputs=TENSORS,
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_rows_come_back_as_they_went_into_the_table(rows: list[CallRow]) -> None:
    assert rows == table_to_rows(rows_to_table(rows))


def test_a_slice_of_a_table_gives_the_rows_of_the_slice(make_row) -> None:
    rows = [make_row(seq=seq, outputs=()) for seq in range(5)]
    assert rows[2:4] == table_to_rows(rows_to_table(rows).slice(2, 2))


def test_columns_that_an_older_recording_lacks_get_their_defaults(make_row) -> None:
    table = rows_to_table([make_row(autocast="float16")]).drop_columns(["autocast", "source"])
    assert [make_row()] == table_to_rows(table)


def test_columns_that_a_table_must_have_are_named(make_row) -> None:
    import pyarrow as pa

    table = rows_to_table([make_row()])
    assert missing_columns(table.schema) == []
    assert missing_columns(table.drop_columns(["phase", "source"]).schema) == ["phase"]
    strange = table.set_column(table.schema.get_field_index("inputs"), "inputs", pa.array([1]))
    assert "inputs.shape" in missing_columns(strange.schema)


def test_every_field_of_a_row_has_a_column() -> None:
    assert list(CallRow.__dataclass_fields__) == TABLE_SCHEMA.names
    assert set(TensorRow.__dataclass_fields__) == {field.name for field in TABLE_SCHEMA.field("inputs").type.value_type}
