"""Writes a dump of any known format in another one: HDF5, `.npy`, text, msprobe's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import OutputError, RecordingError
from jumar.base.files import explained, write_atomically
from jumar.recording.foreign.contents import selected
from jumar.recording.foreign.formats.npy_names import NpyName, file_name
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    import numpy as np

Source = str | Path | RecordingLike


def to_hdf5(dump: Source, out: Path, *, operator: str = "", force: bool = False) -> int:
    """Write `/operator/number/input/…` and `…/output/…` into the file `out`, and return the number of calls.

    Numbers count the calls of an operator from 1, through all steps; a selection keeps them. Attributes of the groups
    hold step, kind, phase, module and source line, for which the layout has no place. Ranks after the first go into
    `out` with `-rank-R` in its name. Raises RecordingError where the dump has no tensors, OutputError where `out` is
    there or cannot be written.
    """
    recording = _with_tensors(dump)
    total = 0
    for rank in recording.ranks:
        file = out if rank == recording.ranks[0] else out.with_stem(f"{out.stem}-rank-{rank}")
        arrays: dict[str, dict[str, np.ndarray]] = {}
        dtypes: dict[str, dict[str, str]] = {}
        rows: dict[str, CallRow] = {}
        for place, row, tensors in _numbered(recording, rank, operator):
            arrays[place], rows[place] = tensors, row
            dtypes[place] = {
                t.name: str(tensors[t.name].dtype) for t in (*row.inputs, *row.outputs) if t.name in tensors
            }
        if arrays:
            _free(file, force)
            _written(file, lambda part, a=arrays, d=dtypes, r=rows: _write_hdf5(part, a, d, r))  # type: ignore[misc]
        total += len(arrays)
    return _some(total, recording, operator)


def _write_hdf5(
    part: Path, arrays: dict[str, dict[str, np.ndarray]], dtypes: dict[str, dict[str, str]], rows: dict[str, CallRow]
) -> None:
    from jumar.recording.foreign.formats.hdf5 import annotate
    from jumar.recording.tensors.arrays import write_tensors

    write_tensors(part, arrays, dtypes)
    annotate(part, rows)


def _numbered(
    recording: RecordingLike, rank: int, operator: str
) -> Iterator[tuple[str, CallRow, dict[str, np.ndarray]]]:
    """Yield place, call and tensors of the selected calls of a rank."""
    before: Counter[str] = Counter()
    for step in recording.steps(rank):
        seen: Counter[str] = Counter()
        for row in recording.rows(step, rank):
            stated = row.occurrence + 1 if not row.module_path else 0  # one file a step, numbered through all modules
            number = seen[row.name] = max(seen[row.name] + 1, stated)
            if not (operator and not _means(row, operator, number)):
                tensors = _tensors(recording, row)
                if tensors:
                    yield f"{row.name}/{before[row.name] + number}", row, tensors
        before.update(seen)


def _means(row: CallRow, operator: str, number: int) -> bool:
    from jumar.recording.foreign.contents import matches

    return f"{row.name}/{number}" == operator.strip("/") or matches(row, operator)


def to_npy(dump: Source, out: Path, *, operator: str = "", force: bool = False) -> int:
    """Write `TYPE.NAME.TASK.STREAM.TIME.input.0.npy` and so on into the folder `out`, and return the number of files.

    Folders are `out/STEP/RANK` where there are several. Raises RecordingError where the dump has no tensors,
    OutputError where a file is there or cannot be written.
    """
    import numpy as np

    def save(part: Path, array: np.ndarray) -> None:
        with part.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    return _each(dump, out, operator, force, ".npy", save)


def to_text(dump: Source, out: Path, *, operator: str = "", force: bool = False) -> int:
    """Write one number a line into `.txt` files named as `to_npy` names them, with shape and dtype in the first line.

    Raises as `to_npy`.
    """
    import numpy as np

    def save(part: Path, array: np.ndarray) -> None:
        form = "%d" if array.dtype.kind in "biu" else "%.9g" if array.dtype.itemsize <= 4 else "%.17g"
        with part.open("w", encoding="utf-8") as file:
            np.savetxt(file, array.reshape(-1), fmt=form, header=f"shape {list(array.shape)} dtype {array.dtype}")

    return _each(dump, out, operator, force, ".txt", save)


def to_msprobe(dump: Source, out: Path, *, operator: str = "", force: bool = False) -> int:
    """Write `step{N}/rank{R}/dump.json` with `construct.json`, `stack.json` and, where there are, `.npy` tensors.

    Return the number of records. Raises OutputError where the folder is there or cannot be written.
    """
    from jumar.recording.foreign.formats.msprobe_writing import write_part

    recording = opened(dump)
    _free(out, force)
    total = 0
    for rank in recording.ranks:
        for step in recording.steps(rank):
            rows = [
                row for row in recording.rows(step, rank) if not operator or _means(row, operator, row.occurrence + 1)
            ]
            folder = out / f"step{step}" / f"rank{rank}"
            with explained(folder, "choose another with -o"):
                total += write_part(recording, rows, folder)
    return _some(total, recording, operator)


def _each(
    dump: Source, out: Path, operator: str, force: bool, suffix: str, save: Callable[[Path, np.ndarray], None]
) -> int:
    recording = _with_tensors(dump)
    places = {(row.step, row.rank) for row in selected(recording)}
    total = 0
    for row in selected(recording, operator):
        folder = out / str(row.step) / str(row.rank) if len(places) > 1 else out
        for name, array in _tensors(recording, row).items():
            side, index = _side(name, row)
            call = NpyName(row.name, _graph_name(row), row.seq + 1, 0, _time(row), side, index)
            file = folder / (file_name(call).removesuffix(".npy") + suffix)
            _free(file, force)
            _written(file, lambda part, a=array: save(part, a))  # type: ignore[misc]
            total += 1
    return _some(total, recording, operator)


def _graph_name(row: CallRow) -> str:
    return row.module_path or f"{row.name}_{row.occurrence}"


def _time(row: CallRow) -> int:
    """Return the order of a call as a number of 16 digits, where the vendor has microseconds since 1970."""
    return 10**15 + row.step * 10**9 + row.seq


def _side(name: str, row: CallRow) -> tuple[str, int]:
    """Return `input` or `output` and the position among the tensors of that side."""
    for side, tensors in (("input", row.inputs), ("output", row.outputs)):
        names = [tensor.name for tensor in tensors]
        if name in names:
            return side, names.index(name)
    return ("input" if name.startswith(("input", "grad_output")) else "output"), 0


def _with_tensors(dump: Source) -> RecordingLike:
    recording = opened(dump)
    if not recording.has_tensors():
        raise RecordingError(f"{recording.path} has no whole tensors to write; record with --values tensors.")
    return recording


def _tensors(recording: RecordingLike, row: CallRow) -> dict[str, np.ndarray]:
    try:
        return recording.tensors(row)
    except RecordingError:
        return {}  # of this call none were kept


def _some(total: int, recording: RecordingLike, operator: str) -> int:
    if not total:
        what = f'no call that "{operator}" means' if operator else "nothing to write"
        raise RecordingError(f"{recording.path} holds {what}; look with `jumar dump list {recording.path}`.")
    return total


def _free(place: Path, force: bool) -> None:
    if force or not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    raise OutputError(f"{place} is there already. Replace it with --force, or choose another with -o.")


def _written(file: Path, write: Callable[[Path], None]) -> None:
    with explained(file, "choose another with -o"):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, write)
