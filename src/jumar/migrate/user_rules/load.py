"""A rule file into user rules: TOML or JSON by its name, the form by what `rules` holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.errors import InputError
from jumar.migrate.user_rules.fields import Table
from jumar.migrate.user_rules.model import UserRules
from jumar.migrate.user_rules.own_form import own_rules
from jumar.migrate.user_rules.seed_form import seed_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load(path: str | Path) -> UserRules:
    """Read the rules of a file. Raises InputError, which names file, place, what is there and what must be there."""
    path = Path(path)
    if path.suffix not in _PARSERS:
        raise InputError(f'"{path}" must end in .json or .toml to be a file of rules.')
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f'"{path}" must be a file of rules, and cannot be read: {error.strerror}.') from error
    return loads(data, str(path))


def loads(data: bytes, name: str) -> UserRules:
    """Read the rules of a file called `name` (.json or .toml) from its bytes. Raises InputError as `load` does."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: must be UTF-8 text; byte {error.start} is not: save it as UTF-8.") from error
    try:
        document = _PARSERS[Path(name).suffix](text)
    except json.JSONDecodeError as error:
        where = f"{name}, line {error.lineno}, column {error.colno}"
        raise InputError(f"{where}: must be JSON; {_lower(error.msg)}: correct it and run again.") from error
    except (ValueError, RecursionError) as error:
        kind = Path(name).suffix.removeprefix(".").upper()
        raise InputError(f"{name}: must be {kind}; {_lower(_line(error))}: correct it and run again.") from error
    return _rules(document, name)


def _rules(document: Any, name: str) -> UserRules:
    top = Table.of(document, name, "")
    top.only("rules", "schema")
    if "schema" in top:
        top.one_of("schema", {1: 1})
    rules = top.any("rules")
    found = own_rules(top) if isinstance(rules, list) else seed_rules(top.table("rules"))
    return UserRules(rules=tuple(found), path=name)


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_no_twins)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the key "{key}" stands twice in one object')
        found[key] = value
    return found


_PARSERS: dict[str, Callable[[str], Any]] = {".json": _parse_json, ".toml": tomllib.loads}


def _line(error: BaseException) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0].rstrip(".")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
