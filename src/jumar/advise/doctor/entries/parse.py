"""`parse_entries`: a document of errors as `Signature`s. Each rule of the format is checked here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, get_args

from jumar.advise.doctor.entries.signature import Kind, Role, Signature
from jumar.advise.doctor.entries.table import Table
from jumar.base.findings import Severity

TEXTS = ("pattern", "title", "cause", "action", "example")
_FIELDS = frozenset(field.name for field in fields(Signature))
_SEVERITIES = ("error", "warning", "advice", "info")


def parse_table(document: Mapping[str, object]) -> Table:
    """Return the table in `document`. Raises ValueError when an entry breaks a rule of the format."""
    return Table(parse_entries(document))


def parse_entries(document: Mapping[str, object]) -> tuple[Signature, ...]:
    """Return the entries in `document`. Raises ValueError, which names the entry and the rule that it breaks."""
    sources, errors = document.get("sources"), document.get("errors")
    if not isinstance(sources, dict) or not isinstance(errors, list):
        raise ValueError("a table of errors must have an object `sources` and a list `errors`")
    for entry in errors:
        broken = next(broken_rules(entry, sources), None)
        if broken is not None:
            name = entry.get("name") if isinstance(entry, dict) else entry
            raise ValueError(f"the entry {name!r} must {broken}")
    return tuple(_signature(entry, sources) for entry in errors)


def broken_rules(entry: object, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield what `entry` must do and does not, as the rest of a sentence; nothing for a good one."""
    if not isinstance(entry, dict):
        yield "be an object with a name, a kind and a pattern"
        return
    yield from _broken_fields(entry)
    if entry.get("kind") not in get_args(Kind) or entry.get("role") not in get_args(Role):
        kinds, roles = ", ".join(get_args(Kind)), ", ".join(get_args(Role))
        yield f"have one of the known kinds and roles (kind: {kinds}; role: {roles})"
    if (entry.get("kind") == "message") != bool(entry.get("needle")):
        yield "have a needle if it is a message, and only then"
    if str(entry.get("severity")).lower() not in _SEVERITIES:
        yield f"have one of the severities {', '.join(_SEVERITIES)}; got {entry.get('severity')!r}"
    if not isinstance(entry.get("source"), str) or entry["source"] not in sources:
        yield f"name its source by a key of `sources`; got {entry.get('source')!r}"
    yield from _broken_pattern(str(entry.get("pattern", "")))


def _broken_fields(entry: Mapping[str, object]) -> Iterator[str]:
    unknown = sorted(entry.keys() - _FIELDS)
    if unknown:
        yield f"have no field {unknown[0]!r}; the fields are {', '.join(sorted(_FIELDS))}"
    for name in ("name", *TEXTS):
        value = entry.get(name)
        if not isinstance(value, str) or not value.strip():
            yield f"have a text as its {name}; got {value!r}"
    over = entry.get("over", [])
    if not isinstance(over, list | tuple) or not all(isinstance(one, str) for one in over):
        yield f"have a list of names as `over`; got {over!r}"


def _broken_pattern(pattern: str) -> Iterator[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        yield f"have a regular expression as its pattern ({error}); got {pattern!r}"
        return
    if compiled.search("") is not None:
        yield f"have a pattern that does not match an empty line; got {pattern!r}"


def _signature(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Signature:
    values = dict(entry)
    values["severity"] = Severity.parse(values["severity"])
    values["source"] = sources[values["source"]]
    values["over"] = tuple(values.get("over", ()))
    return Signature(**values)
