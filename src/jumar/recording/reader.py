"""`Recording` reads a recording, finished or killed. `RecordingLike` is the part that other dumps have, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from jumar.base.errors import JumarError, RecordingError
from jumar.recording.documents import read_run_end, read_run_info, step_info_from
from jumar.recording.schema import (
    STEP_INFO_KEY,
    STEPS_FOLDER,
    TENSORS_FOLDER,
    CallRow,
    Kind,
    RunEnd,
    RunInfo,
    StepInfo,
    TensorRow,
    end_file,
    step_stem,
)

if TYPE_CHECKING:
    import numpy as np

    from jumar.recording.history.reader import History
    from jumar.recording.tensors.stored import StoredArray, TensorFile

_STEP_FILE = re.compile(r"step-(\d+)-rank-(\d+)\.parquet")
_END_FILE = re.compile(r"end-rank-(\d+)\.json")


class RecordingLike(Protocol):
    """The part of `Recording` that a comparison reads. `Recording` documents each name."""

    path: Path
    info: RunInfo
    warnings: list[str]

    @property
    def ends(self) -> Mapping[int, RunEnd]:
        """How each rank ended."""

    @property
    def ranks(self) -> list[int]:
        """Ranks that left something."""

    def steps(self, rank: int = 0) -> list[int]:
        """Complete steps in order."""

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Rows of a step in the order in which the calls finished."""

    def losses(self, rank: int = 0) -> list[tuple[int, float]]:
        """Step and loss."""

    def has_tensors(self) -> bool:
        """Whether whole tensors were recorded."""

    def tensors(self, row: CallRow) -> dict[str, np.ndarray]:
        """Whole tensors of a row by name; RecordingError when they were not recorded."""


