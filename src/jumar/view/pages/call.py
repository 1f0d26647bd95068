"""One call of a recording: its facts, the line of its source, its tensors with statistics and histograms."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import numpy as np

from jumar.base.errors import RecordingError
from jumar.base.text.digits import Cell
from jumar.recording.documents import read_run_info
from jumar.recording.reader import Recording
from jumar.recording.schema import STEPS_FOLDER, TENSORS_FOLDER, CallRow, step_stem
from jumar.show.blocks.page import Block, Column, KeyValues, Table, Text
from jumar.show.blocks.pictures import Counts, Histogram
from jumar.show.compare.sources import excerpt
from jumar.show.html.render import block_views
from jumar.view.bench import Bench
from jumar.view.data.compared import STATISTICS, statistics
from jumar.view.pages.answers import Answer, Query, missing
from jumar.view.store.items import Item

BINS = 48
MOST_PICTURES = 12


def call(bench: Bench, item: Item, query: Query) -> Answer:
    """Return one call with its tensors. Raises RecordingError where its file is damaged."""
    step, rank, seq = query.number("step"), query.number("rank") or 0, query.number("seq")
    known = step is not None and any((step, rank) == (file.step, file.rank) for file in bench.rows(item).files)
    if step is None or seq is None or not known:
        return missing("This recording has no such step.")
    recording = Recording(item.path, read_run_info(item.path), {}, {rank: [step]}, [])
    row, num_rows = one_row(recording, step, rank, seq)
    if row is None:
        return missing(f"Step {step} of rank {rank} has {num_rows:,} rows, and none has the number {seq}.")
    blocks = [
        KeyValues(items=_facts(row)),
        *_source(bench, row, recording),
        _tensors(row),
        *_histograms(bench, row, recording),
    ]
    near = [
        (number, f"/item/{item.id}/row?{urlencode({'step': step, 'rank': rank, 'seq': number})}")
        for number in (seq - 1, seq + 1)
    ]
    context = {
        "item": item, "row": row, "views": block_views(blocks), "before": near[0][1] if seq > 0 else "",
        "after": near[1][1] if seq + 1 < num_rows else "",
    }  # fmt: skip
    return Answer(template="call.html", context=context)


def one_row(recording: Recording, step: int, rank: int, seq: int) -> tuple[CallRow | None, int]:
    """Return the row with a number, and how many its step has. Raises RecordingError where the file is damaged.

    The whole file is checked as when a recording is opened, and one row is made of it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from jumar.recording.row_checks import checked_table, missing_columns
    from jumar.recording.row_reader import table_to_rows

    path = recording.path / STEPS_FOLDER / f"{step_stem(step, rank)}.parquet"
    try:
        table = checked_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0][:100].rstrip(".")
        raise RecordingError(f"{path.name} is cut short or damaged ({reason}). Record this step again.") from error
    if absent := missing_columns(table.schema):
        raise RecordingError(f"{path.name} was not written by Jumar: it has no column {absent[0]}.")
    rows = table_to_rows(table.filter(pc.equal(table.column("seq"), seq)))
    return (rows[0] if rows else None), table.num_rows


def _facts(row: CallRow) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [
        ("kind", row.kind), ("module", f"{row.module_path or '(root)'} {row.module_type}".strip()),
        ("phase", row.phase), ("step and rank", f"{row.step}, rank {row.rank}"), ("call in the step", row.seq),
        ("occurrence", row.occurrence), ("source", row.source or "not recorded"), ("host time, us", row.duration_us),
        ("begins at, us", row.start_us),
    ]  # fmt: skip
    optional = (
        ("arguments", row.arguments),
        ("autocast", row.autocast),
        ("random numbers", row.rng),
        ("is a view", row.is_view),
    )
    return facts + [(name, value) for name, value in optional if value not in ("", None)]


def _source(bench: Bench, row: CallRow, recording: Recording) -> list[Block]:
    lines = excerpt(row.source, recording, within=bench.folder.root)
    return [lines] if lines is not None else []


def _tensors(row: CallRow) -> Table:
    columns = [
        Column(title="tensor"),
        *STATISTICS,
        Column(title="device"),
        Column(title="format"),
        Column(title="contiguous"),
    ]
    rows = [[one.name, *statistics(one), one.device, one.format, one.contiguous] for one in (*row.inputs, *row.outputs)]
    return Table(title="Its tensors", columns=columns, rows=rows)


def _histograms(bench: Bench, row: CallRow, recording: Recording) -> list[Block]:
    """Return a histogram of each whole tensor; a sentence where none was recorded."""
    file = recording.path / TENSORS_FOLDER / f"{step_stem(row.step, row.rank)}.h5"
    if not file.is_file() or not bench.folder.holds(file):
        return [
            Text(text="Whole tensors were not recorded, so there are no histograms. Record with `--values tensors`.")
        ]
    try:
        arrays = recording.tensors(row)
    except RecordingError as error:
        return [Text(text=str(error))]
    return [histogram(name, array) for name, array in list(arrays.items())[:MOST_PICTURES] if array.size]


def histogram(name: str, array: np.ndarray[Any, Any]) -> Block:
    """Return the histogram of a tensor's finite elements."""
    with np.errstate(invalid="ignore"):  # memory that nobody wrote holds NaN that signal
        values = (np.abs(array) if np.iscomplexobj(array) else array).astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Text(text=f"{name} has no finite element.")
    low, high = float(finite.min()), float(finite.max())
    if high - low <= max(abs(low), abs(high), 1e-300) * 1e-9:
        low, high = low - max(abs(low) * 0.05, 1e-12), high + max(abs(high) * 0.05, 1e-12)
    edges = np.linspace(low, high, BINS + 1)
    counts = [int(number) for number in np.histogram(finite, edges)[0]]
    left = values.size - finite.size
    note = f"{left:,} elements are NaN or Inf and are not in it." if left else ""
    return Histogram(
        title=f"Values of {name}",
        x_label="value",
        edges=list(map(float, edges)),
        series=[Counts(name=name, counts=counts)],
        note=note,
    )
