"""Writes a recording, one rank at a time, so that a kill at any moment leaves every finished step readable."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import OutputError
from jumar.base.files import write_atomically, write_text
from jumar.recording.documents import is_recording, step_info_text, to_text
from jumar.recording.schema import (
    RUN_FILE,
    STEP_INFO_KEY,
    STEPS_FOLDER,
    TENSORS_FOLDER,
    CallRow,
    RunEnd,
    RunInfo,
    StepInfo,
    end_file,
    step_stem,
)

if TYPE_CHECKING:
    import numpy as np

    from jumar.recording.tensors.arrays import TensorWriter
    from jumar.recording.tensors.views import ArrayView


class RecordingWriter:
    """Writes the steps of one rank. Not thread-safe: one thread at a time.

    Rank 0 makes the folder; another rank, or a writer with `join=True`, adds to the recording that
    is there. Raises OutputError when the folder cannot be written, holds something (and `force` is
    not given), or holds something that is not a recording (even with `force`).
    """

    def __init__(self, path: Path, info: RunInfo, *, rank: int = 0, force: bool = False, join: bool = False) -> None:
        self.path = Path(path)
        self.rank = rank
        self._tensors: TensorWriter | None = None
        try:
            joins = (join or rank > 0) and (self.path / RUN_FILE).is_file()
            if not joins:
                _clear(self.path, force)
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / STEPS_FOLDER).mkdir(exist_ok=True)
            if not joins:
                self.update_info(info)
        except OSError as error:
            raise OutputError(
                f"the recording folder {self.path} cannot be written: {error.strerror}. Choose another with -o."
            ) from error

    def update_info(self, info: RunInfo) -> None:
        """Replace `run.json`, when more is known about the run than at its start. Raises OSError."""
        write_text(self.path / RUN_FILE, to_text(info))

    def write_step(
        self,
        step: int,
        rows: Sequence[CallRow],
        tensors: Mapping[str, Mapping[str, np.ndarray]] | None = None,
        info: StepInfo | None = None,
    ) -> None:
        """Write one step's rows, and its tensors by row key and tensor name. Raises OSError (a full disk).

        bfloat16 and float8 tensors come as arrays of their raw unsigned integers, their dtype as
        said in the row. The rows' file appears last, so a step that is listed is whole.
        """
        from jumar.recording.rows import rows_to_table

        dtypes = {row.key: {tensor.name: tensor.dtype for tensor in (*row.inputs, *row.outputs)} for row in rows}
        self.write_table(step, rows_to_table(rows), tensors, dtypes, info)

    def write_table(
        self,
        step: int,
        table: Any,
        tensors: Mapping[str, Mapping[str, np.ndarray | ArrayView]] | None,
        dtypes: Mapping[str, Mapping[str, str]],
        info: StepInfo | None = None,
    ) -> None:
        """Write one step as `write_step` does, its rows as a table made by `jumar.recording.rows`."""
        import pyarrow.parquet as pq
        from pyarrow.fs import LocalFileSystem

        from jumar.recording.rows import text_columns

        stem = step_stem(step, self.rank)
        if tensors:
            from jumar.recording.tensors.arrays import TensorWriter

            folder = self.path / TENSORS_FOLDER
            folder.mkdir(exist_ok=True)
            writer = self._tensors = self._tensors or TensorWriter()
            write_atomically(folder / f"{stem}.h5", lambda part: writer.write(part, tensors, dtypes))
        table = table.replace_schema_metadata({STEP_INFO_KEY: step_info_text(info or StepInfo())})
        # NOTE: without statistics of pages, and with dictionaries for texts alone, a file takes a tenth less time
        # and a seventh less room (measured: 1,050 rows of a GPT step); LZ4 takes a sixth less time than Zstandard, and
        # a quarter more room.
        # Without a file system PyArrow looks for a package that knows more of them, each time anew.
        options = {
            "compression": "lz4", "write_page_checksum": True, "write_statistics": False,
            "filesystem": LocalFileSystem(),
        }  # fmt: skip
        write_atomically(
            self.path / STEPS_FOLDER / f"{stem}.parquet",
            lambda part: pq.write_table(table, part, use_dictionary=text_columns(), **options),
        )

    def discard_steps(self) -> None:
        """Remove the steps of this rank that were written so far, their tensors included. Raises OSError."""
        for folder, suffix in ((STEPS_FOLDER, "parquet"), (TENSORS_FOLDER, "h5")):
            for file in (self.path / folder).glob(f"step-*-rank-{self.rank}.{suffix}"):
                file.unlink()

    def close(self, end: RunEnd) -> None:
        """Write how the run ended; without it the recording reads as killed. Raises OSError."""
        write_text(self.path / end_file(self.rank), to_text(end))


def _clear(path: Path, force: bool) -> None:
    """Make sure that nothing is in the way at `path`; only a recording is ever removed."""
    if not path.exists():
        return
    if not path.is_dir():
        raise OutputError(f"{path} is a file, and a recording is a folder. Choose another name with -o.")
    if not any(path.iterdir()):
        return
    if not is_recording(path):
        raise OutputError(f"{path} holds something that is not a recording. Choose another folder with -o.")
    if not force:
        raise OutputError(f"{path} already holds a recording. Replace it with --force, or choose another with -o.")
    (path / RUN_FILE).unlink()  # first: from here on the folder is no recording, whatever happens
    for folder in (STEPS_FOLDER, TENSORS_FOLDER):
        if (path / folder).is_dir():
            shutil.rmtree(path / folder)
    for pattern in ("end-rank-*.json", "history-rank-*.bin", ".claim-rank-*"):
        for file in path.glob(pattern):
            file.unlink()


def claim_rank(path: Path, rank: int) -> bool:
    """Make the calling process the one that records `rank` in the recording at `path`; False when another is.

    Raises OSError when the folder cannot be written.
    """
    claim = _claim_file(path, rank)
    try:
        with claim.open("x", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    except FileExistsError:
        return claim.read_text("utf-8").strip() == str(os.getpid())
    return True


def is_claimed(path: Path, rank: int) -> bool:
    """Return whether a process records `rank` in the recording at `path`, or did."""
    return _claim_file(path, rank).exists()


def _claim_file(path: Path, rank: int) -> Path:
    return path / f".claim-rank-{rank}"
