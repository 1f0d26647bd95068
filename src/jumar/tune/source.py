"""What a tuning run starts from: a recording, or the descriptions that `torch.npu.set_aoe` left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from jumar.errors import InputError
from jumar.recording import Recording
from jumar.recording.documents import is_recording
from jumar.tune.descriptions import described_device, extract_descriptions, read_descriptions
from jumar.tune.extract import Extraction, extract
from jumar.tune.selection import Selection, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The operators to tune and where they come from."""

    path: str
    device: str
    """Where they ran: `cpu`, `npu (emulated)`, `Ascend910A`."""
    extraction: Extraction


def open_source(
    source: Recording | str | Path, *, rank: int | None = None, selection: Selection | None = None
) -> Source:
    """Return the operators of a recording (of one rank, the lowest when None) or of a folder of descriptions.

    Raises InputError or RecordingError in one sentence when it is neither, or holds nothing of what is asked for.
    """
    found = _opened(source, rank)
    return found if selection is None else replace(found, extraction=select(found.extraction, selection))


def _opened(source: Recording | str | Path, rank: int | None) -> Source:
    folder = Path(source) if isinstance(source, str | Path) else None
    if folder is not None and not is_recording(folder) and (described := read_descriptions(folder)):
        return Source(path=str(folder), device=described_device(described), extraction=extract_descriptions(described))
    recording = source if isinstance(source, Recording) else Recording.open(source)
    if "op" not in recording.info.levels:
        raise InputError(f"{recording.path} has no rows of operators. Record again with --level module,op.")
    return Source(path=str(recording.path), device=recording.info.device, extraction=extract(recording, rank))
