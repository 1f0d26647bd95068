"""Dumps of other tools, read as recordings and written from them.

`open_foreign` recognises a path by what it is; each format has one file here. The names below are loaded when
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.accuracy.interchange.contents import Contents, contents_of
    from jumar.accuracy.interchange.convert import to_hdf5, to_msprobe, to_npy, to_text
    from jumar.accuracy.interchange.dump import Dump
    from jumar.accuracy.interchange.recognise import open_foreign

__all__ = ["Contents", "Dump", "contents_of", "open_foreign", "to_hdf5", "to_msprobe", "to_npy", "to_text"]

_HOME = {
    "Dump": "jumar.accuracy.interchange.dump",
    "Contents": "jumar.accuracy.interchange.contents",
    "contents_of": "jumar.accuracy.interchange.contents",
    "open_foreign": "jumar.accuracy.interchange.recognise",
    "to_hdf5": "jumar.accuracy.interchange.convert",
    "to_msprobe": "jumar.accuracy.interchange.convert",
    "to_npy": "jumar.accuracy.interchange.convert",
    "to_text": "jumar.accuracy.interchange.convert",
}

__getattr__ = loader(__name__, __all__, _HOME)
