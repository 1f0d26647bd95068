from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.errors import OutputError, RecordingError
from jumar.recording import Recording, RecordingWriter, RunEnd, RunInfo


def write(path: Path, make_row, num_steps: int = 3, rank: int = 0) -> RecordingWriter:
    writer = RecordingWriter(path, RunInfo(jumar_version="0.1.0", command=("train.py", "--lr", "1")), rank=rank)
    for step in range(num_steps):
        writer.write_step(step, [make_row(step=step, rank=rank)])
    return writer


def test_a_finished_recording_reads_back_whole(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row).close(RunEnd(rank=0, status="finished", num_steps=3, not_covered=("x",)))
    recording = Recording.open(tmp_path / "r")
    assert (recording.steps(), recording.ranks, recording.warnings) == ([0, 1, 2], [0], [])
    assert recording.info.command == ("train.py", "--lr", "1")
    assert RunEnd(rank=0, status="finished", num_steps=3, not_covered=("x",)) == recording.ends[0]
    assert [make_row(step=step) for step in range(3)] == list(recording.iter_rows())


def test_ranks_share_one_folder(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row, 2).close(RunEnd(rank=0, status="finished"))
    write(tmp_path / "r", make_row, 1, rank=1).close(RunEnd(rank=1, status="finished"))
    recording = Recording.open(tmp_path / "r")
    assert (recording.ranks, recording.steps(0), recording.steps(1)) == ([0, 1], [0, 1], [0])
    assert recording.rows(0, rank=1)[0].rank == 1


def test_a_missing_step_is_one_sentence(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row)
    with pytest.raises(RecordingError, match="no readable step 7 of rank 0; it has 3 steps, 0 to 2"):
        Recording.open(tmp_path / "r").rows(7)


@pytest.mark.parametrize("keep", [0, 3, 0.5, 0.99])
def test_a_truncated_step_is_left_out_with_a_warning(tmp_path: Path, make_row, keep: float) -> None:
    write(tmp_path / "r", make_row)
    path = tmp_path / "r" / "steps" / "step-000001-rank-0.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0, 2]
    assert any("step-000001-rank-0.parquet is cut short or damaged" in warning for warning in recording.warnings)


def test_a_flipped_byte_in_the_data_is_noticed(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row)
    path = tmp_path / "r" / "steps" / "step-000001-rank-0.parquet"
    content = bytearray(path.read_bytes())
    position = content.index(b"aten::convolution")
    content[position] ^= 1
    path.write_bytes(content)
    assert Recording.open(tmp_path / "r").steps() == [0, 2]


def test_a_parquet_file_of_something_else_is_left_out(tmp_path: Path, make_row) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write(tmp_path / "r", make_row)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "r" / "steps" / "step-000001-rank-0.parquet")
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0, 2]
    said = "step-000001-rank-0.parquet was not written by Jumar (it has no column step) and is left out"
    assert said in recording.warnings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a recording: it has no run.json"),
        ("{", "cannot be read as JSON"),
        ("[]", "must hold a JSON object"),
        ('{"name": "someone else"}', "was not written by Jumar"),
        ('{"schema_version": 99, "jumar_version": "9.0"}', "Update Jumar"),
    ],
)
def test_a_foreign_or_newer_folder_is_one_sentence(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RecordingError, match=message):
        Recording.open(tmp_path)


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="is not a folder"):
        Recording.open(tmp_path / "nothing")


def test_fields_that_this_version_does_not_know_are_ignored(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row)
    path = tmp_path / "r" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}))
    assert Recording.open(tmp_path / "r").info.jumar_version == "0.1.0"


def test_an_existing_recording_is_only_replaced_with_force(tmp_path: Path, make_row) -> None:
    write(tmp_path / "r", make_row).close(RunEnd(rank=0, status="finished"))
    with pytest.raises(OutputError, match="--force"):
        RecordingWriter(tmp_path / "r", RunInfo())
    RecordingWriter(tmp_path / "r", RunInfo(), force=True)
    recording = Recording.open(tmp_path / "r")
    assert (recording.steps(), recording.ends) == ([], {})


