"""Reads a rule file: TOML or JSON by its name, in Jumar's own form or the vendor's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.convert.user_rules.fields import Table
from jumar.convert.user_rules.model import Argument, RemoveArgument, SetArgument, UserRule, UserRules
from jumar.convert.user_rules.own_form import own_rules
from jumar.convert.user_rules.patterns import Pattern, is_dotted_name

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


_DOTTED = "must be a name such as func or package.module.func"


def seed_rules(rules: Table) -> Iterator[UserRule]:
    """Yield the rules in the order of the document. Raises InputError where it is malformed."""
    rules.only(*_KINDS)
    for kind in rules.values:
        for entry in rules.tables(kind):
            yield _KINDS[kind](entry)


def _function_patterns(name: str) -> tuple[Pattern, ...]:
    if "." in name:
        return (Pattern(text=name),)
    return Pattern(text=f"**.{name}"), Pattern(text=f".{name}")


def _arguments(entry: Table) -> UserRule:
    entry.only("func_name", "arg_idx", "arg_new")
    function = entry.word("func_name", _DOTTED, is_dotted_name)
    argument = Argument(position=entry.count("arg_idx"))
    removes = entry.text("arg_new").strip() == ""
    change = (
        RemoveArgument(argument=argument)
        if removes
        else SetArgument(argument=argument, value=entry.expression("arg_new").strip())
    )
    return UserRule(
        name=_name(entry, "ArgsModifyRule"),
        place=entry.place,
        patterns=_function_patterns(function),
        called=True,
        functions=True,
        changes=(change,),
    )


def _function(entry: Table) -> UserRule:
    entry.only("old_name", "new_name")
    old = entry.word("old_name", _DOTTED, is_dotted_name)
    new = entry.word("new_name", _DOTTED, is_dotted_name)
    if "." in new and "." not in old:
        entry.fail("new_name", "must be a name without a dot where old_name is one")
    return UserRule(
        name=_name(entry, "FuncNameModifyRule"),
        place=entry.place,
        patterns=_function_patterns(old),
        called=True,
        functions=True,
        rename=new,
    )


def _module(entry: Table) -> UserRule:
    entry.only("old_name", "new_name", "parent_module")
    old, new = entry.name("old_name"), entry.name("new_name")
    parent = entry.word("parent_module", "must be the full name of the parent module, such as torch", is_dotted_name)
    return UserRule(
        name=_name(entry, "ModuleNameModifyRule"),
        place=entry.place,
        patterns=(Pattern(text=f"{parent}.{old}"),),
        rename=f"{parent}.{new}",
    )


def _name(entry: Table, kind: str) -> str:
    return entry.place.removeprefix("rules.") or kind


_KINDS: dict[str, Callable[[Table], UserRule]] = {
    "ArgsModifyRule": _arguments,
    "FuncNameModifyRule": _function,
    "ModuleNameModifyRule": _module,
}
