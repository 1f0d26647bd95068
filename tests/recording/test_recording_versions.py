"""Recordings that earlier releases wrote are read: what they lack is empty or unknown."""

from __future__ import annotations

from pathlib import Path

from jumar.recording import Recording

ASSETS = Path(__file__).parent / "assets"


def test_a_recording_without_the_columns_draws_and_is_view_is_read() -> None:
    """`version-2` holds one step of a linear layer with dropout, written before these columns were there."""
    recording = Recording.open(ASSETS / "version-2")
    assert (recording.info.schema_version, recording.warnings) == (2, [])
    rows = [row for row in recording.rows(0) if row.kind == "op"]
    assert "aten::t" in {row.name for row in rows}
    assert {(row.draws, row.is_view) for row in rows} == {(None, None)}


def test_recordings_of_all_versions_are_read_whole() -> None:
    for folder in sorted(ASSETS.glob("version-*")):
        recording = Recording.open(folder)
        assert recording.steps(), folder
        assert all(recording.rows(step) for step in recording.steps()), folder
