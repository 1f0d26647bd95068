"""Schemas of operators without torch: `Schema` and `Argument`, read from the text that PyTorch writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jumar.operators.data import computed, schema_lines
from jumar.operators.names import parse

_ALIAS = re.compile(r"\(([a-z|*]+)(!?)[^)]*\)")
_WORDS: Mapping[str, Any] = {"None": None, "True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: `type` is written as in the schema, without alias annotation."""

    name: str
    type: str
    has_default: bool
    default: Any
    is_written: bool
    is_keyword: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """The arguments of one overload; `text` is the schema as PyTorch writes it."""

    name: str
    text: str
    arguments: tuple[Argument, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, in order."""
        return tuple(argument.name for argument in self.arguments)


@lru_cache(maxsize=4096)
def schema(name: str) -> Schema | None:
    """Return the schema of one overload; None for an unknown one.

    A name without overload means the overload that has no name, or the only other one. A name without namespace is
    looked up in aten, then among the vendor's operators.
    """
    for full in _candidates(name):
        text = schema_lines().get(full)
        if text is not None:
            return Schema(full, text, tuple(_arguments(text)))
    return None


def overloads(name: str) -> tuple[str, ...]:
    """Return the overloads of an operator, the unnamed one as an empty text; none for an unknown operator."""
    namespace, base, _ = parse(name)
    return tuple(computed()["operators"].get(f"{namespace or 'aten'}::{base}", ()))


@lru_cache(maxsize=4096)
def defaults(name: str) -> Mapping[str, Any]:
    """Return the arguments that have a default, with it."""
    found = schema(name)
    return {} if found is None else {item.name: item.default for item in found.arguments if item.has_default}


def _candidates(name: str) -> list[str]:
    namespace, base, overload = parse(name)
    for space in (namespace,) if namespace else ("aten", "npu"):
        known = overloads(f"{space}::{base}")
        if overload in known:
            return [f"{space}::{base}.{overload}" if overload else f"{space}::{base}"]
        plain = [item for item in known if not item.endswith("out")]
        if not overload and plain:
            return [f"{space}::{base}.{plain[0]}"]
    return []


def _arguments(text: str) -> list[Argument]:
    found, is_keyword = [], False
    for part in _split(_inside(text)):
        if part == "*":
            is_keyword = True
            continue
        declared, _, default = part.partition("=")
        type_, _, name = declared.rpartition(" ")
        alias = _ALIAS.search(type_)
        found.append(
            Argument(
                name=name,
                type=_ALIAS.sub("", type_),
                has_default="=" in part,
                default=_value(default),
                is_written=alias is not None and bool(alias[2]),
                is_keyword=is_keyword,
            )
        )
    return found


def _inside(text: str) -> str:
    """Return what stands between the first parenthesis and the one that closes it."""
    start, depth = text.index("(") + 1, 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    for read in (int, float, json.loads):
        with suppress(ValueError):
            return read(text)
    return text.strip("'\"")
