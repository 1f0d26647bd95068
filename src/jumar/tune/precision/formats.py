"""Reading and writing the vendor's precision files. Syntax only; `lists` has the meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jumar.errors import InputError
from jumar.tune.precision.lists import MODES, Changes, MixList, Mode, ModeList

BY_TYPE, BY_NAME = "ByOpType", "ByNodeName"
_COMMENTS = ("#", ";")
_LISTS = ("black-list", "white-list")
_CHANGES = ("to-remove", "to-add")


def ini_text(modes: ModeList) -> str:
    """Return an `op_precision_mode` file."""
    sections = [(BY_TYPE, modes.by_type), (BY_NAME, modes.by_name)]
    lines: list[str] = []
    for title, entries in sections:
        if entries or title == BY_TYPE:
            lines += [f"[{title}]", *(f"{name}={entries[name]}" for name in sorted(entries))]
    return "\n".join(lines) + "\n"


def parse_ini(text: str, where: str) -> ModeList:
    """Read an `op_precision_mode` file. Raises InputError, naming the line, for anything else."""
    entries: dict[str, dict[str, Mode]] = {BY_TYPE: {}, BY_NAME: {}}
    section = BY_TYPE
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith(_COMMENTS):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            if section not in entries:
                raise InputError(f"{where}:{number} begins {line}; it must be [{BY_TYPE}] or [{BY_NAME}].")
            continue
        name, separator, mode = (part.strip() for part in line.rpartition("="))
        if not separator or not name or mode not in MODES:
            raise InputError(f"{where}:{number} must be operator=mode, mode one of {', '.join(MODES)}; got {line!r}.")
        entries[section][name] = mode
    return ModeList(by_type=entries[BY_TYPE], by_name=entries[BY_NAME])


def mix_list_text(lists: MixList) -> str:
    """Return a `modify_mixlist` file."""
    data = {
        name: {"to-remove": list(changes.to_remove), "to-add": list(changes.to_add)}
        for name, changes in zip(_LISTS, (lists.black, lists.white), strict=True)
    }
    return json.dumps(data, indent=2) + "\n"


def mix_list_from(data: Mapping[str, Any], where: str) -> MixList:
    """Read the content of a `modify_mixlist` file. Raises InputError for anything else."""
    form = '{"black-list": {"to-remove": [...], "to-add": [...]}, "white-list": {...}}'
    if strange := set(data) - set(_LISTS):
        raise InputError(f"{where} has the key {min(strange)!r}, which is no list; it must hold {form}.")
    found: dict[str, Changes] = {}
    for name in _LISTS:
        changes = data.get(name, {})
        if not isinstance(changes, dict) or set(changes) - set(_CHANGES) or not all(map(_is_types, changes.values())):
            raise InputError(f"{where} has a {name} that lists no types; it must hold {form}.")
        found[name] = Changes(to_remove=tuple(changes.get("to-remove", ())), to_add=tuple(changes.get("to-add", ())))
    return MixList(black=found["black-list"], white=found["white-list"])


def _is_types(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, str) for item in items)
