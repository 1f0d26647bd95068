"""The map file, which a person edits: `write_map` and `read_map`.

It is TOML, one line a tensor of the target, in the target's order:

    "blocks.0.q.weight" = { from = "h.0.attn.c_attn.weight", how = "split 0 of 3 along 0", status = "matched", … }

A line without `from` makes the tensor by `how` alone (`zeros 128`). Lines that begin with `#` are proposals that count
only when a person takes the `#` away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jumar.base.errors import InputError
from jumar.export.mapping.entries import GUESSED, MATCHED, Entry
from jumar.export.mapping.transforms import parse_steps, text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = 1
_LARGEST = 64 << 20
_FIELDS = ("from", "how", "status", "score", "why")
_HEAD = """\
# A map of parameter names, proposed by `jumar export map`. One line a tensor of the target:
#   "TARGET" = {{ from = "SOURCE", how = "CHANGES", status = "matched" or "guessed", score = …, why = … }}
# `from` may be a list of sources, which `how` must join (`concat along 0`, `add`). `how` is empty or a list of changes:
#   transpose; permute 3 2 0 1; hwio_to_oihw; oihw_to_hwio; reshape 64 1 3 3; split 0 of 3 along 0;
#   gates icfo to ifco along 0; columns hwc to chw 64 7 7; zeros 128; concat along 0; add
# Look at the guesses, correct what is wrong, and feed the file back: jumar export map A B --map FILE --write OUT
# A target without a line keeps the value that it has in B.

version = {version}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """What a map file holds."""

    entries: tuple[Entry, ...]
    dropped: tuple[str, ...] = ()
    """Tensors of the source that are not wanted."""
    lines: Mapping[str, int]
    """The line of each target's entry; empty for a map that no file holds."""
    source: str = ""
    """The file, as errors name it."""

    def refuse(self, target: str, reason: object) -> NoReturn:
        """Raise InputError about the entry of a target."""
        where = f"{self.source}, line {self.lines[target]}: " if target in self.lines else ""
        raise InputError(f"{where}{target!r} cannot be made: {str(reason).rstrip('.')}.")


def text_of_map(
    entries: Sequence[Entry], missing: Mapping[str, tuple[str, Sequence[str]]], unused: Mapping[str, Sequence[str]]
) -> str:
    """Return the text of a map file.

    `missing` are targets without a source, each with its shape as text and the nearest sources; `unused` are sources
    without a target, each with the nearest targets.
    """
    lines = [_HEAD.format(version=VERSION), "[map]"]
    lines += [_line(entry) for entry in entries]
    for name, (shape, near) in missing.items():
        nearest = f"; nearest: {', '.join(near)}" if near else ""
        proposal = json.dumps(near[0], ensure_ascii=False) if near else '""'
        lines.append(f'# {_text(name)} = {{ from = {proposal}, how = "" }}  # no source, {shape}{_plain(nearest)}')
    lines += ["", "# Tensors of the source that no target takes. They are left out.", "[drop]", "sources = ["]
    lines += [
        f"  {_text(name)},{'  # nearest: ' + _plain(', '.join(near)) if near else ''}" for name, near in unused.items()
    ]
    return "\n".join([*lines, "]", ""])


def _line(entry: Entry) -> str:
    fields = []
    if len(entry.sources) == 1:
        fields.append(f"from = {_text(entry.sources[0])}")
    elif entry.sources:
        fields.append(f"from = [{', '.join(map(_text, entry.sources))}]")
    if entry.steps:
        fields.append(f"how = {_text(text_of(entry.steps))}")
    fields += [f"status = {_text(entry.status)}", f"score = {float(entry.score)}", f"why = {_text(entry.why)}"]
    return f"{_text(entry.target)} = {{ {', '.join(fields)} }}"


def _text(text: str) -> str:
    """Return a basic string of TOML: JSON's, where DEL is escaped, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """Return a text for a comment, which holds no control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def read_map(path: Path) -> Map:
    """Return what a map file holds. Raises InputError, in one sentence with the line, for what is not right."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is larger than a map can be (64 MiB); name a file of jumar export map.")
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name a file of jumar export map.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8; name a file of jumar export map.") from error
    return parse_map(text, str(path))


def parse_map(text: str, source: str = "the map") -> Map:
    """Return what the text of a map file holds; `source` is named in errors. Raises InputError."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise InputError(f"{source} is no valid TOML: {reason}; correct that place.") from error
    lines = text.splitlines()
    if found.get("version") != VERSION:
        line = _line_of(lines, "version")
        raise InputError(f"{source}, line {line}: version must be {VERSION}; got {found.get('version')!r}; map again.")
    table, drop = found.get("map", {}), found.get("drop", {})
    if unknown := sorted(found.keys() - {"version", "map", "drop"}):
        raise InputError(
            f"{source}, line {_line_of(lines, unknown[0])}: {unknown[0]!r} is no part of a map; remove it."
        )
    if not isinstance(table, dict) or not isinstance(drop, dict):
        raise InputError(f"{source}: map and drop must be tables; write [map] and [drop].")
    places = {name: _line_of(lines, name) for name in table}
    entries = tuple(_entry(name, told, f"{source}, line {places[name]}") for name, told in table.items())
    dropped = drop.get("sources", [])
    if not _are_texts(dropped) or drop.keys() - {"sources"}:
        raise InputError(f"{source}, line {_line_of(lines, 'sources')}: [drop] must hold sources, a list of names.")
    return Map(entries=entries, dropped=tuple(dropped), lines=places, source=source)


def _entry(target: str, told: Any, where: str) -> Entry:
    if isinstance(told, str):
        told = {"from": told}
    if not isinstance(told, dict):
        raise InputError(f"{where}: an entry is {{ from = …, how = … }} or a name; got {told!r}.")
    if unknown := sorted(told.keys() - set(_FIELDS)):
        raise InputError(f"{where}: {unknown[0]!r} is no field of an entry; use {', '.join(_FIELDS)}.")
    sources = told.get("from", [])
    sources = [sources] if isinstance(sources, str) else sources
    how, status, score, why = (told.get(name, default) for name, default in zip(_FIELDS[1:], _DEFAULTS, strict=True))
    if not _are_texts(sources) or "" in sources:
        raise InputError(f"{where}: from must be a name of the source or a list of names; got {told.get('from')!r}.")
    if not isinstance(how, str) or not isinstance(why, str):
        raise InputError(f"{where}: how and why must be text; put them in quotes.")
    if status not in (MATCHED, GUESSED):
        raise InputError(f"{where}: status must be {MATCHED} or {GUESSED}; got {status!r}.")
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise InputError(f"{where}: score must be a number from 0 to 1; got {score!r}.")
    try:
        steps = parse_steps(how)
    except InputError as error:
        raise InputError(f"{where}: {error}.") from error
    if not sources and [step.kind for step in steps][:1] != ["zeros"]:
        raise InputError(f"{where}: an entry without a source must begin with zeros and a shape; name a source.")
    return Entry(target=target, sources=tuple(sources), steps=steps, status=status, score=float(score), why=why)


_DEFAULTS: tuple[Any, ...] = ("", MATCHED, 1.0, "by hand")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _line_of(lines: Sequence[str], name: str) -> int:
    """Return the number of the line that begins with a key, 1 where none does."""
    quoted = (_text(name), json.dumps(name), f"'{name}'", name)
    for number, line in enumerate(lines, 1):
        rest = line.strip()
        if any(rest.startswith(form) and rest[len(form) :].lstrip().startswith("=") for form in quoted):
            return number
    return 1
