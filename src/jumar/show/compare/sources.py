"""The lines of a script to which a page points, when the file is at hand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from jumar.comparison import OperatorDiff
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import split_source
from jumar.show.blocks.page import Block
from jumar.show.blocks.pictures import Excerpt

AROUND = 4
"""Lines shown before and after."""
MOST_BYTES = 2_000_000
MOST_WIDTH = 240
PARENTS = 3


def excerpts(
    diff: OperatorDiff, recordings: tuple[RecordingLike, RecordingLike], within: Path | None = None
) -> list[Block]:
    """Return the lines of both sides, of files in the folder `within` if given; one excerpt where they are the same."""
    found: dict[tuple[Path, int], Excerpt] = {}
    for side, source, recording in (
        ("reference", diff.reference_source, recordings[0]),
        ("target", diff.source, recordings[1]),
    ):
        where = _located(source, recording)
        if where is None or not (within is None or where[0].is_relative_to(within)):
            continue
        if (lines := _excerpt(*where, source, f"Source, {side}", recording)) is not None:
            found.setdefault(where, lines)
    shown = list(found.values())
    if len(shown) == 1 and diff.reference_name and diff.target_name:
        only = shown[0]
        shown = [Excerpt(path=only.path, first_line=only.first_line, lines=only.lines, marked=only.marked)]
    return list(shown)


def excerpt(source: str, recording: RecordingLike, title: str = "Source", within: Path | None = None) -> Excerpt | None:
    """Return the lines around a recorded place (`model.py:41`); None where the file is not at hand, or not `within`."""
    where = _located(source, recording)
    is_outside = where is not None and within is not None and not where[0].is_relative_to(within)
    return None if where is None or is_outside else _excerpt(*where, source, title, recording)


def _located(source: str, recording: RecordingLike) -> tuple[Path, int] | None:
    path, line = split_source(source)
    file = _file(path, recording) if path and line else None
    return None if file is None or line is None else (file, line)


def _file(path: str, recording: RecordingLike) -> Path | None:
    """Return the file that a recorded path names: itself, or beside the script, the recording or the working folder."""
    script = Path(recording.info.command[0]) if recording.info.command else Path()
    bases = [Path.cwd(), *script.resolve().parents[:PARENTS], *recording.path.resolve().parents[:PARENTS]]
    for candidate in (Path(path), *(base / path for base in bases)):
        try:
            if candidate.is_file() and candidate.stat().st_size <= MOST_BYTES:
                return candidate.resolve()
        except OSError:
            continue
    return None


def _excerpt(file: Path, line: int, source: str, title: str, recording: RecordingLike) -> Excerpt | None:
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    if not 1 <= line <= len(lines):
        return None
    first = max(1, line - AROUND)
    return Excerpt(
        path=f"{split_source(source)[0]}{_age(file, recording)}",
        first_line=first,
        lines=[text[:MOST_WIDTH] for text in lines[first - 1 : line + AROUND]],
        marked=[line],
        title=title,
    )


def _age(file: Path, recording: RecordingLike) -> str:
    """Return a warning when the file was changed after the recording was made."""
    try:
        created = datetime.fromisoformat(recording.info.created)
        changed = file.stat().st_mtime > created.timestamp()
    except (ValueError, OSError):
        return ""
    return " (changed since it was recorded)" if changed else ""
