"""`RunInfo` and `RunEnd` as JSON documents; fields that a reader does not know are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from jumar.base.errors import RecordingError
from jumar.recording.schema import RUN_FILE, SCHEMA_VERSION, RunEnd, RunInfo, StepInfo

_TUPLES = {"command", "levels", "steps", "not_covered", "not_kept"}


def to_text(document: RunInfo | RunEnd) -> str:
    """Return the document as indented JSON; values JSON has no form for become their `str`."""
    return json.dumps(asdict(document), indent=2, default=str) + "\n"


def read_run_info(folder: Path) -> RunInfo:
    """Read `run.json` of `folder`.

    Raises RecordingError in one sentence when the folder is missing or foreign, or its schema is
    newer than this Jumar reads.
    """
    if not folder.is_dir():
        raise RecordingError(f"{folder} is not a folder. Name the folder that `jumar record -o` wrote.")
    path = folder / RUN_FILE
    if not path.is_file():
        raise RecordingError(
            f"{folder} is not a recording: it has no {RUN_FILE}. Name the folder that `jumar record -o` wrote."
        )
    data = _load(path)
    if not _is_ours(data):
        raise RecordingError(f"{path} was not written by Jumar. Name the folder that `jumar record -o` wrote.")
    if data["schema_version"] > SCHEMA_VERSION:
        raise RecordingError(
            f"{folder} has schema {data['schema_version']} (written by Jumar {data['jumar_version']}) and this Jumar "
            f"reads up to {SCHEMA_VERSION}. Update Jumar, or record again with this one."
        )
    return RunInfo(**_known_fields(RunInfo, data))


def read_run_end(path: Path) -> RunEnd:
    """Read an `end-rank-R.json`. Raises RecordingError when it is cut short or foreign."""
    try:
        return RunEnd(**_known_fields(RunEnd, _load(path)))
    except TypeError as error:
        raise RecordingError(f"{path} does not describe the end of a run: {error}. Record again.") from error


def step_info_text(info: StepInfo) -> bytes:
    """Return the text for a step file's metadata."""
    return json.dumps(asdict(info)).encode()


def step_info_from(text: bytes | None) -> StepInfo:
    """Return the `StepInfo` in a step file's metadata; an empty one for a file without."""
    return StepInfo(**_known_fields(StepInfo, json.loads(text))) if text else StepInfo()


def is_recording(folder: Path) -> bool:
    """Tell whether `folder` is a recording of any schema, by its `run.json`."""
    try:
        return _is_ours(_load(folder / RUN_FILE))
    except RecordingError:
        return False


def _is_ours(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("schema_version"), int) and "jumar_version" in data


def _load(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path} cannot be read as JSON: {error}. Record again.") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{path} must hold a JSON object; got {type(data).__name__}. Record again.")
    return data


def _known_fields(document: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(document)}
    return {
        name: tuple(value) if name in _TUPLES and isinstance(value, list) else value
        for name, value in data.items()
        if name in names
    }
