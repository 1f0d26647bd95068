"""`INSTALLED`: entries that other installed distributions offer (entry-point group `jumar.doctor_entries`).

An entry point names a document of the form of `data/errors`: a mapping with `sources` and `errors`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any

from jumar.advise.doctor.entries.own import completed
from jumar.advise.doctor.entries.parse import parse_entries
from jumar.advise.doctor.entries.signature import Signature
from jumar.base.plugins import Group

FIRST_FILES = ("codes.json", "messages.json")
"""Read before the others. `ranges.json` is read last: its codes count where no entry fits."""
LAST_FILES = ("ranges.json",)


@functools.cache
def built_in() -> tuple[Signature, ...]:
    """Return the entries that come with Jumar, in the order in which codes are looked up."""
    return tuple(signature for document in documents() for signature in parse_entries(document))


def documents() -> Iterator[Mapping[str, Any]]:
    """Yield the documents of `data/errors` in the order in which their codes are looked up."""
    folder = resources.files("jumar.advise.doctor") / "data" / "errors"
    files = {file.name: file for file in folder.iterdir() if file.name.endswith(".json")}
    others = sorted(files.keys() - {*FIRST_FILES, *LAST_FILES})
    for name in (*FIRST_FILES, *others, *LAST_FILES):
        if name in files:
            yield json.loads(files[name].read_text("utf-8"))


def _accept(value: Any) -> tuple[Signature, ...]:
    if not isinstance(value, Mapping):
        raise TypeError(f"it names a {type(value).__name__} and must name a document: a mapping with `errors`")
    signatures = parse_entries(completed(dict(value), "an entry of another distribution"))
    if not signatures:
        raise ValueError("it has no entry")
    return signatures


def _names(part: tuple[Signature, ...]) -> Iterable[str]:
    return (signature.name for signature in part)


INSTALLED = Group("doctor-entries", _accept, _names, lambda: _names(built_in()))
