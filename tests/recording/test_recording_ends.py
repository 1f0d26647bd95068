"""How a run of several ranks ended: as the rank that raised first, wherever that is the cause."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jumar.recording import Recording, RecordingWriter, RunEnd, RunInfo, end_file


def ended(folder: Path, *ends: tuple[int, str, int]) -> RunEnd | None:
    """Write ends (rank, status, steps) in this order and return how the run ended."""
    for at, (rank, status, steps) in enumerate(ends):
        end = RunEnd(rank=rank, status=status, num_steps=steps)  # type: ignore[arg-type]
        RecordingWriter(folder, RunInfo(), rank=rank, join=True).close(end)
        os.utime(folder / end_file(rank), ns=(at, at))
    return Recording.open(folder).end()


@pytest.mark.parametrize(
    ("ends", "rank"),
    [
        ([(1, "raised", 0), (0, "raised", 0)], 1),
        ([(0, "raised", 1), (1, "raised", 0)], 0),
        ([(1, "stopped", 2), (0, "stopped", 2)], 0),
        ([(0, "stopped", 2), (1, "raised", 1)], 1),
        ([(0, "stopped", 2), (1, "raised", 2)], 0),
        ([(1, "exited", 2)], 1),
    ],
)
def test_the_rank_that_raised_first_says_how_the_run_ended(tmp_path: Path, ends, rank: int) -> None:
    found = ended(tmp_path, *ends)
    assert found is not None
    assert found.rank == rank


def test_a_recording_of_which_no_rank_told_an_end_has_none(tmp_path: Path) -> None:
    RecordingWriter(tmp_path / "r", RunInfo())
    assert Recording.open(tmp_path / "r").end() is None
