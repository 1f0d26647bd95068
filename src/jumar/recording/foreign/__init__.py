"""Reads dumps of other tools as recordings, and writes them.

`open_foreign` recognises a path by what it is; each format has one file here. The names below are loaded when
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.recording.foreign.contents import Contents, contents_of
    from jumar.recording.foreign.convert import to_hdf5, to_msprobe, to_npy, to_text
    from jumar.recording.foreign.dump import Dump
    from jumar.recording.foreign.recognise import open_foreign

__all__ = ["Contents", "Dump", "contents_of", "open_foreign", "to_hdf5", "to_msprobe", "to_npy", "to_text"]

_HOME = {
    "Dump": "jumar.recording.foreign.dump",
    "Contents": "jumar.recording.foreign.contents",
    "contents_of": "jumar.recording.foreign.contents",
    "open_foreign": "jumar.recording.foreign.recognise",
    "to_hdf5": "jumar.recording.foreign.convert",
    "to_msprobe": "jumar.recording.foreign.convert",
    "to_npy": "jumar.recording.foreign.convert",
    "to_text": "jumar.recording.foreign.convert",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
