"""The JSON file that says what to dump: read and checked."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from jumar.base.errors import InputError

DumpMode = Literal["input", "output", "all"]
SIDES: dict[str, frozenset[str]] = {
    "input": frozenset({"input"}),
    "output": frozenset({"output"}),
    "all": frozenset({"input", "output"}),
}

_KEYS = ("dump_list", "dump_path", "dump_mode", "dump_op_switch", "dump_debug")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSettings:
    """What the file asks for."""

    path: Path
    mode: DumpMode
    operators: bool
    """`dump_op_switch`: whether single operators are dumped. Off, nothing is: there are no offline models here."""
    debug: bool
    """`dump_debug`: collect overflows instead."""


def read(file: str | Path) -> DumpSettings:
    """Return what a configuration file asks for. Raises InputError, which says what is wrong and where."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the dump configuration {path} must be a readable file; got {reason}: check it.") from error
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"the dump configuration {path} must be JSON; got {error.msg} in line {error.lineno}: correct that line."
        ) from error
    return _checked(path, found)


def _checked(path: Path, found: Any) -> DumpSettings:
    table = found.get("dump") if isinstance(found, dict) else None
    if not isinstance(table, dict):
        raise InputError(
            f'the dump configuration {path} must be {{"dump": {{…}}}}; got {_short(found)}: put the keys under "dump".'
        )
    for key in table:
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(_KEYS)}."
            raise InputError(f"the dump configuration {path} has a key that is not emulated, {key!r}: {hint}")
    target = table.get("dump_path")
    if not isinstance(target, str) or not target.strip():
        raise InputError(
            f"the dump configuration {path} must name a folder as dump_path; got {_short(target)}: add it."
        )
    if table.get("dump_list") not in (None, [], ""):
        raise InputError(
            f"dump_list in {path} must be empty, because it names offline models; got {_short(table['dump_list'])}: "
            "empty it."
        )
    mode = _choice(path, table, "dump_mode", get_args(DumpMode), "output")
    operators = _choice(path, table, "dump_op_switch", ("on", "off"), "off") == "on"
    debug = _choice(path, table, "dump_debug", ("on", "off"), "off") == "on"
    if debug and operators:
        raise InputError(f"dump_debug and dump_op_switch in {path} must not both be on; got both: turn one off.")
    return DumpSettings(path=Path(target).absolute(), mode=mode, operators=operators, debug=debug)


def _choice(path: Path, table: dict[str, Any], key: str, allowed: tuple[str, ...], default: str) -> Any:
    value = table.get(key, default)
    if value not in allowed:
        raise InputError(f"{key} in {path} must be one of {', '.join(allowed)}; got {_short(value)}: correct it.")
    return value


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