class Recording:
    """A recording on disk. Rows are read step by step, so memory does not grow with its length.

    `ends` maps a rank to how it ended, `warnings` says what is missing or damaged, one sentence
    each. Build it with `Recording.open`.
    """

    def __init__(
        self, path: Path, info: RunInfo, ends: Mapping[int, RunEnd], steps: Mapping[int, list[int]], warnings: list[str]
    ) -> None:
        self.path = path
        self.info = info
        self.ends = ends
        self.warnings = warnings
        self._steps = steps
        self._tensor_file: TensorFile | None = None

    @classmethod
    def open(cls, path: str | Path) -> Recording:
        """Open the recording at `path` and check every step file.

        Raises RecordingError in one sentence when the folder is missing, is not a recording, or has
        a newer schema. Damaged step files are left out and named in `warnings`.
        """
        folder = Path(path)
        info = read_run_info(folder)
        warnings: list[str] = []
        steps = _readable_steps(folder, warnings)
        ends = _ends(folder, warnings)
        for rank in sorted(set(steps) - set(ends)):
            after = f"killed after step {steps[rank][-1]}" if steps[rank] else "killed before a step was finished"
            warnings.append(f"rank {rank} did not end: the run was {after}, or is still going on")
        if not steps and not ends:
            warnings.append("the run was killed before a step was finished, or is still going on")
        return cls(folder, info, ends, steps, warnings)

    @property
    def ranks(self) -> list[int]:
        """Ranks that left a step or an end, in order."""
        return sorted(set(self._steps) | set(self.ends))

    def end(self) -> RunEnd | None:
        """Return the end of the rank that raised first, else of the first rank; None where no rank told its end.

        A rank that raises once it has as many steps as another one that was stopped does not count: it misses its peer.
        """
        stopped = max((end.num_steps for end in self.ends.values() if end.status == "stopped"), default=inf)
        raised = [rank for rank, end in self.ends.items() if end.status == "raised" and end.num_steps < stopped]
        if raised:  # the first one tells the cause, the others that it is gone
            return self.ends[min(raised, key=lambda rank: (self.path / end_file(rank)).stat().st_mtime_ns)]
        return self.ends[min(self.ends)] if self.ends else None

    def steps(self, rank: int = 0) -> list[int]:
        """Return the complete, readable steps of `rank` in order; empty when there are none."""
        return list(self._steps.get(rank, ()))

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Return the rows of one step in the order in which the calls finished. Raises RecordingError."""
        from jumar.recording.row_reader import table_to_rows

        if step not in self._steps.get(rank, ()):
            raise RecordingError(
                f"{self.path} has no readable step {step} of rank {rank}; it has {_ranges(self.steps(rank))}."
            )
        path = self._step_file(step, rank)
        with _damage_told(path):
            return table_to_rows(_read_table(path))

    def rows_of_kind(self, kind: Kind, step: int, rank: int = 0) -> list[CallRow]:
        """Return the rows of one step that are of one kind; where there are none, nothing else is read."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        from jumar.recording.row_reader import table_to_rows

        path = self._step_file(step, rank)
        with _damage_told(path):
            wanted = pc.equal(pq.read_table(path, columns=["kind"])["kind"], kind)
            return table_to_rows(_read_table(path).filter(wanted)) if pc.any(wanted).as_py() else []

    def step_info(self, step: int, rank: int = 0) -> StepInfo:
        """Return what is known of a step as a whole, without reading its rows."""
        import pyarrow.parquet as pq

        path = self._step_file(step, rank)
        with _damage_told(path):
            metadata = pq.read_schema(path).metadata or {}
            return step_info_from(metadata.get(STEP_INFO_KEY.encode()))

    def num_rows(self, step: int, rank: int = 0) -> int:
        """Return the number of rows of a step without reading them."""
        import pyarrow.parquet as pq

        path = self._step_file(step, rank)
        with _damage_told(path):
            return int(pq.read_metadata(path).num_rows)

    def iter_rows(self, rank: int = 0) -> Iterator[CallRow]:
        """Yield the rows of every step of `rank`, holding one step in memory."""
        for step in self.steps(rank):
            yield from self.rows(step, rank)

    def losses(self, rank: int = 0) -> list[tuple[int, float]]:
        """Return (step, loss) of each step that has a loss row with statistics: the mean over its loss rows.

        A loss that is not finite is given as nan or inf.
        """
        return losses_of((step, self.rows_of_kind("loss", step, rank)) for step in self.steps(rank))

    def history(self, rank: int = 0) -> History | None:
        """Return the numbers of every step of `rank`, recorded in detail or not; None in a recording without them."""
        from jumar.recording.history.reader import History

        return History.open(self.path, rank)

    def has_tensors(self) -> bool:
        """Tell whether whole tensors of at least one step were recorded."""
        return any((self.path / TENSORS_FOLDER).glob("step-*.h5"))

    def tensors(self, row: CallRow) -> dict[str, np.ndarray]:
        """Return the tensors of `row` by name; bfloat16 and float8 come back as float32.

        Raises RecordingError when they were not recorded or their file is damaged.
        """
        import numpy as np

        return {name: np.asarray(array) for name, array in self.stored(row).items()}

    def stored(self, row: CallRow) -> dict[str, StoredArray]:
        """Return the tensors of `row` by name, unread: for tensors that do not fit the memory.

        Raises RecordingError as `tensors` does.
        """
        path = self.path / TENSORS_FOLDER / f"{step_stem(row.step, row.rank)}.h5"
        try:
            return self._open_tensors(path).arrays(row.key)
        except (KeyError, FileNotFoundError) as error:
            raise RecordingError(
                f"{self.path} has no tensors of {row.key} in step {row.step}. Record with --values tensors."
            ) from error
        except OSError as error:
            raise RecordingError(f"{path} cannot be read ({error}). Record this step again.") from error

    def _open_tensors(self, path: Path) -> TensorFile:
        from jumar.recording.tensors.stored import TensorFile

        if self._tensor_file is None or self._tensor_file.path != path:
            self._tensor_file = TensorFile(path)
        return self._tensor_file

    def _step_file(self, step: int, rank: int) -> Path:
        return self.path / STEPS_FOLDER / f"{step_stem(step, rank)}.parquet"


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Raise RecordingError, in one sentence, for whatever PyArrow raises over a step file."""
    try:
        yield
    except JumarError:
        raise
    except Exception as error:  # PyArrow's own, OSError, or what a value of another kind causes
        reason = (str(error) or type(error).__name__).partition("\n")[0][:100].rstrip(".")
        raise RecordingError(f"{path} is cut short or damaged ({reason}). Record this step again.") from error


def _read_table(path: Path) -> Any:
    """Return the table of a step file. Raises OSError or pyarrow.ArrowException when it is damaged."""
    from jumar.recording.row_checks import checked_table

    return checked_table(path)


def _readable_steps(folder: Path, warnings: list[str]) -> dict[int, list[int]]:
    """Return the steps of each rank whose files are whole, in order; name the others."""
    found = [(path, match) for path in folder.glob(f"{STEPS_FOLDER}/step-*.parquet") if (match := _matched(path))]
    found.sort(key=lambda item: item[0].name)
    steps: dict[int, list[int]] = {int(match[2]): [] for _, match in found}
    with ThreadPoolExecutor(max_workers=4) as pool:  # the checks wait for the disk and decompress
        for (path, match), problem in zip(found, pool.map(_problem, [path for path, _ in found]), strict=True):
            if problem:
                warnings.append(f"{path.name} {problem}")
            else:
                steps[int(match[2])].append(int(match[1]))
    for of_rank in steps.values():
        of_rank.sort()
    _check_tensor_files(folder, warnings)
    return steps


def _matched(path: Path) -> re.Match[str] | None:
    return _STEP_FILE.fullmatch(path.name)


def _problem(path: Path) -> str:
    """Return what is wrong with a step file; empty when it can be read."""
    import pyarrow as pa

    from jumar.recording.row_checks import missing_columns

    try:
        missing = missing_columns(_read_table(path).schema)
    except (OSError, pa.ArrowException):
        return "is cut short or damaged and is left out"
    return f"was not written by Jumar (it has no column {missing[0]}) and is left out" if missing else ""


def _check_tensor_files(folder: Path, warnings: list[str]) -> None:
    paths = sorted((folder / TENSORS_FOLDER).glob("step-*.h5"))
    if not paths:
        return
    import h5py

    for path in paths:
        try:
            h5py.File(path, "r").close()
        except OSError:
            warnings.append(f"{path.name} is cut short or damaged: the tensors of that step cannot be read")


def _ends(folder: Path, warnings: list[str]) -> dict[int, RunEnd]:
    ends = {}
    for path in sorted(folder.glob("end-rank-*.json")):
        match = _END_FILE.fullmatch(path.name)
        if match is None:
            continue
        try:
            ends[int(match[1])] = read_run_end(path)
        except RecordingError:
            warnings.append(f"{path.name} is cut short or damaged and is left out")
    return ends


def losses_of(steps: Iterable[tuple[int, Iterable[CallRow]]]) -> list[tuple[int, float]]:
    """Return (step, loss) of the steps whose loss rows have statistics: the mean over the loss rows of the step."""
    losses = []
    for step, rows in steps:
        tensors = [tensor for row in rows if row.kind == "loss" for tensor in row.outputs[:1]]
        values = [value for value in map(_mean, tensors) if value is not None]
        if values:
            losses.append((step, sum(values) / len(values)))
    return losses


def _mean(tensor: TensorRow) -> float | None:
    """Return the mean over all elements, also where the statistics skip some; None when none were taken."""
    if tensor.num_nan:
        return nan
    return inf if tensor.num_inf else tensor.mean


def _ranges(steps: list[int]) -> str:
    if not steps:
        return "none"
    return f"{len(steps)} steps, {steps[0]} to {steps[-1]}"