def test_a_folder_that_is_not_a_recording_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="not a recording"):
        RecordingWriter(tmp_path, RunInfo(), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    RecordingWriter(tmp_path, RunInfo())
    assert Recording.open(tmp_path).steps() == []


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        RecordingWriter(tmp_path / "r", RunInfo())
    with pytest.raises(OutputError, match="cannot be written"):
        RecordingWriter(tmp_path / "r" / "below", RunInfo())


def test_an_unwritable_place_is_one_sentence() -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        RecordingWriter(Path("/proc/jumar"), RunInfo())


def test_a_full_disk_leaves_the_finished_steps_and_no_half_file(tmp_path: Path, make_row, monkeypatch) -> None:
    import pyarrow.parquet as pq

    writer = write(tmp_path / "r", make_row, 1)

    def fill(table: object, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq, "write_table", fill)
    with pytest.raises(OSError, match="No space left"):
        writer.write_step(1, [make_row(step=1)])
    assert [path.name for path in (tmp_path / "r" / "steps").iterdir()] == ["step-000000-rank-0.parquet"]


def test_losses_are_the_mean_of_a_steps_loss_rows(tmp_path: Path, make_row, make_tensor) -> None:
    def loss(step: int, seq: int, **fields: object) -> object:
        return make_row(step=step, seq=seq, kind="loss", name="loss", inputs=(), outputs=(make_tensor(**fields),))

    writer = RecordingWriter(tmp_path / "r", RunInfo())
    writer.write_step(0, [make_row(), loss(0, 1, mean=2.0, num_nan=0, num_inf=0), loss(0, 2, mean=4.0)])
    writer.write_step(1, [make_row(step=1)])
    writer.write_step(2, [loss(2, 0, mean=None, num_nan=1)])
    (first, second) = Recording.open(tmp_path / "r").losses()
    assert first == (0, 3.0)
    assert (second[0], math.isnan(second[1])) == (2, True)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from conftest import call_row
from jumar.recording import RecordingWriter, RunInfo
import numpy as np, pyarrow.parquet as pq

moment, path = sys.argv[1], Path(sys.argv[2])
die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
writer = RecordingWriter(path, RunInfo())
for step in range(2):
    row = call_row(step=step)
    writer.write_step(step, [row], {row.key: {"output.0": np.ones(3)}})
if moment == "while the tensors are written":
    import jumar.recording.tensors.arrays as arrays
    arrays.TensorWriter.write = lambda self, part, *a: (part.write_bytes(b"x" * 100), die())
elif moment == "while the rows are written":
    pq.write_table = lambda table, part, **k: (Path(part).write_bytes(b"PAR1half"), die())
elif moment == "before the rows are renamed":
    replace = Path.replace
    Path.replace = lambda self, to: die() if str(to).endswith("parquet") else replace(self, to)
elif moment == "between two steps":
    die()
row = call_row(step=2)
writer.write_step(2, [row], {row.key: {"output.0": np.ones(3)}})
die()
"""


@pytest.mark.parametrize(
    ("moment", "num_steps"),
    [
        ("while the tensors are written", 2),
        ("while the rows are written", 2),
        ("before the rows are renamed", 2),
        ("between two steps", 2),
        ("before the end is written", 3),
    ],
)
def test_a_killed_writer_leaves_every_finished_step(tmp_path: Path, make_row, moment: str, num_steps: int) -> None:
    command = [sys.executable, "-c", KILLED, moment, str(tmp_path / "r"), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    recording = Recording.open(tmp_path / "r")
    assert list(range(num_steps)) == recording.steps()
    assert [make_row(step=step) for step in range(num_steps)] == list(recording.iter_rows())
    assert {"output.0"} == set(recording.tensors(make_row(step=1)))
    (warning,) = recording.warnings
    assert f"rank 0 did not end: the run was killed after step {num_steps - 1}" in warning
