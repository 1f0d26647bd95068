"""`known_errors`: the entries that come with Jumar, read from the files of `data/errors`."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, get_args

from jumar.advise.doctor.entries.signature import Kind, Role, Signature
from jumar.advise.doctor.entries.table import Table
from jumar.base.findings import Severity

FIRST_FILES = ("codes.json", "messages.json")
"""Read before the others. `ranges.json` is read last: its codes count where no entry fits."""
LAST_FILES = ("ranges.json",)


@functools.cache
def known_errors() -> Table:
    """Return the table that comes with Jumar."""
    return Table(tuple(signature for document in documents() for signature in parse_entries(document)))


def documents() -> Iterator[Mapping[str, Any]]:
    """Yield the documents of `data/errors` in the order in which their codes are looked up."""
    folder = resources.files("jumar.advise.doctor") / "data" / "errors"
    files = {file.name: file for file in folder.iterdir() if file.name.endswith(".json")}
    others = sorted(files.keys() - {*FIRST_FILES, *LAST_FILES})
    for name in (*FIRST_FILES, *others, *LAST_FILES):
        if name in files:
            yield json.loads(files[name].read_text("utf-8"))


def parse_table(document: Mapping[str, object]) -> Table:
    """Return the table in `document`. Raises ValueError when an entry breaks a rule of the format."""
    return Table(parse_entries(document))


def parse_entries(document: Mapping[str, object]) -> tuple[Signature, ...]:
    """Return the entries in `document`. Raises ValueError when one breaks a rule of the format."""
    sources, errors = document["sources"], document["errors"]
    if not isinstance(sources, dict) or not isinstance(errors, list):
        raise ValueError("a table of errors must have an object `sources` and a list `errors`")
    return tuple(_signature(entry, sources) for entry in errors)


def _signature(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Signature:
    fields = dict(entry)
    name = fields.get("name", "?")
    if fields.get("kind") not in get_args(Kind) or fields.get("role") not in get_args(Role):
        raise ValueError(f"the entry {name!r} must have one of the known kinds and roles")
    if (fields["kind"] == "message") != bool(fields.get("needle")):
        raise ValueError(f"the entry {name!r} must have a needle if it is a message, and only then")
    fields["severity"] = Severity.parse(fields["severity"])
    fields["source"] = sources[fields["source"]]
    fields["over"] = tuple(fields.get("over", ()))
    return Signature(**fields)
